use askama::Template;
use nearhead_actors::upstream::Choice;
use nearhead_tenants::administration::ListKeys;

use super::{
    fleet_page,
    frame::Frame,
    show::{self, State},
    usage_panel::Tile,
    visit::{Answer, Visit, page, see_other},
};
use crate::admin::{
    assets,
    fleet_view::FleetView,
    overview::{AgreementView, NodeView, OverviewView},
};

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    readiness: State,
    /// Why the service is not ready, and why its store does not work.
    warnings: Vec<String>,
    has_no_keys: bool,
    /// What it is in its fleet; `None` without one.
    fleet: Option<String>,
    tiles: Vec<Tile>,
    nodes: Vec<NodeView>,
    saturation: Vec<Saturation>,
}

/// How much of something that is bounded is in use.
struct Saturation {
    name: &'static str,
    used: usize,
    most: usize,
    share: f64,
}

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage {
    frame: Frame,
    agreement: Option<Agreement>,
    nodes: Vec<NodeView>,
}

/// What the nodes agree on.
struct Agreement {
    head: String,
    age: String,
    agreeing: usize,
    needed: usize,
    choice: String,
    /// What the choice means.
    meaning: String,
}

fn overview(visit: &Visit<'_>) -> OverviewView {
    let context = visit.context;
    OverviewView::of(context.server, &context.admin.nodes, context.recent)
}

/// What the service does now. Holders see their keys instead.
pub(super) async fn show(visit: &Visit<'_>) -> Answer {
    let frame = visit.frame("/");
    if !frame.is_admin {
        return Ok(see_other("/keys"));
    }
    let one = ListKeys {
        limit: Some(1),
        ..ListKeys::default()
    };
    let has_no_keys = visit.run(one).await?.total == 0;
    let view = overview(visit);
    let readiness = match view.ready {
        true => show::state("good", "ready"),
        false => show::state("bad", "not ready"),
    };
    let not_ready = (!view.ready).then(|| format!("Not ready: {}.", view.reasons.join("; ")));
    let store = view.store_failure.as_ref().map(|failure| {
        format!("Tenants, keys and usage cannot be stored: {failure}. Requests are still served.")
    });
    let warnings = not_ready.into_iter().chain(store).collect();
    let saturation = view.permits.iter().map(|permits| Saturation {
        name: kind(permits.kind),
        used: permits.in_use,
        most: permits.in_use + permits.available,
        share: permits.in_use as f64 / (permits.in_use + permits.available).max(1) as f64,
    });
    page(&OverviewPage {
        frame,
        readiness,
        warnings,
        has_no_keys,
        fleet: fleet_page::sentence(&FleetView::of(visit.context.server)),
        tiles: tiles(&view),
        saturation: saturation.collect(),
        nodes: view.nodes,
    })
}

/// A kind of permits in words.
fn kind(kind: &'static str) -> &'static str {
    match kind {
        "cheap" => "Cheap calls",
        "measured" => "Measured calls",
        "remote_accounts" => "Accounts awaited from nodes",
        "forwarded_calls" => "Calls passed to nodes",
        other => other,
    }
}

fn age(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.1} s old"),
        ..120.0 => format!("{seconds:.0} s old"),
        _ => format!("{:.0} min old", seconds / 60.0),
    }
}

fn tiles(view: &OverviewView) -> Vec<Tile> {
    let tile = |name, value, note| Tile { name, value, note };
    let last = &view.last_minute;
    let seconds = last.seconds.max(1.0);
    let millis = |millis: Option<f64>| millis.map_or_else(|| "–".to_owned(), show::duration);
    let (head, note) = match &view.head {
        Some(head) => (show::count(&head.number), age(head.age_seconds)),
        None => ("–".to_owned(), "there is no block yet".to_owned()),
    };
    let count = |number: i64| show::count(&number.unsigned_abs());
    let blocks = view.head.as_ref().map_or_else(String::new, |head| {
        format!("of {} blocks", head.blocks_wanted)
    });
    let held = view.head.as_ref().map_or(0, |head| head.blocks);
    vec![
        tile("Head", head, note),
        tile("Window", show::count(&held), blocks),
        tile(
            "Requests a second",
            format!("{:.1}", last.requests as f64 / seconds),
            format!("{} in all", show::count(&view.requests)),
        ),
        tile(
            "Errors",
            show::share(&last.errors, &last.requests),
            format!("{} in a minute", show::count(&last.errors)),
        ),
        tile(
            "Latency, p50",
            millis(last.p50_millis),
            format!("p99 {}", millis(last.p99_millis)),
        ),
        tile(
            "Sessions",
            count(view.sessions),
            format!("{} subscriptions", count(view.subscriptions)),
        ),
    ]
}

/// What a choice means, by its label.
fn meaning(label: &str) -> Option<String> {
    let mut all = Choice::ALL.iter();
    let choice = all.find(|choice| choice.label() == label)?;
    Some(choice.to_string())
}

/// The nodes, and what they agree on.
pub(super) fn nodes(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let view = overview(visit);
    let agreement = view.agreement.as_ref().map(|agreement| {
        let AgreementView {
            choice,
            agreeing,
            needed,
        } = agreement;
        let head = view.head.as_ref();
        Agreement {
            head: head.map_or_else(|| "–".to_owned(), |head| show::count(&head.number)),
            age: head.map_or_else(String::new, |head| age(head.age_seconds)),
            agreeing: *agreeing,
            needed: *needed,
            choice: choice.map_or_else(|| "–".to_owned(), show::words),
            meaning: choice.and_then(meaning).unwrap_or_default(),
        }
    });
    page(&NodesPage {
        frame: visit.frame("/nodes"),
        agreement,
        nodes: view.nodes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page has no labels of metrics, but words and a sentence.
    #[test]
    fn choices_are_said_in_words() {
        for choice in Choice::ALL {
            let (words, sentence) = (show::words(choice.label()), meaning(choice.label()));
            assert!(!words.contains('_'), "{words}");
            assert_eq!(sentence, Some(choice.to_string()));
        }
        assert_eq!(show::words(Choice::TooFewNodes.label()), "too few nodes");
        assert_eq!(meaning("unknown"), None);
    }
}
