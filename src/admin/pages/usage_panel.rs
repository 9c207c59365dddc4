use nearhead_tenants::{
    administration::{Breakdown, GetUsage, LatencyView, Span, UsageRowView, UsageView},
    id::{KeyId, TenantId},
    usage::{GroupBy, SESSION_LABEL},
};

use super::{link::link, page_error::PageError, show, visit::Visit};

/// Where the API answers usage.
const API: &str = "/admin/api/v1/usage";

/// The ranges that may be chosen: the word in addresses, its name, and how it is spoken of.
const RANGES: [(&str, &str, &str); 6] = [
    ("15m", "15 min", "in the last 15 minutes"),
    ("1h", "1 h", "in the last hour"),
    ("6h", "6 h", "in the last 6 hours"),
    ("24h", "24 h", "in the last 24 hours"),
    ("7d", "7 d", "in the last 7 days"),
    ("30d", "30 d", "in the last 30 days"),
];

/// The one that is shown at first.
const FIRST: usize = 1;

/// What outcomes mean.
const OUTCOMES: [(&str, &str); 6] = [
    ("ok", "answered with a result"),
    ("invalid", "the client’s mistake"),
    ("denied", "not allowed, or over a limit"),
    ("refused", "not possible at that moment"),
    ("timeout", "took too long"),
    ("internal", "a defect of this program"),
];

/// Whose usage.
#[derive(Clone, Copy, Debug)]
pub(super) enum UsageOf {
    /// Of everything that the visitor may see.
    All,
    Tenant(TenantId),
    Key(KeyId),
}

/// The part of a page that shows usage.
pub(super) struct UsagePanel {
    pub(super) title: &'static str,
    pub(super) ranges: Vec<Range>,
    pub(super) csv: String,
    pub(super) json: String,
    /// Where the charts get their numbers.
    pub(super) chart: String,
    pub(super) tiles: Vec<Tile>,
    pub(super) methods: Vec<UsageLine>,
    pub(super) outcomes: Vec<UsageLine>,
    pub(super) is_empty: bool,
    /// The range in words.
    pub(super) when: &'static str,
    /// What to do if nothing was used.
    pub(super) todo: &'static str,
}

/// A range that may be chosen.
pub(super) struct Range {
    pub(super) name: &'static str,
    pub(super) link: String,
    pub(super) is_chosen: bool,
}

/// A number that one sees first.
pub(super) struct Tile {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) note: String,
}

/// The usage of one method, or with one outcome.
pub(super) struct UsageLine {
    pub(super) name: String,
    pub(super) requests: String,
    /// Of all requests.
    pub(super) share: f64,
    pub(super) units: String,
    pub(super) p50: String,
    pub(super) p95: String,
    pub(super) bytes_out: String,
    pub(super) means: &'static str,
}

impl UsagePanel {
    /// Asks for the usage of the range that the address names. `path` is the page's own.
    pub(super) async fn load(
        visit: &Visit<'_>,
        of: UsageOf,
        path: &str,
    ) -> Result<Self, PageError> {
        let asked = visit.query.get("last");
        let chosen = RANGES.iter().position(|(word, ..)| *word == asked);
        let chosen = chosen.unwrap_or(FIRST);
        let (word, _, when) = RANGES[chosen];
        let [sums, methods, outcomes] = [
            GroupBy::default(),
            GroupBy {
                method: true,
                ..GroupBy::default()
            },
            GroupBy {
                outcome: true,
                ..GroupBy::default()
            },
        ]
        .map(|by| question(of, word, by));
        let sums = visit.usage(sums).await?;
        let methods = visit.usage(methods).await?;
        let outcomes = visit.usage(outcomes).await?;
        let sum = sums.rows.first();
        let requests = sum.map_or(0, |row| row.requests);
        let is_used = sum.is_some_and(|row| row.requests + row.units + row.sessions > 0);
        let ranges = RANGES
            .iter()
            .enumerate()
            .map(|(index, (word, name, _))| Range {
                name,
                link: format!("{}#usage", link(path, &[("last", word)])),
                is_chosen: index == chosen,
            });
        let export = |format: &str| {
            let (tenant, key) = of.parameters();
            let by = "time,method,outcome";
            link(
                API,
                &[
                    ("tenant", &tenant),
                    ("key", &key),
                    ("last", &word),
                    ("by", &by),
                    ("format", &format),
                ],
            )
        };
        let (tenant, key) = of.parameters();
        let by = [
            ("tenant", &tenant as _),
            ("key", &key as _),
            ("last", &word as _),
            ("by", &"time" as _),
        ];
        Ok(Self {
            title: match of {
                UsageOf::All if visit.frame("/usage").is_admin => "All keys",
                UsageOf::All => "Your keys",
                UsageOf::Tenant(_) | UsageOf::Key(_) => "Usage",
            },
            ranges: ranges.collect(),
            csv: export("csv"),
            json: export(""),
            chart: link(API, &by),
            tiles: tiles(&sums),
            methods: lines(&methods, requests, |row| row.method.as_deref()),
            outcomes: lines(&outcomes, requests, |row| row.outcome.as_deref()),
            is_empty: !is_used,
            when,
            todo: match of {
                UsageOf::Key(_) => "Send a request with the key, or choose a longer range.",
                _ => "Send a request with one of the keys, or choose a longer range.",
            },
        })
    }
}

