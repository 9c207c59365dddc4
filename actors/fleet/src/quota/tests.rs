//! What replicas admit together, in simulated time.

#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

const REPLICAS: usize = 3;

/// `lend.lua`, in Rust: thousandths of tokens, and milliseconds.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    capacity: u64,
    left: u64,
    at: u64,
}

impl Bucket {
    const fn new(rate: u32, burst: u32) -> Self {
        let capacity = burst as u64 * 1_000;
        Self {
            rate: rate as u64,
            capacity,
            left: capacity,
            at: 0,
        }
    }

    fn lend(&mut self, wanted: u32, now: u64) -> u64 {
        let added = now.saturating_sub(self.at) * self.rate;
        self.left = self.capacity.min(self.left + added);
        self.at = now;
        let lent = self.left.min(u64::from(wanted) * 1_000);
        self.left -= lent;
        lent
    }
}

/// A question that is on its way, or its answer.
#[derive(Debug)]
struct Call {
    replica: usize,
    asked_at: u64,
    tokens: u32,
    /// When the store has it.
    arrives: u64,
    /// When the replica has the answer, and what that is.
    answered: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Sim {
    bucket: Bucket,
    rate: u32,
    cost: u32,
    replicas: Vec<BorrowedQuota>,
    calls: Vec<Call>,
    /// Milliseconds that a message takes; numbers to draw from.
    latency: Vec<u64>,
    drawn: usize,
    now: u64,
    admitted: [u64; REPLICAS],
    wanted: [f64; REPLICAS],
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Sim {
    fn new(rate: u32, cost: u32, latency: Vec<u64>) -> Self {
        let quota = BorrowedQuota::new(NonZeroU32::new(rate).unwrap(), NonZeroU32::new(3).unwrap());
        Self {
            bucket: Bucket::new(rate, rate),
            rate,
            cost,
            replicas: vec![quota; REPLICAS],
            calls: Vec::new(),
            latency,
            drawn: 0,
            now: 0,
            admitted: [0; REPLICAS],
            wanted: [0.0; REPLICAS],
        }
    }

    fn delay(&mut self) -> u64 {
        self.drawn += 1;
        self.latency[self.drawn % self.latency.len()]
    }

    /// One millisecond, in which clients want these parts of twice the rate, and the store does not
    /// reach the replicas that are cut off.
    fn step(&mut self, weights: [f64; REPLICAS], is_cut: [bool; REPLICAS]) {
        self.now += 1;
        let (now, delay) = (self.now, self.delay());
        let mut calls = std::mem::take(&mut self.calls);
        calls.retain_mut(|call| {
            if is_cut[call.replica] {
                return now < call.asked_at + 200 || {
                    self.replicas[call.replica].failed(ms(call.asked_at), ms(now));
                    false
                };
            }
            match call.answered {
                None if now >= call.arrives => {
                    let lent = self.bucket.lend(call.tokens, now);
                    call.answered = Some((now + delay, lent));
                    true
                }
                Some((at, lent)) if now >= at => {
                    let quota = &mut self.replicas[call.replica];
                    quota.lent(ms(call.asked_at), call.tokens, lent, ms(now));
                    false
                }
                _ => true,
            }
        });
        self.calls = calls;
        for (name, weight) in weights.into_iter().enumerate() {
            self.wanted[name] += weight * f64::from(self.rate) * 2.0 / 1_000.0;
            let cost = f64::from(self.cost);
            let quota = &mut self.replicas[name];
            while self.wanted[name] >= cost && quota.take(self.cost, ms(now)).is_ok() {
                self.wanted[name] -= cost;
                self.admitted[name] += u64::from(self.cost);
            }
            // Clients that are refused come back later, but not all of them.
            self.wanted[name] = self.wanted[name].min(cost.max(f64::from(self.rate) / 50.0));
            if let Some(tokens) = self.replicas[name].ask(ms(now)) {
                let arrives = now + self.delay();
                self.calls.push(Call {
                    replica: name,
                    asked_at: now,
                    tokens,
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
    /// by all, and by the first replica.
    fn run(
        &mut self,
        seconds: u64,
        weights: &[[f64; REPLICAS]],
        is_cut: [bool; REPLICAS],
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

/// Where clients are: all at one replica, or everywhere.
fn weights() -> impl Strategy<Value = Vec<[f64; REPLICAS]>> {
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
    fn replicas_admit_the_rate_together(mut sim in sim(), weights in weights()) {
        // The full bucket of the beginning.
        sim.run(3, &weights, [false; REPLICAS]);
        let (all, _) = sim.run(12, &weights, [false; REPLICAS]);
        prop_assert!((11.4..=12.6).contains(&all), "{all} s in 12 s");
    }

    #[test]
    fn a_replica_that_is_cut_off_admits_its_share(mut sim in sim(), weights in weights()) {
        sim.run(3, &weights, [false; REPLICAS]);
        let everywhere = [[0.4, 0.6, 0.6]];
        let (all, first) = sim.run(12, &everywhere, [true, false, false]);
        let share = 12.0 / REPLICAS as f64;
        prop_assert!(all <= (12.0 + share) * 1.05, "{all} s in 12 s");
        prop_assert!((share * 0.9..=share * 1.1).contains(&first), "{first} s of {share} s");
        // It is back, and all is as before.
        sim.run(1, &weights, [false; REPLICAS]);
        let (all, _) = sim.run(12, &weights, [false; REPLICAS]);
        prop_assert!((11.4..=12.6).contains(&all), "{all} s in 12 s");
    }

    #[test]
    fn all_replicas_go_on_without_the_store(mut sim in sim()) {
        let everywhere = [[0.6; REPLICAS]];
        sim.run(3, &everywhere, [false; REPLICAS]);
        let (all, _) = sim.run(12, &everywhere, [true; REPLICAS]);
        prop_assert!((10.8..=12.6).contains(&all), "{all} s in 12 s");
    }
}

#[test]
fn a_call_that_costs_more_than_a_loan_is_admitted() {
    let mut sim = Sim::new(10, 50, vec![1]);
    let (all, _) = sim.run(60, &[[5.0, 0.0, 0.0]], [false; REPLICAS]);
    assert!((55.0..=61.0).contains(&all), "{all} s in 60 s");
    let (all, _) = sim.run(60, &[[5.0, 0.0, 0.0]], [true; REPLICAS]);
    assert!((15.0..=25.0).contains(&all), "{all} s of 20 s");
}

#[test]
fn an_idle_tenant_asks_for_nothing() {
    let mut quota = BorrowedQuota::new(NonZeroU32::MIN, NonZeroU32::MIN);
    assert_eq!(quota.ask(ms(0)), None);
    assert_eq!(quota.take(1, ms(1)), Err(Shortage::Ask));
    assert_eq!(quota.ask(ms(1)), Some(1));
    assert_eq!(quota.ask(ms(2)), None, "one question at a time");
    quota.lent(ms(1), 1, 250, ms(3));
    let wait = Shortage::Wait(ms(750));
    assert_eq!(quota.take(1, ms(3)), Err(wait));
    assert_eq!(quota.ask(ms(1_003)), None);
}
