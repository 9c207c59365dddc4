//! Refused calls, and bodies that exceed a quota.

use std::num::NonZeroU32;

use nearhead_tenants::limits::{Quota, Rate, TenantLimits};
use serde_json::{Value, json};

use super::{
    refusal::{RATE, REFUSALS, check_error, check_rate, check_response, row},
    scene::{CREDENTIALS, Scene, call, narrowed, open, post, shake_hands},
};
use crate::harness::{check, wait_until};

#[test]
fn calls_and_bodies_are_refused_over_both_transports() {
    let mut scene = Scene::new();
    let rate = |quota: Quota| TenantLimits {
        quota,
        ..TenantLimits::default()
    };
    let one = Some(Rate::of_one_second(NonZeroU32::MIN));
    let contract = "0xde00000000000000000000000000000000000001";
    let balance = call(
        "eth_getBalance",
        json!(["0xde00000000000000000000000000000000000002"]),
    );
    let chain_id = call("eth_chainId", json!([]));
    let subscribe = call("eth_subscribe", json!(["newHeads"]));
    let no_limits = TenantLimits::default();
    let no_lists = json!({});
    // Each row, what its tenant may do, what its key is narrowed to, and what is refused.
    let of_day = std::num::NonZeroU64::new(1);
    let cases = [
        (
            "the method is not listed",
            no_limits,
            json!({"methods": ["eth_blockNumber"]}),
            &chain_id,
        ),
        (
            "a contract is not listed",
            no_limits,
            json!({"contracts": [contract]}),
            &balance,
        ),
        (
            "requests a second",
            rate(Quota {
                requests: one,
                ..Quota::default()
            }),
            no_lists.clone(),
            &chain_id,
        ),
        (
            "units a second",
            rate(Quota {
                units: one,
                ..Quota::default()
            }),
            no_lists.clone(),
            &chain_id,
        ),
        (
            "units a day",
            rate(Quota {
                units_per_day: of_day,
                ..Quota::default()
            }),
            no_lists.clone(),
            &chain_id,
        ),
        (
            "sessions",
            TenantLimits {
                sessions: Some(0),
                ..no_limits
            },
            no_lists.clone(),
            &chain_id,
        ),
        (
            "subscriptions of the tenant",
            TenantLimits {
                subscriptions: Some(0),
                ..no_limits
            },
            no_lists,
            &subscribe,
        ),
    ];
    for row in REFUSALS.iter().filter(|row| row.place != "request") {
        let of_row = cases.iter().filter(|(what, ..)| *what == row.what);
        check(row.what, &of_row.count(), &1);
    }
    let mut clients = Vec::new();
    for (what, limits, allow, body) in &cases {
        for (given, has_rate) in CREDENTIALS
            .map(|given| [(given, false), (given, true)])
            .as_flattened()
        {
            // If a rate is what is exceeded, another one would not be the scarcer one.
            if *has_rate && row(what).rate_limit == "yes" {
                continue;
            }
            let mut limits = *limits;
            if *has_rate {
                limits.quota.requests = NonZeroU32::new(RATE).map(Rate::of_one_second);
            }
            let name = format!("{}-{given:?}-{has_rate}", what.replace(' ', "-"));
            let tenant = scene.store.tenant(&name, limits);
            let settings = narrowed(scene.settings(*given), allow.clone());
            scene.store.key_of(tenant, &name, None, settings);
            let client = scene.client(*given, &name);
            clients.push((
                *what,
                format!("{given:?}, rate {has_rate}"),
                *has_rate,
                client,
                *body,
            ));
        }
    }
    let server = scene.store.serve("refusals-calls", &[]);
    for (what, given, has_rate, client, body) in clients {
        let (case, row) = (format!("{what}: {given}"), row(what));
        if row.place == "handshake" {
            let response = shake_hands(server.address, &client);
            check_response(&format!("{case}, handshake"), &response, row, has_rate);
            continue;
        }
        let mut session = open(server.address, &client);
        if row.place != "call" {
            // Uses up the quota: a body that is larger than a full bucket leaves it in debt. If the
            // handshake has emptied it, it is full again within a second or two.
            let batch = Value::from(vec![chain_id.clone(); 50]);
            wait_until("the quota is used up", || {
                let response = post(server.address, &client, &batch);
                response.status == 200 || row.what == "units a day"
            });
        }
        // Over HTTP, nobody subscribes.
        if row.status != 200 {
            let response = post(server.address, &client, body);
            check_response(&format!("{case}, HTTP"), &response, row, has_rate);
        }
        if row.place == "body, handshake" {
            let response = shake_hands(server.address, &client);
            check_response(&format!("{case}, handshake"), &response, row, has_rate);
        }
        session.text(&body.to_string());
        let answer = session.answer();
        check(&case, &answer["id"], &json!(1));
        check_error(&format!("{case}, session"), &answer, row);
        if row.place == "call" {
            let batch = json!([body, call("eth_blockNumber", json!([]))]);
            session.text(&batch.to_string());
            let answers = session.answer();
            check_error(&format!("{case}, in a batch"), &answers[0], row);
            let is_answered = answers[1]["result"].is_string();
            check(&format!("{case}, stays open"), &is_answered, &true);
            let response = post(server.address, &client, &batch);
            check(&format!("{case}, batch"), &response.status, &200);
            check_rate(
                &format!("{case}, batch"),
                &response,
                has_rate.then_some(RATE),
            );
        }
    }
}