impl UsageOf {
    /// The parameters `tenant` and `key` of the API.
    fn parameters(self) -> (String, String) {
        match self {
            Self::All => (String::new(), String::new()),
            Self::Tenant(id) => (id.to_string(), String::new()),
            Self::Key(id) => (String::new(), id.to_string()),
        }
    }
}

fn question(of: UsageOf, last: &str, by: GroupBy) -> GetUsage {
    let (tenant, key) = match of {
        UsageOf::All => (None, None),
        UsageOf::Tenant(id) => (Some(id.into()), None),
        UsageOf::Key(id) => (None, Some(id)),
    };
    GetUsage {
        tenant,
        key,
        last: last.parse::<Span>().ok(),
        by: Breakdown(by),
        ..GetUsage::default()
    }
}

fn tiles(usage: &UsageView) -> Vec<Tile> {
    let none = UsageRowView {
        at: None,
        key: None,
        method: None,
        outcome: None,
        requests: 0,
        errors: 0,
        units: 0,
        bytes_in: 0,
        bytes_out: 0,
        sessions: 0,
        notifications: 0,
        latency: LatencyView::default(),
    };
    let row = usage.rows.first().unwrap_or(&none);
    let longest = usage.latency_bounds.last().copied();
    let latency = |millis| show::latency(millis, row.requests, longest);
    let tile = |name, value, note| Tile { name, value, note };
    vec![
        tile("Requests", show::count(&row.requests), String::new()),
        tile(
            "Errors",
            show::count(&row.errors),
            show::share(&row.errors, &row.requests),
        ),
        tile("Units", show::count(&row.units), String::new()),
        tile(
            "Latency, p95",
            latency(row.latency.p95),
            format!("p50 {}", latency(row.latency.p50)),
        ),
        tile(
            "Sent",
            show::bytes(row.bytes_out),
            format!("received {}", show::bytes(row.bytes_in)),
        ),
        tile(
            "Sessions",
            show::count(&row.sessions),
            format!("{} notifications", show::count(&row.notifications)),
        ),
    ]
}

/// The rows of requests, the largest first.
fn lines(
    usage: &UsageView,
    requests: u64,
    name: impl Fn(&UsageRowView) -> Option<&str>,
) -> Vec<UsageLine> {
    let longest = usage.latency_bounds.last().copied();
    let mut rows: Vec<&UsageRowView> = usage.rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.requests, row.units)));
    let line = |row: &UsageRowView| {
        let name = name(row).unwrap_or_default();
        let means = match name {
            SESSION_LABEL => "sessions and their notifications",
            name => OUTCOMES
                .iter()
                .find(|(outcome, _)| *outcome == name)
                .map_or("", |(_, means)| means),
        };
        UsageLine {
            name: name.to_owned(),
            requests: show::count(&row.requests),
            share: row.requests as f64 / requests.max(1) as f64,
            units: show::count(&row.units),
            p50: show::latency(row.latency.p50, row.requests, longest),
            p95: show::latency(row.latency.p95, row.requests, longest),
            bytes_out: show::bytes(row.bytes_out),
            means,
        }
    };
    rows.into_iter().map(line).collect()
}
