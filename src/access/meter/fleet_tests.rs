//! Meters of three processes of a fleet in simulated time, against the meter of one process that
//! gets all of their requests.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::HashMap,
    num::{NonZeroU32, NonZeroU64},
};

use nearhead_actors::fleet::quotas::{Loan, LoanDesk, UnitsCount};
use nearhead_fleet::quota::{Lent, LoanRequest};
use nearhead_tenants::{id::TenantId, limits::Rate};
use proptest::prelude::*;

use super::*;
use crate::access::bucket::QuotaOwner;

const PROCESSES: usize = 3;

/// How often a process asks the store, in milliseconds.
const ROUND: u64 = 10;

/// `lend.lua` and `count.lua`, in Rust: thousandths of tokens, and milliseconds.
#[derive(Default)]
struct Store {
    buckets: HashMap<String, (i64, u64)>,
    sums: HashMap<(String, u64), u64>,
}

impl Store {
    fn lend(&mut self, loan: &Loan, now: u64) -> Lent {
        let capacity = loan.call.capacity.cast_signed() * 1_000;
        let full = (capacity, now);
        let bucket = self.buckets.entry(loan.call.name.clone()).or_insert(full);
        let (left, at) = *bucket;
        let LoanRequest { debt, wanted } = loan.call.request;
        let added = (now - at).cast_signed() * i64::from(loan.call.rate);
        let left = capacity.min(left + added) - debt.cast_signed();
        let lent = left.min(i64::from(wanted) * 1_000).max(0);
        *bucket = (left - lent, now);
        Lent {
            thousandths: lent.cast_unsigned(),
            level: left - lent,
        }
    }

    fn count(&mut self, count: &UnitsCount) -> u64 {
        let report = count.call.report;
        let name = (count.call.name.clone(), report.day);
        let sum = self.sums.entry(name).or_default();
        *sum = (*sum).max(report.known).saturating_add_signed(report.added);
        *sum
    }
}

/// One process: its meter, and what it waits for.
struct Process {
    desk: LoanDesk,
    meter: Meter,
    /// Loans on their way, and when they arrive.
    calls: Vec<(u64, Loan)>,
    answers: Vec<(u64, Loan, Lent)>,
}

struct Fleet {
    start: Instant,
    now: u64,
    store: Store,
    processes: Vec<Process>,
    /// Milliseconds that messages take, one after another.
    latency: Vec<u64>,
    drawn: usize,
    /// One process that gets all requests.
    alone: Meter,
}

fn meter(quota: Quota, desk: Option<&LoanDesk>) -> Meter {
    let parts = MeterParts {
        owner: QuotaOwner::Tenant(TenantId::of_configured("test")),
        used_today: 0,
        now: UnixMillis(0),
        desk,
    };
    Meter::new(quota, &parts).unwrap()
}

impl Fleet {
    fn new(quota: Quota, latency: Vec<u64>) -> Self {
        let start = Instant::now();
        let process = |()| {
            let desk = LoanDesk::new(start);
            desk.share_with(PROCESSES);
            Process {
                meter: meter(quota, Some(&desk)),
                desk,
                calls: Vec::new(),
                answers: Vec::new(),
            }
        };
        Self {
            start,
            now: 0,
            store: Store::default(),
            processes: [(); PROCESSES].map(process).into(),
            latency,
            drawn: 0,
            alone: meter(quota, None),
        }
    }

    fn now(&self) -> Now {
        Now {
            instant: self.start + Duration::from_millis(self.now),
            unix: UnixMillis(self.now),
        }
    }

    fn delay(&mut self) -> u64 {
        self.drawn += 1;
        self.latency[self.drawn % self.latency.len()]
    }

