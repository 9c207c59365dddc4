//! Large bodies: what they cost, whether they have their turn or not.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    num::NonZeroU32,
    task::{Context, Poll, Waker},
    time::{Instant, SystemTime},
};

use nearhead_actors::{
    freshness::{Freshness, HeadAgeMax},
    head::Head,
    read::ReadResources,
};
use nearhead_tenants::limits::{Quota, Rate};

use super::*;
use crate::access::{Access, ConfiguredKey, ServiceLimits};

const REQUESTS: u32 = 5;

fn dispatcher() -> Dispatcher {
    Dispatcher {
        readiness: Readiness {
            head: Head::default(),
            freshness: Freshness {
                age_max: HeadAgeMax::Off,
                counts_timestamp: false,
            },
            upstreams: None,
            fleet: None,
            has_header_rules: false,
            shutdown: Default::default(),
        },
        worker: Worker::start(&ReadResources::start(1, 1 << 20, None).unwrap()),
        metrics: Metrics::new(crate::rpc::method_names()).unwrap(),
        usage: UsageMeter::default(),
        logs_deadline: Duration::from_secs(1),
        calls: CallLimits::default(),
        waits: Default::default(),
        filters: Filters::new(Metrics::new([]).unwrap()),
        forwarding: Default::default(),
        openrpc: Bytes::new(),
    }
}

/// A key whose tenant may send `REQUESTS` at once, and hardly any more.
fn access(now: Now) -> Access {
    let rate = Rate {
        per_second: NonZeroU32::MIN,
        burst: NonZeroU32::new(REQUESTS).unwrap(),
    };
    let limits = ServiceLimits {
        quota: Quota {
            requests: Some(rate),
            ..Quota::default()
        },
        ..ServiceLimits::default()
    };
    let keys: Vec<_> = ConfiguredKey::new("test", "test").into_iter().collect();
    Access::of_configured(&keys, &limits, now.unix)
}

/// A body that waits for a turn, with `requests` items if it is a batch.
fn large_body(requests: usize) -> Vec<u8> {
    let params = "1,".repeat(LARGE_BODY_BYTES);
    let item = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":[{params}1]}}"#);
    match requests {
        1 => item.into_bytes(),
        _ => format!("[{}]", vec![item; requests].join(",")).into_bytes(),
    }
}

#[actix::test]
async fn a_large_body_is_charged_before_its_turn() {
    let now = Now {
        instant: Instant::now(),
        unix: SystemTime::now().into(),
    };
    let dispatcher = dispatcher();
    let key = access(now).resolve("test", now.unix).unwrap();
    let left = || key.remaining(now).unwrap().remaining;
    let share = key.tenant.call_budget.share();

    // No block is readable yet, so all that has its turn is parsed, and refused then.
    let answer = dispatcher
        .answer(&key, &large_body(1), now, Via::default())
        .await;
    assert_eq!((answer.units, left()), (1, REQUESTS - 1));
    let answer = dispatcher
        .answer(&key, &large_body(2), now, Via::default())
        .await;
    assert_eq!((answer.units, left()), (2, REQUESTS - 3));
    // As many at once as the quota does not have left: nothing is taken.
    let answer = dispatcher
        .answer(&key, &large_body(3), now, Via::default())
        .await;
    assert_eq!((answer.units, left()), (0, REQUESTS - 3));

    // So many of the tenant's bodies wait that its next ones are refused their turn. The test does
    // not wait itself, so none of them has its turn meanwhile.
    let mut cx = Context::from_waker(Waker::noop());
    let mut waiting = Vec::new();
    loop {
        let mut turn = Box::pin(dispatcher.worker.body_turn(share, 1));
        match turn.as_mut().poll(&mut cx) {
            Poll::Pending => waiting.push(turn),
            Poll::Ready(refused) => break assert!(refused.is_err()),
        }
    }
    for expected in [1, 0] {
        // It is not even JSON.
        let mut body = large_body(1);
        body.pop();
        let answer = dispatcher.answer(&key, &body, now, Via::default()).await;
        assert_eq!((answer.units, left()), (1, expected));
        let json: serde_json::Value =
            serde_json::from_slice(&answer.json.unwrap().into_bytes()).unwrap();
        assert_eq!(
            (&json["id"], &json["error"]["code"]),
            (&7.into(), &(-32002).into())
        );
    }
    // What is over the quota does not even wait.
    let answer = dispatcher
        .answer(&key, &large_body(1), now, Via::default())
        .await;
    assert_eq!((answer.units, answer.outcome), (0, Outcome::Denied));
}

/// A batch of more requests than the quota ever holds is let in when it is full.
#[actix::test]
async fn a_large_batch_is_taken_at_once() {
    let now = Now {
        instant: Instant::now(),
        unix: SystemTime::now().into(),
    };
    let dispatcher = dispatcher();
    let key = access(now).resolve("test", now.unix).unwrap();
    let requests = 2 * REQUESTS;
    let body = large_body(requests as usize);
    let answer = dispatcher.answer(&key, &body, now, Via::default()).await;
    assert_eq!(answer.units, u64::from(requests));
    let answer = dispatcher.answer(&key, b"{}", now, Via::default()).await;
    assert_eq!(answer.units, 0);
}
