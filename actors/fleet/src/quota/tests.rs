//! What processes admit together, in simulated time.

#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

const PROCESSES: usize = 3;

const THREE: NonZeroU32 = NonZeroU32::new(3).unwrap();
const ONE: NonZeroU32 = NonZeroU32::MIN;

/// `lend.lua`, in Rust: thousandths of tokens, and milliseconds.
#[derive(Debug)]
struct Bucket {
    rate: i64,
    capacity: i64,
    left: i64,
    at: u64,
}

impl Bucket {
    const fn new(rate: u32, burst: u32) -> Self {
        let capacity = burst as i64 * 1_000;
        Self {
            rate: rate as i64,
            capacity,
            left: capacity,
            at: 0,
        }
    }

    fn lend(&mut self, request: LoanRequest, now: u64) -> Lent {
        let added = now.saturating_sub(self.at).cast_signed() * self.rate;
        self.left = self.capacity.min(self.left + added) - request.debt.cast_signed();
        self.at = now;
        let lent = self.left.min(i64::from(request.wanted) * 1_000).max(0);
        self.left -= lent;
        Lent {
            thousandths: lent.cast_unsigned(),
            level: self.left,
        }
    }
}

/// A question that is on its way, or its answer.
#[derive(Debug)]
struct Call {
    process: usize,
    asked_at: u64,
    request: LoanRequest,
    /// When the store has it.
    arrives: u64,
    /// When the process has the answer, and what that is.
    answered: Option<(u64, Lent)>,
}

