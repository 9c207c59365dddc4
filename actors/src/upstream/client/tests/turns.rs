//! Whose call is next.

use std::num::NonZeroU32;

use super::{
    server::{Reply, Script},
    *,
};

/// A call that names its tenant and its number.
async fn call(upstream: UpstreamClient, tenant: u8, number: u8) -> Result<(), CallError> {
    let mut address = Address::repeat_byte(tenant);
    address.0[19] = number;
    upstream.code(address, HASH).await.map(|_| ())
}

/// The tenants and numbers of the calls in the order in which the upstream got them.
fn order(script: &Script) -> Vec<(u8, u8)> {
    let calls = script.calls.lock();
    let address = |params: &serde_json::Value| -> Address {
        serde_json::from_value(params[0].clone()).unwrap()
    };
    let addresses = calls.iter().map(|call| address(&call.params));
    addresses.map(|at| (at.0[0], at.0[19])).collect()
}

#[tokio::test]
async fn tenants_share_the_turns_of_an_upstream() {
    const FLOOD: u8 = 20;
    let (url, script) = Script::answering(|_| Reply::result("\"0x\"")).serve().await;
    let limits = CallLimits {
        concurrency: 1,
        ..limits()
    };
    let upstream = client(&url, limits);
    // So heavy that it does not matter how long its calls take.
    let heavy = NonZeroU32::new(1_000_000).unwrap();
    let shares = [Share::default(), Share::default().with_weight(heavy)];
    let [flood, other] = shares.map(|share| upstream.on_behalf_of(&Callers::of(share)));
    let mut calls = JoinSet::new();
    for number in 0..FLOOD {
        calls.spawn(call(flood.clone(), 1, number));
    }
    for number in 0..2 {
        calls.spawn(call(other.clone(), 2, number));
    }
    // Who follows the chain has a place of its own too.
    calls.spawn(call(upstream.clone(), 3, 0));
    assert_eq!(calls.join_all().await, vec![Ok(()); usize::from(FLOOD) + 3]);
    let order = order(&script);
    let place = |call| order.iter().position(|one| *one == call).unwrap();
    let places = [(2, 0), (2, 1), (3, 0)].map(place);
    assert!(places.iter().all(|place| *place < 6), "{order:?}");
    let of_flood: Vec<_> = order.iter().filter(|(tenant, _)| *tenant == 1).collect();
    assert!(of_flood.is_sorted(), "{order:?}");
    assert_eq!(script.in_progress_max(), 1);
}
