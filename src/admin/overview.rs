//! What the service does now: for the page that shows it, and for the API.

use std::time::{Duration, Instant};

use nearhead_actors::readiness::ReadinessReport;
use serde::Serialize;

use super::{probes::reason, recent_traffic::RecentTraffic};
use crate::{
    http::ServerState,
    metrics::{NodeCounts, Outcome, Traffic},
};

/// The service at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OverviewView {
    /// The program's version.
    pub(super) version: &'static str,
    /// Whether it is ready to serve.
    pub(super) ready: bool,
    /// Why it is not, one sentence each.
    pub(super) reasons: Vec<String>,
    /// Why the store of tenants and keys does not work; nothing while it does.
    pub(super) store_failure: Option<String>,
    /// The newest block that is served; there is none at first.
    pub(super) head: Option<HeadView>,
    /// What is decided about the head; there is nothing to decide without nodes.
    pub(super) agreement: Option<AgreementView>,
    /// The nodes that are followed.
    pub(super) nodes: Vec<NodeView>,
    /// JSON-RPC requests since the start.
    pub(super) requests: u64,
    /// The same, by outcome.
    pub(super) outcomes: Vec<OutcomeView>,
    /// What clients asked for in the last minute.
    pub(super) last_minute: TrafficView,
    /// HTTP requests that are being read or answered.
    pub(super) in_flight: i64,
    /// Open WebSocket sessions.
    pub(super) sessions: i64,
    /// Their subscriptions.
    pub(super) subscriptions: i64,
    /// How much of what is bounded is taken.
    pub(super) permits: Vec<PermitView>,
}

/// The newest block that is served.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeadView {
    /// Its number.
    pub(super) number: u64,
    /// Its hash.
    pub(super) hash: String,
    /// How old it is.
    pub(super) age_seconds: f64,
    /// Blocks that are held.
    pub(super) blocks: usize,
    /// Blocks that will be held.
    pub(super) blocks_wanted: u64,
}

/// What the nodes agree on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgreementView {
    /// What is decided; nothing at first.
    pub(super) choice: Option<&'static str>,
    /// How many nodes agree.
    pub(super) agreeing: usize,
    /// How many have to.
    pub(super) needed: usize,
}

/// A node that is followed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeView {
    /// Its position in the configuration.
    pub(super) node: usize,
    /// Its URL, without secrets.
    pub(super) url: String,
    /// Its state; it has none at first.
    pub(super) state: Option<String>,
    /// Times that it contradicted the others.
    pub(super) dissent: u64,
    /// Answers in which it asked for fewer calls.
    pub(super) limited: u64,
    /// What it did wrong, and how often.
    pub(super) faults: Vec<FaultView>,
}

/// What a node did wrong.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FaultView {
    /// What.
    pub(super) reason: String,
    /// How often.
    pub(super) count: u64,
}

/// Requests with one outcome.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutcomeView {
    /// The outcome.
    pub(super) outcome: &'static str,
    /// How many.
    pub(super) requests: u64,
}

/// Requests within some time.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TrafficView {
    /// The time; shorter than a minute after the start.
    pub(super) seconds: f64,
    /// Requests.
    pub(super) requests: u64,
    /// Those that were not answered with a result.
    pub(super) errors: u64,
    /// The time of an answer that half of them took at most, in milliseconds; there is none without
    /// requests.
    pub(super) p50_millis: Option<f64>,
    /// The same for 90 of 100.
    pub(super) p90_millis: Option<f64>,
    /// The same for 99 of 100.
    pub(super) p99_millis: Option<f64>,
}

/// A kind of work of which only so much is done at a time.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermitView {
    /// Its name in metrics.
    pub(super) kind: &'static str,
    /// How much is done now.
    pub(super) in_use: usize,
    /// How much more may be done.
    pub(super) available: usize,
}

impl OverviewView {
    /// The service now. `nodes` are the URLs of its nodes.
    pub(super) fn of(server: &ServerState, nodes: &[String], recent: &RecentTraffic) -> Self {
        let ReadinessReport { reasons, .. } = server.readiness.report();
        let reasons: Vec<String> = reasons
            .into_iter()
            .map(|unready| reason(unready).into_owned())
            .collect();
        let traffic = server.metrics.traffic();
        let (period, last) = recent.until(Instant::now(), &traffic);
        let agreement = server.readiness.upstreams.as_ref();
        let agreement = agreement.map(|standing| standing.agreement());
        let permits = server.reads.admission.permits().into_iter();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            ready: reasons.is_empty(),
            reasons,
            store_failure: server
                .tenant_store
                .failure()
                .map(|failure| failure.to_string()),
            head: HeadView::of(server),
            agreement: agreement.map(|agreement| AgreementView {
                choice: agreement.choice.map(|choice| choice.label()),
                agreeing: agreement.agreeing,
                needed: agreement.needed,
            }),
            nodes: NodeView::all(server, nodes),
            requests: traffic.requests(),
            outcomes: outcomes(&traffic),
            last_minute: TrafficView::of(period, &last),
            in_flight: server.metrics.in_flight.get(),
            sessions: server.metrics.sessions.get(),
            subscriptions: server.metrics.subscriptions.get(),
            permits: permits
                .map(|permits| PermitView {
                    kind: permits.kind,
                    in_use: permits.in_use,
                    available: permits.available,
                })
                .collect(),
        }
    }
}

impl HeadView {
    fn of(server: &ServerState) -> Option<Self> {
        let status = server.readiness.report().head?;
        let snapshot = server.readiness.head.load()?;
        // The snapshot may be newer than the report.
        Some(Self {
            number: snapshot.head().number(),
            hash: snapshot.head().hash.to_string(),
            age_seconds: status.age.as_secs_f64(),
            blocks: status.blocks,
            blocks_wanted: status.blocks_wanted,
        })
    }
}

impl NodeView {
    /// The nodes with these URLs.
    pub(super) fn all(server: &ServerState, urls: &[String]) -> Vec<Self> {
        let view = |(node, url): (usize, &String)| {
            let NodeCounts {
                state,
                dissent,
                limited,
                faults,
            } = server.metrics.nodes.of(node);
            let fault = |(reason, count)| FaultView { reason, count };
            Self {
                node,
                url: url.clone(),
                state,
                dissent,
                limited,
                faults: faults.into_iter().map(fault).collect(),
            }
        };
        urls.iter().enumerate().map(view).collect()
    }
}

fn outcomes(traffic: &Traffic) -> Vec<OutcomeView> {
    let counts = Outcome::ALL.into_iter().zip(traffic.outcomes);
    counts
        .map(|(outcome, requests)| OutcomeView {
            outcome: outcome.label(),
            requests,
        })
        .collect()
}

impl TrafficView {
    fn of(period: Duration, traffic: &Traffic) -> Self {
        let millis = |share| traffic.quantile_seconds(share).map(|seconds| seconds * 1e3);
        Self {
            seconds: period.as_secs_f64(),
            requests: traffic.requests(),
            errors: traffic.requests() - traffic.outcomes[Outcome::Ok as usize],
            p50_millis: millis(0.5),
            p90_millis: millis(0.9),
            p99_millis: millis(0.99),
        }
    }
}
