//! /ready in every state of the service, including those too short-lived to observe in a running
//! program.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use actix::Addr;
use actix_web::{App, test};
use nearhead::{
    access::SessionCaps,
    http::{self, ServerSettings, ServerState},
    metrics::Metrics,
};
use nearhead_actors::{
    head::Head, head_tracker::HeadTracker, read::ReadResources, readiness::Readiness,
};
use nearhead_chain::encode::EncodeOptions;
use serde_json::{Value, json};

use crate::{
    harness::{check, json as parse, vectors},
    in_process::{InProcess, tenants},
};

/// The status and the `missing` list of /ready.
async fn ready(
    head: &Head,
    tracker: &Addr<HeadTracker>,
    fresh_for: Option<Duration>,
    draining: bool,
) -> (u16, Value) {
    let state = ServerState {
        head: head.clone(),
        tracker: tracker.clone(),
        session_caps: SessionCaps::new(1),
        tenants: tenants(),
        reads: ReadResources::start(1, None),
        metrics: Metrics::new([]).unwrap(),
        settings: ServerSettings::default(),
        readiness: Readiness {
            head: head.clone(),
            head_fresh_for: fresh_for,
            upstreams: None,
            draining: Arc::new(AtomicBool::new(draining)),
        },
    };
    let app = App::new().configure(|routes| http::configure(&state, routes));
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
    let (none, some) = (Head::default(), &system.dispatcher.head);
    let (always, never, long) = (None, Some(Duration::ZERO), Some(Duration::from_secs(3600)));
    let (no_block, stale, leaving) = (
        "there is no block yet",
        "the head is stale",
        "the service is going away",
    );
    for (head, fresh_for, draining, missing) in [
        (some, always, false, &[][..]),
        (some, long, false, &[]),
        (some, never, false, &[stale]),
        (some, always, true, &[leaving]),
        (some, never, true, &[leaving, stale]),
        (&none, always, false, &[no_block]),
        (&none, never, true, &[leaving, no_block]),
    ] {
        let status = if missing.is_empty() { 200 } else { 503 };
        check(
            &format!("fresh for {fresh_for:?}, draining: {draining}"),
            &ready(head, &system.tracker, fresh_for, draining).await,
            &(status, json!(missing)),
        );
    }
}
