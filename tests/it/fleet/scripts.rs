//! The scripts in a real Redis do what their model says.

use std::{rc::Rc, time::Duration};

use alloy_primitives::B256;
use nearhead_actors::fleet::store::FleetStore;
use nearhead_chain::campaign;
use nearhead_fleet::{
    bounds::{EPOCH_MAX, LEASE, LEASE_MAX, READ_ENTRIES_MAX},
    entry::SealedEntry,
    leader::Append,
    position::Position,
    replica::Report,
    scripts::{Acquired, Appended},
    store_model::{Owner, Store},
};

use super::{redis::Redis, store_access::Access};
use crate::{harness::check, rng::Rng};

/// Processes of the schedule.
const OWNERS: usize = 3;

/// A real store and its model. The model's clock stands still: no lease ends but by the schedule.
struct Pair {
    redis: Redis,
    access: Rc<Access>,
    stores: Vec<FleetStore>,
    model: Store,
    rng: Rng,
    /// An epoch and a sequence that are likely to be those of the store.
    epoch: u64,
    sequence: u64,
}

const NOW: Duration = Duration::ZERO;

/// An answer without the time that is left of a lease, which the real one counts down.
fn acquired(answer: Acquired) -> Acquired {
    match answer {
        Acquired::Held(left) if left <= LEASE_MAX => Acquired::Held(LEASE),
        other => other,
    }
}

impl Pair {
    fn new(redis: Redis, seed: u64) -> Self {
        let access = Rc::new(Access::to(&redis.url()));
        let store = |at: usize| access.open(&format!("owner-{at}"));
        Self {
            stores: (0..OWNERS).map(store).collect(),
            model: Store::new(LEASE_MAX),
            rng: Rng::new(seed),
            epoch: 0,
            sequence: 0,
            access,
            redis,
        }
    }

    fn command(&self, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.redis.call(&words)
    }

    /// A number that is the likely one, or near it.
    fn near(&mut self, number: u64) -> u64 {
        match self.rng.below(8) {
            0 => number.saturating_sub(1),
            1 => number + 1,
            2 => self.rng.between(0, 9),
            _ => number,
        }
    }

    /// One call of a process, to both.
    fn call(&mut self, case: &str) {
        let at = self.rng.below(OWNERS);
        let owner = Owner {
            process: at,
            start: 0,
        };
        let (access, store) = (Rc::clone(&self.access), self.stores[at].clone());
        // The real lease counts down, and must not end.
        self.command(&["PEXPIRE", &access.key("lease"), "9000", "GT"]);
        match self.rng.below(10) {
            0 => {
                let seen = match self.rng.below(6) {
                    0 => EPOCH_MAX,
                    _ => self.near(self.epoch),
                };
                let real = self.access.run(store.acquire(seen)).unwrap();
                let model = self.model.acquire(owner, LEASE, seen, NOW);
                check(case, &acquired(real), &acquired(model));
                if let Acquired::Epoch(epoch) = real {
                    (self.epoch, self.sequence) = (epoch, 0);
                }
            }
            1 => {
                let epoch = self.near(self.epoch);
                let real = self.access.run(store.renew(epoch)).unwrap();
                check(case, &real, &self.model.renew(owner, LEASE, epoch, NOW));
            }
            2 if self.rng.one_in(2) => {
                let epoch = self.near(self.epoch);
                self.access.run(store.release(epoch)).unwrap();
                self.model.release(owner, epoch, NOW);
            }
            3 => {
                let seen = Position::new(self.near(self.epoch), self.near(self.sequence));
                let report = Report {
                    seen,
                    is_forked: self.rng.one_in(8),
                    wants_snapshot: self.rng.one_in(3),
                };
                let real = self.access.run(store.report(report)).unwrap();
                check(case, &real, &self.model.report(report));
            }
            _ => {
                let position = Position::new(self.near(self.epoch), self.near(self.sequence));
                let append = Append {
                    entry: SealedEntry {
                        position,
                        digest: B256::ZERO,
                        bytes: format!("{position} {}", self.rng.below(8) / 7)
                            .into_bytes()
                            .into(),
                    },
                    keep_from: position.sequence.saturating_sub(self.rng.between(2, 5)),
                    entries_max: self.rng.between(3, 9),
                    begins_snapshot: self.rng.one_in(6),
                };
                let real = self.access.run(store.append(&append)).unwrap();
                check(case, &real, &self.model.append(owner, &append, NOW));
                if matches!(real, Appended::Appended(_)) && position.epoch == self.epoch {
                    self.sequence = position.sequence + 1;
                }
            }
        }
    }

    /// What others do, to both.
    fn damage(&mut self) {
        let [lease, fence, entries] = ["lease", "fence", "entries"].map(|key| self.access.key(key));
        let kind = self.rng.below(8);
        match kind {
            0 => _ = self.command(&["DEL", &lease]),
            1 => _ = self.command(&["DEL", &fence]),
            2 => _ = self.command(&["SET", &lease, "1:nobody"]),
            3 => _ = self.command(&["SET", &lease, "1:nobody", "PX", "1000000"]),
            4 if self.command(&["EXISTS", &fence]) == ":1" => {
                let epoch = (EPOCH_MAX - 1).to_string();
                self.command(&["HSET", &fence, "epoch", &epoch]);
            }
            5 if self.command(&["EXISTS", &fence]) == ":1" => {
                let sequence = (1_u64 << 40).to_string();
                self.command(&["HSET", &fence, "sequence", &sequence]);
            }
            6 => {
                self.command(&["DEL", &entries]);
                self.model.remove_entries();
                return;
            }
            7 => {
                self.command(&["SCRIPT", "FLUSH"]);
                return;
            }
            _ => return,
        }
        self.model.damage(kind, NOW);
    }

    /// The entries of both.
    fn check_entries(&self, case: &str) {
        let mut real = Vec::new();
        let mut after = Position::default();
        loop {
            let read = self.stores[0].read(after, READ_ENTRIES_MAX, Duration::ZERO);
            let read = self.access.run(read).unwrap();
            let Some((last, _)) = read.last() else {
                break;
            };
            after = *last;
            real.extend(read);
        }
        check(
            case,
            &real,
            &self.model.read(Position::default(), usize::MAX),
        );
    }
}

/// A schedule of calls by three processes, and of what others do, which follows from its seed.
#[test]
fn scripts_do_what_their_model_says() {
    let redis = Redis::start_with("fleet-scripts", &[]);
    let mut pair = Pair::new(redis, 67);
    let mut answers = [0; 2];
    for round in 0..campaign::rounds(600, 6_000) {
        let case = format!("call {round}");
        pair.call(&case);
        if pair.rng.one_in(25) {
            pair.damage();
        }
        if pair.rng.one_in(20) {
            pair.check_entries(&case);
        }
        answers[usize::from(pair.sequence > 0)] += 1;
    }
    pair.check_entries("at the end");
    assert!(answers.iter().all(|count| *count > 50), "{answers:?}");
}
