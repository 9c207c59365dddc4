#![expect(clippy::unwrap_used, reason = "tests")]

use std::num::{NonZeroU32, NonZeroU64};

use nearhead_tenants::{id::TenantId, limits::Rate};
use proptest::prelude::*;

use super::*;
use crate::access::bucket::QuotaOwner;

fn rate(per_second: u32) -> Rate {
    Rate::of_one_second(NonZeroU32::new(per_second).unwrap())
}

fn meter(quota: Quota) -> Meter {
    meter_of(quota, 0, UnixMillis(0)).unwrap()
}

fn meter_of(quota: Quota, used_today: u64, now: UnixMillis) -> Option<Meter> {
    let parts = MeterParts {
        owner: QuotaOwner::Tenant(TenantId::of_configured("test")),
        used_today,
        now,
        desk: None,
    };
    Meter::new(quota, &parts)
}

fn requests(per_second: u32) -> Quota {
    Quota {
        requests: Some(rate(per_second)),
        ..Quota::default()
    }
}

/// The quota as a list of admitted requests: the level is recomputed from the start.
fn model_allows(admitted: &[(u64, u32)], rate: u32, requests: u32, at_nanos: u64) -> bool {
    let capacity = i128::from(rate) * 1_000_000_000;
    let (mut level, mut then) = (capacity, 0_u64);
    for (at, cost) in admitted.iter().copied().chain([(at_nanos, 0)]) {
        level = capacity.min(level + i128::from(at - then) * i128::from(rate));
        level -= i128::from(cost) * 1_000_000_000;
        then = at;
    }
    level >= capacity.min(i128::from(requests) * 1_000_000_000)
}

proptest! {
    #[test]
    fn requests_agree_with_the_model(
        rate in 1_u32..200,
        sent in prop::collection::vec((0_u64..400_000_000, 1_u32..300), 1..100),
    ) {
        let (meter, start) = (meter(requests(rate)), Instant::now());
        let (mut at, mut admitted) = (0, Vec::new());
        for (pause, requests) in sent {
            at += pause;
            let expected = model_allows(&admitted, rate, requests, at);
            let instant = start + Duration::from_nanos(at);
            let taken = meter.take(requests, Now { instant, unix: UnixMillis(0) });
            prop_assert_eq!(taken.is_ok(), expected, "{} requests at {} ns: {:?}", requests, at, taken);
            match taken {
                Ok(()) => admitted.push((at, requests)),
                Err(refused) => {
                    let later = at + u64::from(refused.retry_after_seconds) * 1_000_000_000;
                    prop_assert!(model_allows(&admitted, rate, requests, later), "the wait was enough");
                    prop_assert!(refused.requests_in_last_second >= u64::from(requests));
                }
            }
        }
    }
}

#[test]
fn a_batch_larger_than_the_bucket_is_served_and_leaves_a_debt() {
    let (meter, instant) = (meter(requests(10)), Instant::now());
    let unix = UnixMillis(0);
    let now = Now { instant, unix };
    assert_eq!(meter.take(100, now), Ok(()));
    let refused = meter.take(1, now).unwrap_err();
    assert_eq!(
        (refused.quota, refused.allowed, refused.retry_after_seconds),
        (QuotaKind::Requests, 10, 10),
        "90 in debt: 9.1 s until one is free"
    );
    let instant = instant + Duration::from_millis(9_100);
    assert_eq!(meter.take(1, Now { instant, unix }), Ok(()));
}

#[test]
fn units_are_charged_after_the_answer() {
    let quota = Quota {
        units: Some(rate(100)),
        ..requests(10)
    };
    let (meter, instant) = (meter(quota), Instant::now());
    let now = Now {
        instant,
        unix: UnixMillis(0),
    };
    assert_eq!(meter.take(2, now), Ok(()));
    let left = |limit, remaining, reset_seconds| {
        Some(Remaining {
            limit,
            remaining,
            reset_seconds,
        })
    };
    assert_eq!(meter.remaining(now), left(10, 8, 1), "the scarcer one");
    meter.charge(248, now);
    assert_eq!(meter.remaining(now), left(100, 0, 3));
    let refused = meter.take(1, now).unwrap_err();
    assert_eq!(
        (refused.quota, refused.allowed, refused.retry_after_seconds),
        (QuotaKind::Units, 100, 2)
    );
    assert_eq!(refused.requests_in_last_second, 3);
    // What was refused took no token of the other bucket.
    let instant = instant + Duration::from_millis(1_510);
    let later = Now { instant, ..now };
    assert_eq!(meter.take(1, later), Ok(()));
    meter.give_back(1);
    assert_eq!(meter.take(1, later), Ok(()));
}

#[test]
fn the_units_of_a_day_are_renewed_at_midnight() {
    let quota = Quota {
        units_per_day: NonZeroU64::new(10),
        ..Quota::default()
    };
    let day = |days: u64, seconds: u64| Now {
        instant: Instant::now(),
        unix: UnixMillis(days * DAY_MILLIS + seconds * 1000),
    };
    let meter = meter_of(quota, 7, day(5, 0).unix).unwrap();
    assert_eq!(meter.take(1, day(5, 10)), Ok(()), "7 were used before");
    meter.charge(100, day(5, 10));
    let refused = meter.take(1, day(5, 86_390)).unwrap_err();
    assert_eq!(
        (refused.quota, refused.allowed, refused.retry_after_seconds),
        (QuotaKind::UnitsOfDay, 10, 10)
    );
    assert_eq!(meter.used_today(day(5, 86_399).unix), 108);
    assert_eq!(meter.take(1, day(6, 0)), Ok(()));
    assert_eq!(meter.used_today(day(6, 0).unix), 1);
    // A clock that goes back begins no new day.
    assert_eq!(meter.take(9, day(5, 0)), Ok(()));
    assert!(meter.take(1, day(5, 1)).is_err());
}

#[test]
fn without_a_quota_there_is_no_meter() {
    assert!(meter_of(Quota::default(), 5, UnixMillis(0)).is_none());
}

#[test]
fn the_reported_rate_forgets_requests_older_than_two_seconds() {
    let mut requests = RequestsPerSecond::default();
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    assert_eq!(requests.count(10, at(0)), 10);
    assert_eq!(requests.count(10, at(900)), 20);
    let half = requests.count(1, at(1_500));
    assert_eq!(half, 11, "half of the second before counts");
    assert_eq!(requests.count(1, at(3_600)), 1);
}