    /// One millisecond passes: what is due is sent and answered.
    fn step(&mut self) {
        self.now += 1;
        let (now, instant) = (self.now, self.now().instant);
        let delays = [(); PROCESSES * 2].map(|()| self.delay());
        for (process, delay) in self.processes.iter_mut().zip(delays.chunks(2)) {
            let due = |at: &mut u64| *at <= now;
            for (_, loan) in process.calls.extract_if(.., |(at, _)| due(at)) {
                let lent = self.store.lend(&loan, now);
                process.answers.push((now + delay[0], loan, lent));
            }
            for (_, loan, lent) in process.answers.extract_if(.., |(at, ..)| due(at)) {
                process.desk.lent(loan, lent, instant);
            }
            if now % ROUND == 0 {
                let loans = process.desk.due_loans(instant).into_iter();
                process
                    .calls
                    .extend(loans.map(|loan| (now + delay[1], loan)));
            }
            if now % 1_000 == 0 {
                for count in process.desk.due_counts() {
                    let sum = self.store.count(&count);
                    process.desk.counted(count, sum);
                }
            }
        }
    }
}

fn per_second(rate: u32) -> Rate {
    Rate::of_one_second(NonZeroU32::new(rate).unwrap())
}

fn latency() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(1_u64..20, 7..30)
}

