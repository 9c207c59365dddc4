//! Prints what requests that are not traced pay for traces: `cargo bench --bench traces`.
//!
//! The decision about a request, and a step of one that is not traced: every message to an actor,
//! every permit and every call to a node is such a step. Times are not asserted.
#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use nearhead::{
    config::Config,
    logging,
    traces::{TraceParent, Traces},
};
use nearhead_actors::trace;

/// How often each is timed.
const TIMES: u32 = 10_000_000;

fn main() {
    let off = Traces::default();
    let step = time(|| drop(black_box(trace::current())));
    println!(
        "off: decision {:?}, step {step:?}",
        time(|| decide(&off, None))
    );
    // No request is traced, so nothing is sent to it.
    let collector = "http://127.0.0.1:4318".parse().unwrap();
    let on = Traces::start(&collector, 0.0).unwrap();
    logging::start(&Config::default(), &on);
    let unsampled = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    println!("on, not traced: decision {:?}", time(|| decide(&on, None)));
    let decision = time(|| decide(&on, Some(unsampled)));
    println!("on, not traced, traceparent: decision {decision:?}");
    let step = time(|| drop(black_box(trace::current())));
    println!("on, not traced: step {step:?}");
}

fn decide(traces: &Traces, traceparent: Option<&[u8]>) {
    let parent = black_box(traceparent).and_then(TraceParent::parse);
    black_box(traces.decide(parent));
}

/// The time of one call.
fn time(call: impl Fn()) -> Duration {
    let began = Instant::now();
    (0..TIMES).for_each(|_| call());
    Duration::from_secs_f64(began.elapsed().as_secs_f64() / f64::from(TIMES))
}
