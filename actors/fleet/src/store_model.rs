//! What the scripts of `src/scripts` do, in Rust: the store of the model, and what a test of their
//! client compares a real store with.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    time::Duration,
};

use alloy_primitives::{B256, Bytes};

use crate::{
    bounds::{EPOCH_LEAP_MAX, EPOCH_MAX},
    leader::Append,
    policy::{Policy, Rule},
    position::Position,
    replica::Report,
    scripts::{Acquired, Appended, Renewed, Reported},
};

/// A process between two starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Which process.
    pub process: usize,
    /// Which of its starts.
    pub start: u32,
}

impl Owner {
    /// Somebody who is no process of the fleet.
    pub const NOBODY: Self = Self {
        process: usize::MAX,
        start: 0,
    };
}

/// The hash that says what may be appended.
#[derive(Clone, Copy, Debug)]
struct Fence {
    epoch: u64,
    /// -1 in Redis: `None`.
    sequence: Option<u64>,
    is_wanted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    owner: Owner,
    epoch: u64,
    /// `None`: it never expires, which no process writes.
    until: Option<Duration>,
}

/// The keys of the store, and what the oracle knows of how they came to be.
#[derive(Clone)]
pub struct Store {
    policy: Policy,
    /// The longest lease that is taken for one.
    lease_max: Duration,
    lease: Option<Held>,
    fence: Option<Fence>,
    pub(crate) entries: VecDeque<(Position, Bytes)>,
    /// The highest id of the stream; a stream that is removed has none.
    last_id: Option<Position>,
    began: u64,
    writers: HashMap<u64, Owner>,
    last: Option<(Position, B256)>,
    /// What the last append removed.
    pub(crate) trimmed: Vec<Position>,
    /// An invariant that broke.
    pub(crate) broken: Option<String>,
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.entries.iter().map(|(id, _)| id.to_string());
        let ids: Vec<String> = ids.collect();
        let (lease, fence) = (&self.lease, &self.fence);
        write!(formatter, "{lease:?}, {fence:?}, entries {}", ids.join(" "))
    }
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new(lease_max: Duration) -> Self {
        Self::with_policy(lease_max, Policy::default())
    }

    pub(crate) fn with_policy(lease_max: Duration, policy: Policy) -> Self {
        Self {
            policy,
            lease_max,
            lease: None,
            fence: None,
            entries: VecDeque::new(),
            last_id: None,
            began: 0,
            writers: HashMap::new(),
            last: None,
            trimmed: Vec::new(),
            broken: None,
        }
    }

    /// `acquire.lua`.
    pub fn acquire(
        &mut self,
        owner: Owner,
        length: Duration,
        seen: u64,
        now: Duration,
    ) -> Acquired {
        let left = |held: &Held| held.until?.checked_sub(now).filter(|left| !left.is_zero());
        if let Some(held) = &self.lease
            && let Some(left) = left(held)
            && left <= self.lease_max
            && held.owner != owner
        {
            return Acquired::Held(left);
        }
        let before = self.fence.map_or(0, |fence| fence.epoch);
        let before = if before > seen + EPOCH_LEAP_MAX {
            0
        } else {
            before
        };
        let epoch = before.max(seen) + 1;
        if epoch > EPOCH_MAX {
            return Acquired::Exhausted;
        }
        self.lease = Some(Held {
            owner,
            epoch,
            until: Some(now + length),
        });
        self.fence = Some(Fence {
            epoch,
            sequence: None,
            is_wanted: false,
        });
        self.remove_entries();
        self.began = self.began.max(epoch);
        self.last = None;
        Acquired::Epoch(epoch)
    }

    fn holds(&self, owner: Owner, epoch: u64, now: Duration) -> bool {
        self.lease.is_some_and(|held| {
            let is_valid = held.until.is_none_or(|until| until > now);
            is_valid && held.owner == owner && held.epoch == epoch
        })
    }

    /// `renew.lua`.
    pub fn renew(&mut self, owner: Owner, length: Duration, epoch: u64, now: Duration) -> Renewed {
        let newest = self.fence.map_or(0, |fence| fence.epoch);
        if !self.holds(owner, epoch, now) || newest != epoch {
            return Renewed::Lost(newest);
        }
        if let Some(held) = &mut self.lease {
            held.until = Some(now + length);
        }
        Renewed::Renewed(self.fence.is_some_and(|fence| fence.is_wanted))
    }

    /// `release.lua`.
    pub fn release(&mut self, owner: Owner, epoch: u64, now: Duration) {
        if self.holds(owner, epoch, now) {
            self.lease = None;
        }
    }

    /// `append.lua`.
    pub fn append(&mut self, owner: Owner, append: &Append, now: Duration) -> Appended {
        self.trimmed.clear();
        let position = append.entry.position;
        let mut fence = self.fence.unwrap_or(Fence {
            epoch: 0,
            sequence: None,
            is_wanted: false,
        });
        let is_fenced = !self.holds(owner, position.epoch, now) || fence.epoch != position.epoch;
        if is_fenced && self.policy.holds(Rule::Fence) {
            return Appended::Fenced(fence.epoch);
        }
        if fence.epoch == position.epoch {
            if fence.sequence >= Some(position.sequence) {
                let own = (position, append.entry.bytes.clone());
                return match self.entries.contains(&own) {
                    true => Appended::Appended(fence.is_wanted),
                    // The fence says so, and somebody else has written it.
                    false => Appended::Blocked,
                };
            }
            let next = fence.sequence.map_or(0, |sequence| sequence + 1);
            if position.sequence != next && self.policy.holds(Rule::Continuity) {
                return Appended::Gap;
            }
            if self.last_id >= Some(position) {
                return Appended::Blocked;
            }
        }
        self.check(owner, append);
        self.insert(position, append.entry.bytes.clone());
        fence.sequence = Some(position.sequence);
        fence.is_wanted &= !append.begins_snapshot;
        if !is_fenced {
            self.fence = Some(fence);
        }
        let keep_from = Position::new(position.epoch, append.keep_from);
        let entries_max = usize::try_from(append.entries_max).unwrap_or(usize::MAX);
        while let Some((id, _)) = self.entries.front()
            && (*id < keep_from || self.entries.len() > entries_max)
        {
            self.trimmed.push(*id);
            self.entries.pop_front();
        }
        Appended::Appended(fence.is_wanted)
    }

    /// What must hold when an entry is accepted.
    fn check(&mut self, owner: Owner, append: &Append) {
        let position = append.entry.position;
        let broken = if position.epoch < self.began {
            let began = self.began;
            Some(format!("{position} was accepted after epoch {began} began"))
        } else if *self.writers.entry(position.epoch).or_insert(owner) != owner {
            Some(format!("two processes wrote in epoch {}", position.epoch))
        } else {
            let next = self.last.map_or(0, |(last, _)| last.sequence + 1);
            let is_first = next == 0 && append.begins_snapshot;
            let is_chain = position.sequence == next && (next > 0 || is_first);
            (!is_chain).then(|| format!("{position} was accepted, and {next} was next"))
        };
        self.broken = self.broken.take().or(broken);
        self.last = Some((position, append.entry.digest));
    }

    /// `report.lua`.
    pub fn report(&mut self, report: Report) -> Reported {
        let newest = self.fence.map_or(0, |fence| fence.epoch);
        let last = self.fence.and_then(|fence| fence.sequence);
        let seen = report.seen;
        let raised = if newest < seen.epoch {
            seen.epoch
        } else if newest == seen.epoch
            && newest > 0
            && (last < Some(seen.sequence) || report.is_forked)
        {
            newest + 1
        } else {
            newest
        };
        if raised != newest && raised < EPOCH_MAX {
            self.fence = Some(Fence {
                epoch: raised,
                sequence: None,
                is_wanted: false,
            });
            return Reported::Raised(raised);
        }
        if report.wants_snapshot {
            let fence = self.fence.get_or_insert(Fence {
                epoch: 0,
                sequence: None,
                is_wanted: false,
            });
            fence.is_wanted = true;
        }
        Reported::Known(newest, last)
    }

    /// `XREAD`.
    #[must_use]
    pub fn read(&self, after: Position, count: usize) -> Vec<(Position, Bytes)> {
        let entries = self.entries.iter().filter(|(id, _)| *id > after);
        entries.take(count).cloned().collect()
    }

    /// Whether a live lease is held.
    #[must_use]
    pub fn is_led(&self, now: Duration) -> bool {
        self.lease
            .is_some_and(|held| held.until.is_none_or(|until| until > now))
    }

    /// `XADD`, by anybody.
    pub fn insert(&mut self, id: Position, bytes: Bytes) {
        self.last_id = self.last_id.max(Some(id));
        let at = self.entries.partition_point(|(other, _)| *other < id);
        self.entries.insert(at, (id, bytes));
    }

    /// `UNLINK` of the stream.
    pub fn remove_entries(&mut self) {
        self.entries.clear();
        self.last_id = None;
    }

    /// Somebody else writes the lease and the fence. What was accepted before says nothing of what
    /// is accepted afterwards.
    pub fn damage(&mut self, kind: usize, now: Duration) {
        match kind {
            0 => self.lease = None,
            1 => self.fence = None,
            2 => {
                // A lease that never ends is none.
                self.lease = Some(Held {
                    owner: Owner::NOBODY,
                    epoch: 1,
                    until: None,
                });
            }
            3 => {
                self.lease = Some(Held {
                    owner: Owner::NOBODY,
                    epoch: 1,
                    until: Some(now + self.lease_max + Duration::from_millis(500)),
                });
            }
            4 => {
                if let Some(fence) = &mut self.fence {
                    fence.epoch = EPOCH_MAX - 1;
                }
            }
            _ => {
                if let Some(fence) = &mut self.fence {
                    fence.sequence = Some(1 << 40);
                }
            }
        }
        self.forget_history();
    }

    /// What the oracle knew of the store is no longer so.
    pub(crate) fn forget_history(&mut self) {
        self.began = 0;
        self.writers.clear();
        if let Some(fence) = self.fence {
            self.began = fence.epoch;
            if fence.epoch == EPOCH_MAX - 1 {
                self.began = 0;
            }
        }
    }
}
