use askama::Template;
use nearhead_tenants::UnixMillis;

use super::{
    clock::{Clock, When},
    frame::Frame,
    page_error::PageError,
    show::{self, State},
    visit::{Answer, Visit, page},
};
use crate::admin::{
    assets,
    fleet_view::{FleetView, ProcessView},
};

/// Seconds after which what is known of the fleet is old: a store that answers is asked once a
/// second in most fleets, and every ten in the largest.
const OLD_SECONDS: f64 = 15.0;

#[derive(Template)]
#[template(path = "fleet.html")]
struct FleetPage {
    frame: Frame,
    /// What is wrong.
    warnings: Vec<String>,
    clock: Clock,
    processes: Vec<ProcessView>,
}

impl FleetPage {
    fn since(&self, process: &ProcessView) -> When {
        self.clock.ago(&UnixMillis(process.started))
    }
}

/// A role in words.
fn role(process: &ProcessView) -> State {
    match process.role.as_str() {
        "leader" => show::state("good", "leader"),
        "replica" => show::state("", "replica"),
        "own_nodes" => show::state("warn", "own nodes"),
        _ => show::state("", "unknown"),
    }
}

/// What distinguishes a process on one page.
fn short(process: &ProcessView) -> &str {
    process.id.get(..8).unwrap_or(&process.id)
}

fn head(process: &ProcessView) -> String {
    let number = process.head.as_ref().map(|head| show::count(&head.number));
    number.unwrap_or_else(|| "–".to_owned())
}

fn hash(process: &ProcessView) -> &str {
    process.head.as_ref().map_or("", |head| &head.hash)
}

fn lag(process: &ProcessView) -> String {
    match (process.lag_entries, process.lag_millis) {
        (0, 0) => "none".to_owned(),
        (entries, millis) => {
            let time = show::duration(millis as f64);
            format!("{} entries, {time}", show::count(&entries))
        }
    }
}

/// What this process is in its fleet, in a sentence; `None` without a fleet.
pub(super) fn sentence(view: &FleetView) -> Option<String> {
    if !view.in_fleet {
        return None;
    }
    let count = view.processes.len();
    let Some(own) = view.processes.iter().find(|process| process.is_this) else {
        return Some("The fleet's store has not answered yet.".to_owned());
    };
    let what = match own.role.as_str() {
        "leader" => "leads",
        "own_nodes" => "follows its own nodes, because it lacks entries, in",
        _ => "is a replica in",
    };
    let processes = if count == 1 { "process" } else { "processes" };
    Some(format!(
        "This process {what} a fleet of {count} {processes}, in epoch {}.",
        own.epoch
    ))
}

fn warnings(view: &FleetView) -> Vec<String> {
    let old = match view.read_seconds_ago {
        None => Some("The fleet's store has not answered yet.".to_owned()),
        Some(OLD_SECONDS..) => Some(
            "The fleet's store does not answer: the processes are shown as they were.".to_owned(),
        ),
        Some(_) => None,
    };
    let mut leaders = view.processes.iter().map(|process| process.role.as_str());
    let has_leader = leaders.any(|role| role == "leader");
    let leaderless = (old.is_none() && !has_leader)
        .then(|| "No process leads: the head stands still until one does.".to_owned());
    old.into_iter().chain(leaderless).collect()
}

/// The processes of the fleet.
pub(super) fn show(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let view = FleetView::of(visit.context.server);
    if !view.in_fleet {
        return Err(PageError::unknown("This process is in no fleet."));
    }
    page(&FleetPage {
        frame: visit.frame("/fleet"),
        warnings: warnings(&view),
        clock: visit.clock,
        processes: view.processes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(role: &str, is_this: bool) -> ProcessView {
        ProcessView {
            id: "a".to_owned(),
            is_this,
            host: "eth-1".to_owned(),
            role: role.to_owned(),
            epoch: 3,
            head: None,
            lag_entries: 0,
            lag_millis: 0,
            version: "0.1.0".to_owned(),
            entries_version: 1,
            started: 0,
        }
    }

    fn view(read_seconds_ago: Option<f64>, processes: Vec<ProcessView>) -> FleetView {
        FleetView {
            in_fleet: true,
            read_seconds_ago,
            refused: 0,
            processes,
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let both = || vec![process("replica", true), process("leader", false)];
        assert!(warnings(&view(Some(1.0), both())).is_empty());
        for (view, expected) in [
            (view(Some(60.0), both()), "does not answer"),
            (view(None, Vec::new()), "not answered yet"),
            (
                view(Some(1.0), vec![process("replica", true)]),
                "No process leads",
            ),
        ] {
            let found = warnings(&view);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn a_process_is_described_in_words() {
        let text = sentence(&view(Some(1.0), vec![process("leader", true)]));
        let expected = "This process leads a fleet of 1 process, in epoch 3.";
        assert_eq!(text.as_deref(), Some(expected));
        let alone = FleetView {
            in_fleet: false,
            ..view(None, Vec::new())
        };
        assert_eq!(sentence(&alone), None);
        let mut lags = process("replica", false);
        assert_eq!(
            (lag(&lags), head(&lags)),
            ("none".to_owned(), "–".to_owned())
        );
        (lags.lag_entries, lags.lag_millis) = (1_200, 2_500);
        assert_eq!(lag(&lags), "1,200 entries, 2.5 s");
    }
}