#[derive(Debug)]
struct Sim {
    bucket: Bucket,
    rate: u32,
    cost: u32,
    processes: Vec<BorrowedQuota>,
    calls: Vec<Call>,
    /// Milliseconds that a message takes; numbers to draw from.
    latency: Vec<u64>,
    drawn: usize,
    now: u64,
    admitted: [u64; PROCESSES],
    wanted: [f64; PROCESSES],
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Sim {
    fn new(rate: u32, cost: u32, latency: Vec<u64>) -> Self {
        let per_second = NonZeroU32::new(rate).unwrap();
        let quota = BorrowedQuota::new(per_second, per_second);
        Self {
            bucket: Bucket::new(rate, rate),
            rate,
            cost,
            processes: vec![quota; PROCESSES],
            calls: Vec::new(),
            latency,
            drawn: 0,
            now: 0,
            admitted: [0; PROCESSES],
            wanted: [0.0; PROCESSES],
        }
    }

    fn delay(&mut self) -> u64 {
        self.drawn += 1;
        self.latency[self.drawn % self.latency.len()]
    }

    /// One millisecond, in which clients want these parts of twice the rate, and the store does not
    /// reach the processes that are cut off.
    fn step(&mut self, weights: [f64; PROCESSES], is_cut: [bool; PROCESSES]) {
        self.now += 1;
        let (now, delay) = (self.now, self.delay());
        let mut calls = std::mem::take(&mut self.calls);
        calls.retain_mut(|call| {
            if is_cut[call.process] {
                return now < call.asked_at + 200 || {
                    self.processes[call.process].failed(THREE, ms(now));
                    false
                };
            }
            match call.answered {
                None if now >= call.arrives => {
                    let lent = self.bucket.lend(call.request, now);
                    call.answered = Some((now + delay, lent));
                    true
                }
                Some((at, lent)) if now >= at => {
                    let quota = &mut self.processes[call.process];
                    quota.lent(lent, THREE, ms(now));
                    false
                }
                _ => true,
            }
        });
        self.calls = calls;
        for (name, weight) in weights.into_iter().enumerate() {
            self.wanted[name] += weight * f64::from(self.rate) * 2.0 / 1_000.0;
            let cost = f64::from(self.cost);
            let quota = &mut self.processes[name];
            while self.wanted[name] >= cost && quota.take(self.cost, THREE, ms(now)).is_ok() {
                self.wanted[name] -= cost;
                self.admitted[name] += u64::from(self.cost);
            }
            // Clients that are refused come back later, but not all of them.
            self.wanted[name] = self.wanted[name].min(cost.max(f64::from(self.rate) / 50.0));
            if let Some(request) = self.processes[name].ask(THREE, ms(now)) {
                let arrives = now + self.delay();
                self.calls.push(Call {
                    process: name,
                    asked_at: now,
                    request,
                    arrives,
                    answered: None,
                });
            }
        }
    }

    fn sum(&self) -> u64 {
        self.admitted.iter().sum()
    }

    /// Runs for so many seconds, and returns what was admitted meanwhile, in seconds of the rate:
    /// by all, and by the first process.
    fn run(
        &mut self,
        seconds: u64,
        weights: &[[f64; PROCESSES]],
        is_cut: [bool; PROCESSES],
    ) -> (f64, f64) {
        let (before, first) = (self.sum(), self.admitted[0]);
        for step in 0..seconds * 1_000 {
            // Clients move every 700 ms.
            let at = usize::try_from(step / 700).unwrap() % weights.len();
            self.step(weights[at], is_cut);
        }
        let in_seconds = |tokens: u64| tokens as f64 / f64::from(self.rate);
        (
            in_seconds(self.sum() - before),
            in_seconds(self.admitted[0] - first),
        )
    }
}

/// Where clients are: all at one process, or everywhere.
fn weights() -> impl Strategy<Value = Vec<[f64; PROCESSES]>> {
    let one = prop_oneof![
        Just([1.0, 0.0, 0.0]),
        Just([0.0, 1.0, 0.0]),
        Just([0.4, 0.3, 0.3]),
        Just([0.8, 0.1, 0.1]),
        Just([0.0, 0.5, 0.5]),
    ];
    proptest::collection::vec(one, 1..6)
}

fn sim() -> impl Strategy<Value = Sim> {
    let latency = proptest::collection::vec(1_u64..20, 7..30);
    (20_u32..2_000, 1_u32..10, latency).prop_map(|(rate, cost, latency)| {
        // A call costs at most a fifth of a second.
        Sim::new(rate, cost.min(rate / 5), latency)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn processes_admit_the_rate_together(mut sim in sim(), weights in weights()) {
        // The full bucket of the beginning.
        sim.run(3, &weights, [false; PROCESSES]);
        let (all, _) = sim.run(12, &weights, [false; PROCESSES]);
        prop_assert!((11.4..=12.6).contains(&all), "{all} s in 12 s");
    }

    #[test]
    fn a_process_that_is_cut_off_admits_its_share(mut sim in sim(), weights in weights()) {
        sim.run(3, &weights, [false; PROCESSES]);
        let everywhere = [[0.4, 0.6, 0.6]];
        let (all, first) = sim.run(12, &everywhere, [true, false, false]);
        let share = 12.0 / PROCESSES as f64;
        prop_assert!(all <= (12.0 + share) * 1.05, "{all} s in 12 s");
        prop_assert!((share * 0.9..=share * 1.1).contains(&first), "{first} s of {share} s");
        // It is back, and all is as before.
        sim.run(1, &weights, [false; PROCESSES]);
        let (all, _) = sim.run(12, &weights, [false; PROCESSES]);
        prop_assert!((11.4..=12.6).contains(&all), "{all} s in 12 s");
    }

    #[test]
    fn all_processes_go_on_without_the_store(mut sim in sim()) {
        let everywhere = [[0.6; PROCESSES]];
        sim.run(3, &everywhere, [false; PROCESSES]);
        let (all, _) = sim.run(12, &everywhere, [true; PROCESSES]);
        prop_assert!((10.8..=12.6).contains(&all), "{all} s in 12 s");
    }
}

#[test]
fn a_call_that_costs_more_than_a_loan_is_admitted() {
    let mut sim = Sim::new(10, 50, vec![1]);
    let (all, _) = sim.run(60, &[[5.0, 0.0, 0.0]], [false; PROCESSES]);
    assert!((55.0..=61.0).contains(&all), "{all} s in 60 s");
    let (all, _) = sim.run(60, &[[5.0, 0.0, 0.0]], [true; PROCESSES]);
    assert!((15.0..=25.0).contains(&all), "{all} s of 20 s");
}

#[test]
fn an_idle_tenant_asks_for_nothing() {
    let mut quota = BorrowedQuota::new(ONE, ONE);
    assert_eq!(quota.ask(ONE, ms(0)), None);
    assert_eq!(
        quota.take(1, ONE, ms(1)),
        Ok(()),
        "the bucket is full at first"
    );
    assert_eq!(quota.take(1, ONE, ms(1)), Err(ms(1_000)));
    let request = LoanRequest {
        debt: 1_000,
        wanted: 1,
    };
    assert_eq!(quota.ask(ONE, ms(1)), Some(request));
    assert_eq!(quota.ask(ONE, ms(2)), None, "one call at a time");
    let lent = Lent {
        thousandths: 250,
        level: 0,
    };
    quota.lent(lent, ONE, ms(3));
    assert_eq!(quota.take(1, ONE, ms(3)), Err(ms(748)));
    assert!(quota.is_busy(ms(1_002)));
    // Somebody may come back for what was missing.
    assert!(quota.is_busy(ms(1_750)) && !quota.is_busy(ms(2_001)));
    assert_eq!(quota.ask(ONE, ms(2_001)), None);
}

/// A first request is admitted before the store has answered, and a burst over all processes is the
/// tenant's.
#[test]
fn a_burst_is_admitted_before_the_store_has_answered() {
    let burst = NonZeroU32::new(90).unwrap();
    let mut quota = BorrowedQuota::new(ONE, burst);
    let admitted = (0..100).filter(|_| quota.take(1, THREE, ms(0)).is_ok());
    assert_eq!(admitted.count(), 30, "its share of a full bucket");
    let mut quota = BorrowedQuota::new(ONE, burst);
    assert_eq!(
        quota.take(80, THREE, ms(0)),
        Ok(()),
        "one request may take all"
    );
    assert!(quota.take(1, THREE, ms(0)).is_err());
    // More than a bucket ever holds leaves a debt, which the store takes from all.
    let mut quota = BorrowedQuota::new(ONE, burst);
    let mut bucket = Bucket::new(1, 90);
    assert_eq!(quota.take(200, THREE, ms(0)), Ok(()));
    let request = quota.ask(THREE, ms(0)).unwrap();
    quota.lent(bucket.lend(request, 0), THREE, ms(1));
    assert_eq!(bucket.left, -110_000);
    assert_eq!(quota.tokens(THREE, ms(1)), 0);
    let wait = quota.take(1, THREE, ms(1)).unwrap_err();
    assert!((ms(110_900)..=ms(111_100)).contains(&wait), "{wait:?}");
    let full = quota.time_until_full(THREE, ms(1));
    assert!((ms(199_900)..=ms(200_100)).contains(&full), "{full:?}");
}

#[test]
fn what_is_charged_later_is_taken_from_the_bucket_and_what_is_given_back_is_not() {
    let rate = NonZeroU32::new(100).unwrap();
    let mut quota = BorrowedQuota::new(rate, rate);
    let mut bucket = Bucket::new(100, 100);
    quota.take(10, THREE, ms(0)).unwrap();
    quota.give_back(10);
    assert_eq!(quota.tokens(THREE, ms(0)), 100);
    quota.charge(400, THREE, ms(0));
    let request = quota.ask(THREE, ms(0)).unwrap();
    assert_eq!(request.debt, 400_000);
    quota.lent(bucket.lend(request, 0), THREE, ms(0));
    assert_eq!(bucket.left, -300_000);
    // Another process has nothing either.
    let mut other = BorrowedQuota::new(rate, rate);
    assert_eq!(other.take(1, THREE, ms(1)), Ok(()));
    let request = other.ask(THREE, ms(1)).unwrap();
    other.lent(bucket.lend(request, 1), THREE, ms(1));
    assert!(other.take(1, THREE, ms(2)).is_err());
    assert_eq!(
        other.ask(THREE, ms(2)),
        None,
        "a bucket in debt is asked less often"
    );
    // The largest numbers do not overflow.
    quota.charge(u64::MAX, THREE, ms(3));
    quota.charge(u64::MAX, THREE, ms(3));
    assert!(quota.take(u32::MAX, THREE, ms(3)).is_err());
    let later = ms(u64::MAX / 4);
    assert!(quota.ask(THREE, later).is_some());
    quota.failed(THREE, later);
    assert_eq!(
        quota.tokens(THREE, Duration::MAX),
        33,
        "its share of the burst"
    );
}

/// Without the store there is a limit, and it is not nothing.
#[test]
fn a_process_that_never_reaches_the_store_admits_its_share() {
    let rate = NonZeroU32::new(30).unwrap();
    let mut quota = BorrowedQuota::new(rate, rate);
    let mut admitted = 0;
    for now in 0..30_000 {
        if quota.take(1, THREE, ms(now)).is_ok() {
            admitted += 1;
        }
        if now % 50 == 0 && quota.ask(THREE, ms(now)).is_some() {
            quota.failed(THREE, ms(now));
        }
    }
    assert!((295..=315).contains(&admitted), "{admitted}");
    assert!(quota.is_away());
    // What nobody asks the store for is as if it were away.
    let mut quota = BorrowedQuota::new(rate, rate);
    let admitted = (0..30_000).filter(|now| quota.take(1, THREE, ms(*now)).is_ok());
    let admitted = admitted.count();
    assert!((295..=315).contains(&admitted), "{admitted}");
}
