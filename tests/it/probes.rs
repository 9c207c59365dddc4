//! /ready in every state of the service, including those too short-lived to observe in a running
//! program.

use std::time::Duration;

use actix::Addr;
use actix_web::{App, test};
use nearhead::{
    access::{GuessThrottle, SessionCaps},
    admin,
    filters::Filters,
    http::{ServerSettings, ServerState},
    metrics::Metrics,
    tenants::StoreState,
};
use nearhead_actors::{
    freshness::HeadAgeMax, head::Head, head_tracker::HeadTracker, read::ReadResources,
};
use nearhead_chain::encode::EncodeOptions;
use serde_json::{Value, json};

use crate::{
    harness::{check, json as parse, vectors},
    in_process::{InProcess, access, readiness},
};

/// The status and the `missing` list of /ready.
async fn ready(
    head: &Head,
    tracker: &Addr<HeadTracker>,
    age_max: HeadAgeMax,
    shuts_down: bool,
) -> (u16, Value) {
    let state = ServerState {
        tracker: tracker.clone(),
        session_caps: SessionCaps::new(1),
        wait_caps: Default::default(),
        access: access(),
        guesses: GuessThrottle::default(),
        tenants: None,
        tenant_store: StoreState::default(),
        reads: ReadResources::start(1, 1 << 30, None).unwrap(),
        filters: Filters::new(Metrics::new([]).unwrap()),
        forwarding: Default::default(),
        openrpc: nearhead::rpc::document(&Default::default()),
        metrics: Metrics::new([]).unwrap(),
        settings: ServerSettings::default(),
        traces: Default::default(),
        readiness: readiness(head.clone(), age_max),
    };
    if shuts_down {
        state.readiness.shutdown.begin();
    }
    let app = App::new().configure(|routes| admin::configure(&state, None, routes));
    let app = test::init_service(app).await;
    let request = test::TestRequest::get().uri("/ready").to_request();
    let response = test::call_service(&app, request).await;
    let status = response.status().as_u16();
    let mut body = parse(&test::read_body(response).await);
    check("ready", &body["ready"], &json!(status == 200));
    (status, body["missing"].take())
}

#[actix::test]
async fn readiness_names_what_is_missing() {
    let genesis = std::fs::read(vectors().join("genesis.json")).unwrap();
    let genesis = nearhead_chain::chain_file::read_genesis(&genesis).unwrap();
    let mut system = InProcess::start(&genesis, EncodeOptions::default());
    system.advance(0, [], false).await;
    let (none, some) = (Head::default(), &system.dispatcher.readiness.head);
    let (always, auto) = (HeadAgeMax::Off, HeadAgeMax::Auto);
    let [never, long] = [0, 3_600].map(|age| HeadAgeMax::Of(Duration::from_secs(age)));
    let (no_block, stale, leaving) = (
        "there is no block yet",
        "the head is stale",
        "the service is going away",
    );
    for (head, age_max, shuts_down, missing) in [
        (some, always, false, &[][..]),
        (some, long, false, &[]),
        (some, auto, false, &[]),
        (some, never, false, &[stale]),
        (some, always, true, &[leaving]),
        (some, never, true, &[leaving, stale]),
        (&none, always, false, &[no_block]),
        (&none, never, true, &[leaving, no_block]),
    ] {
        let status = if missing.is_empty() { 200 } else { 503 };
        check(
            &format!("{age_max:?}, shuts down: {shuts_down}"),
            &ready(head, &system.tracker, age_max, shuts_down).await,
            &(status, json!(missing)),
        );
    }
}

/// A client that asks eth_syncing learns that the head is stale.
#[actix::test]
async fn eth_syncing_is_an_object_while_the_head_is_stale() {
    let genesis = std::fs::read(vectors().join("genesis.json")).unwrap();
    let genesis = nearhead_chain::chain_file::read_genesis(&genesis).unwrap();
    let mut system = InProcess::start(&genesis, EncodeOptions::default());
    system.advance(0, [], false).await;
    let numbers = json!({"startingBlock": "0x0", "currentBlock": "0x0", "highestBlock": "0x0"});
    for (age_max, expected) in [
        (HeadAgeMax::Off, json!(false)),
        (HeadAgeMax::Auto, json!(false)),
        (HeadAgeMax::Of(Duration::ZERO), numbers),
        (HeadAgeMax::Of(Duration::from_secs(3_600)), json!(false)),
    ] {
        let head = system.dispatcher.readiness.head.clone();
        system.dispatcher.readiness = readiness(head, age_max);
        let answer = system.call("eth_syncing", &json!([])).await;
        check(&format!("{age_max:?}"), &answer["result"], &expected);
    }
}