/// Requests of one millisecond: at which process, how many, and what is charged later.
fn requests() -> impl Strategy<Value = Vec<(usize, u32, u64)>> {
    proptest::collection::vec((0..PROCESSES, 1_u32..6, 0_u64..40), 20..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Clients that want more than there is get what they would from one process.
    #[test]
    fn a_fleet_admits_what_one_process_does(
        rate in 60_u32..1_500,
        burst in 20_u32..3_000,
        are_requests_limited in any::<bool>(),
        latency in latency(),
        requests in requests(),
    ) {
        let of = |factor| Some(Rate {
            per_second: NonZeroU32::new(rate * factor).unwrap(),
            burst: NonZeroU32::new(burst * factor).unwrap(),
        });
        // A request is 4 units on average, if units are what is scarce.
        let quota = match are_requests_limited {
            true => Quota { requests: of(1), ..Quota::default() },
            false => Quota { units: of(4), ..Quota::default() },
        };
        let mut fleet = Fleet::new(quota, latency);
        let (mut together, mut alone, mut wanted) = (0, 0, 0.0);
        let mut at = 0;
        for _ in 0..12_000 {
            fleet.step();
            wanted += f64::from(rate) * 1.6 / 1_000.0;
            let now = fleet.now();
            while wanted >= f64::from(requests[at].1) {
                let (process, batch, units) = requests[at];
                at = (at + 1) % requests.len();
                wanted -= f64::from(batch);
                let meter = &fleet.processes[process].meter;
                for (meter, admitted) in [(meter, &mut together), (&fleet.alone, &mut alone)] {
                    if meter.take(batch, now).is_ok() {
                        meter.charge(units, now);
                        *admitted += match are_requests_limited {
                            true => u64::from(batch),
                            false => u64::from(batch) + units,
                        };
                    }
                }
            }
        }
        let ratio = together as f64 / alone as f64;
        prop_assert!((0.95..=1.05).contains(&ratio), "{together} instead of {alone}: {ratio}");
    }

    /// A tenant that keeps to its quota is never refused, wherever its requests go.
    #[test]
    fn a_tenant_that_keeps_to_its_rate_is_not_refused(
        rate in 30_u32..2_000,
        latency in latency(),
        requests in requests(),
    ) {
        let quota = Quota { requests: Some(per_second(rate)), ..Quota::default() };
        let mut fleet = Fleet::new(quota, latency);
        let (mut wanted, mut at) = (1.0, 0);
        for _ in 0..6_000 {
            fleet.step();
            wanted += f64::from(rate) * 0.8 / 1_000.0;
            while wanted >= 1.0 {
                let (process, ..) = requests[at];
                at = (at + 1) % requests.len();
                wanted -= 1.0;
                let taken = fleet.processes[process].meter.take(1, fleet.now());
                prop_assert_eq!(taken, Ok(()), "at {} ms", fleet.now);
            }
        }
    }

    /// What is left says as much at each process as the meter of one process does.
    #[test]
    fn what_is_left_is_nearly_what_one_process_says(
        rate in 100_u32..2_000,
        latency in latency(),
        requests in requests(),
    ) {
        let quota = Quota { requests: Some(per_second(rate)), ..Quota::default() };
        let mut fleet = Fleet::new(quota, latency);
        let (mut wanted, mut at) = (0.0, 0);
        for step in 0..3_000 {
            fleet.step();
            wanted += f64::from(rate) * 1.2 / 1_000.0;
            let now = fleet.now();
            while wanted >= 1.0 {
                at = (at + 1) % requests.len();
                wanted -= 1.0;
                let _ = fleet.processes[requests[at].0].meter.take(1, now);
                let _ = fleet.alone.take(1, now);
            }
            if step % 500 == 499 {
                let alone = fleet.alone.remaining(now).unwrap();
                for process in &fleet.processes {
                    let left = process.meter.remaining(now).unwrap();
                    prop_assert_eq!(left.limit, alone.limit);
                    let difference = left.remaining.abs_diff(alone.remaining);
                    prop_assert!(difference <= rate / 3, "{left:?} and {alone:?}");
                    prop_assert!(left.reset_seconds <= 2);
                }
            }
        }
    }
}

/// The units of a day end for all processes within a second of reports.
#[test]
fn units_of_a_day_are_those_of_all_processes() {
    let quota = Quota {
        units_per_day: NonZeroU64::new(1_000),
        ..Quota::default()
    };
    let mut fleet = Fleet::new(quota, vec![1]);
    let mut admitted = 0;
    for step in 0..20_000_usize {
        fleet.step();
        let process = &fleet.processes[step % PROCESSES];
        // A hundred units a second, in all.
        if step % 10 == 0 && process.meter.take(1, fleet.now()).is_ok() {
            admitted += 1;
        }
    }
    assert!((1_000..=1_110).contains(&admitted), "{admitted}");
    for process in &fleet.processes {
        let exceeded = process.meter.take(1, fleet.now()).unwrap_err();
        assert_eq!(exceeded.quota, QuotaKind::UnitsOfDay);
    }
    // A tenant that nothing limits in a day is not reported.
    let quota = Quota {
        requests: Some(per_second(5)),
        ..Quota::default()
    };
    let fleet = Fleet::new(quota, vec![1]);
    fleet.processes[0].meter.take(1, fleet.now()).unwrap();
    assert!(fleet.processes[0].desk.due_counts().is_empty());
}

/// A quota that is not used asks for nothing, and one that changes begins with another bucket.
#[test]
fn only_what_is_used_is_listed() {
    let quota = |rate| Quota {
        requests: Some(per_second(rate)),
        ..Quota::default()
    };
    let fleet = Fleet::new(quota(5), vec![1]);
    let Process { desk, meter, .. } = &fleet.processes[0];
    let at = |millis| fleet.start + Duration::from_millis(millis);
    assert!(desk.due_loans(at(0)).is_empty());
    meter.take(1, fleet.now()).unwrap();
    let loans = desk.due_loans(at(10));
    let names: Vec<&str> = loans.iter().map(|loan| &*loan.call.name).collect();
    let id = TenantId::of_configured("test");
    assert_eq!(names, [format!("tenant:{id}:requests:5:5")]);
    for loan in loans {
        let lent = Lent {
            thousandths: 1_000,
            level: 3_000,
        };
        desk.lent(loan, lent, at(20));
    }
    assert!(desk.due_loans(at(5_000)).is_empty());
    let other = self::meter(quota(6), Some(desk));
    other.take(6, fleet.now()).unwrap();
    let loans = desk.due_loans(at(5_010));
    assert_eq!(loans.len(), 1, "the other one is not listed any more");
    assert_eq!(loans[0].call.name, format!("tenant:{id}:requests:6:6"));
    assert_eq!((loans[0].call.rate, loans[0].call.capacity), (6, 6));
}
