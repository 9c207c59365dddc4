//! Readiness with its reasons, and metrics.

use std::{borrow::Cow, fmt::Write as _};

use actix_web::{HttpResponse, http::StatusCode};
use nearhead_actors::{
    fleet::FleetFacts,
    readiness::{HeadStatus, ReadinessReport, Unready},
    upstream::{Choice, HeadAgreement},
};

use crate::http::{ServerState, not_cached};

/// The answer to `/ready`: 200, or 503 with the reasons.
pub(super) fn ready(server: &ServerState) -> HttpResponse {
    let ReadinessReport { reasons, head } = server.readiness.report();
    let missing: Vec<_> = reasons.into_iter().map(reason).collect();
    let mut facts = String::new();
    if let Some(HeadStatus {
        number,
        blocks,
        blocks_wanted,
        age,
    }) = head
    {
        // Writing to a string cannot fail.
        let _ = write!(
            facts,
            r#","head":{number},"blocks":{blocks},"blocks_wanted":{blocks_wanted},"head_age_seconds":{:.3}"#,
            age.as_secs_f64()
        );
    }
    if !server.readiness.has_header_rules {
        facts.push_str(r#","header_rules":"off""#);
    }
    if let Some(fleet) = &server.readiness.fleet {
        let FleetFacts { role, epoch, .. } = fleet.facts();
        let role = role.label();
        let _ = write!(facts, r#","fleet":{{"role":"{role}","epoch":{epoch}}}"#);
    }
    // Only what administers stands still without it, so that the service stays ready.
    if let Some(failure) = server.tenant_store.failure() {
        facts.push_str(&store_fact(&failure.to_string()));
    }
    let is_ready = missing.is_empty();
    let missing: Vec<String> = missing.iter().map(|what| format!("\"{what}\"")).collect();
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(
        status,
        format!(
            r#"{{"ready":{is_ready},"missing":[{}]{facts}}}"#,
            missing.join(",")
        ),
    )
}

/// Why the store fails. The sentence has a path in it, which needs escaping in JSON.
fn store_fact(failure: &str) -> String {
    format!(r#","store":{}"#, serde_json::Value::from(failure))
}

/// Why the service is not ready, as a sentence that needs no escaping in JSON.
pub(super) fn reason(unready: Unready) -> Cow<'static, str> {
    Cow::Borrowed(match unready {
        Unready::ShuttingDown => "the service is going away",
        Unready::HeadStands(agreement) => return why_head_stands(agreement).into(),
        Unready::FleetVersion(version) => {
            return format!(
                "the fleet's leader writes version {version} of entries, which this program cannot read: replace it by a newer one"
            )
            .into();
        }
        Unready::FleetNotRead => "the fleet's entries are not read to their end yet",
        Unready::NoBlock => "there is no block yet",
        Unready::WindowNotFilled => "the window is not filled yet",
        Unready::HeadStale => "the head is stale",
    })
}

/// Why no head may be served but the present one. The sentences need no escaping in JSON.
fn why_head_stands(agreement: HeadAgreement) -> String {
    let HeadAgreement {
        choice,
        agreeing,
        needed,
    } = agreement;
    match choice {
        None => "the nodes have named no head yet".to_owned(),
        Some(Choice::TooFewNodes | Choice::Disagree) => {
            let agree = match agreeing {
                1 => "node agrees",
                _ => "nodes agree",
            };
            let have = if needed == 1 { "has" } else { "have" };
            format!("{agreeing} {agree}, {needed} {have} to")
        }
        Some(choice) => choice.to_string(),
    }
}

/// The answer to `/metrics`: all metrics in Prometheus' text format. No key is asked for, and to
/// gather them costs as much as many requests, so that a page is given for some time.
pub(super) fn metrics(server: &ServerState) -> HttpResponse {
    let age_max = server.settings.metrics_age_max;
    let page = server
        .metrics
        .page(&server.readiness, &server.reads, age_max);
    match page {
        Ok(text) => not_cached(StatusCode::OK, prometheus::TEXT_FORMAT, text),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be written");
            json(
                StatusCode::INTERNAL_SERVER_ERROR,
                r#"{"error":"internal error"}"#.to_owned(),
            )
        }
    }
}

fn json(status: StatusCode, body: String) -> HttpResponse {
    not_cached(status, "application/json", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_store_is_escaped() {
        let fact = store_fact(r#"/a "b"\tenants.sqlite is full"#);
        assert_eq!(fact, r#","store":"/a \"b\"\\tenants.sqlite is full""#);
    }

    #[test]
    fn it_is_said_why_the_head_stands() {
        for (choice, expected) in [
            (None, "the nodes have named no head yet"),
            (Some(Choice::TooFewNodes), "1 node agrees, 2 have to"),
            (Some(Choice::Disagree), "1 node agrees, 2 have to"),
            (
                Some(Choice::Finalized),
                "a quorum names a chain without the finalized block",
            ),
        ] {
            let agreement = HeadAgreement {
                choice,
                agreeing: 1,
                needed: 2,
            };
            assert_eq!(reason(Unready::HeadStands(agreement)), expected);
        }
        // The sentences are written into JSON as they are.
        for choice in Choice::ALL {
            let sentence = choice.to_string();
            assert!(!sentence.contains(['"', '\\']), "{sentence}");
        }
    }
}
