//! The lease of a process that may lead.
//!
//! A process that may lead asks for the lease when nobody holds it. It then leads an *epoch* until
//! the lease is over: it renews it at a third of its length, and counts from when it asked, not
//! from when it was answered. Two processes may believe that they lead, because one was paused or
//! clocks differ. The store accepts the entries of the newest epoch alone, so the other one finds
//! out when it appends.

use std::time::Duration;

use crate::{
    bounds::LEASE,
    policy::{Policy, Rule},
    scripts::{Acquired, Renewed},
};

/// What to ask the store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseCall {
    /// The lease, with an epoch above this one.
    Acquire {
        /// The newest epoch that the process has seen.
        seen: u64,
    },
    /// More time for this epoch.
    Renew {
        /// The epoch that the process leads.
        epoch: u64,
    },
}

/// A change of who leads, as this process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEvent {
    /// This process leads this epoch. It begins with a snapshot.
    Leads(u64),
    /// It no longer does.
    Lost(LostReason),
}

/// Why a process no longer leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// It was not renewed in time: the store did not answer, or the process was paused.
    Expired,
    /// The store says that it is no longer this process'.
    Fenced,
    /// The store has lost entries, or has something else in their place: a new epoch has to begin.
    Store,
    /// The process gave it back.
    Released,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Another process leads, or nobody. Ask from then on.
    Follows { ask_at: Duration },
    /// This process leads.
    Leads {
        epoch: u64,
        valid_until: Duration,
        renew_at: Duration,
    },
}

/// What a process knows of the lease. Times are since some start that the caller chooses; they do
/// not go back. A clock that stands still while the machine sleeps is good enough: the store
/// fences.
#[derive(Debug)]
pub struct Lease {
    length: Duration,
    state: State,
    /// When the call was made that is in progress.
    asked_at: Option<Duration>,
    /// The newest epoch that was seen: led here, or in entries of the fleet.
    seen: u64,
    policy: Policy,
}

impl Default for Lease {
    fn default() -> Self {
        Self::new(LEASE)
    }
}

impl Lease {
    /// No lease; one has this length.
    #[must_use]
    pub fn new(length: Duration) -> Self {
        Self {
            length,
            state: State::Follows {
                ask_at: Duration::ZERO,
            },
            asked_at: None,
            seen: 0,
            policy: Policy::default(),
        }
    }

    #[cfg(test)]
    pub(crate) const fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The epoch that this process leads, as far as it knows.
    #[must_use]
    pub const fn epoch(&self) -> Option<u64> {
        match self.state {
            State::Leads { epoch, .. } => Some(epoch),
            State::Follows { .. } => None,
        }
    }

    /// Notes an epoch that was seen.
    pub fn saw(&mut self, epoch: u64) {
        self.seen = self.seen.max(epoch);
    }

    /// Whether the lease is over at `now`: to call before anything that only a leader does.
    pub fn check(&mut self, now: Duration) -> Option<LeaseEvent> {
        match self.state {
            State::Leads { valid_until, .. } if now >= valid_until => {
                Some(self.lose(LostReason::Expired, now))
            }
            _ => None,
        }
    }

    /// What to ask the store for at `now`; at most one call is in progress. Only a process that can
    /// lead asks for the lease: its own head is readable and fresh, and it has read the stream to
    /// its end once, so that it has seen the newest epoch.
    pub fn call(&mut self, now: Duration, can_lead: bool) -> Option<LeaseCall> {
        if self.asked_at.is_some() {
            return None;
        }
        let call = match self.state {
            State::Follows { ask_at } if can_lead && now >= ask_at => {
                let seen = match self.policy.holds(Rule::Floor) {
                    true => self.seen,
                    false => 0,
                };
                LeaseCall::Acquire { seen }
            }
            State::Leads {
                epoch, renew_at, ..
            } if now >= renew_at => LeaseCall::Renew { epoch },
            _ => return None,
        };
        self.asked_at = Some(now);
        Some(call)
    }

    /// The store answered the call that was made at `asked_at`. An answer to an earlier call is
    /// ignored: a lease that was not noticed ends by itself. Every epoch that was seen has to be
    /// noted before.
    pub fn acquired(
        &mut self,
        asked_at: Duration,
        answer: Acquired,
        now: Duration,
    ) -> Option<LeaseEvent> {
        if self.asked_at != Some(asked_at) {
            return None;
        }
        self.asked_at = None;
        match answer {
            // Meanwhile, an epoch was seen that the store has lost.
            Acquired::Epoch(epoch) if epoch <= self.seen && self.policy.holds(Rule::Floor) => {
                self.state = State::Follows { ask_at: now };
                None
            }
            Acquired::Epoch(epoch) => {
                self.saw(epoch);
                let valid_until = asked_at + self.length;
                self.state = State::Leads {
                    epoch,
                    valid_until,
                    renew_at: asked_at + self.length / 3,
                };
                // It took so long that the lease is over: nobody was notified that it began.
                if now >= valid_until {
                    self.lose(LostReason::Expired, now);
                    return None;
                }
                Some(LeaseEvent::Leads(epoch))
            }
            Acquired::Held(left) => {
                self.state = State::Follows {
                    ask_at: now + left.min(self.length),
                };
                None
            }
            Acquired::Exhausted => {
                self.wait(now);
                None
            }
        }
    }

    /// The store answered the call that was made at `asked_at`. Also returns whether a replica
    /// wants a snapshot.
    pub fn renewed(
        &mut self,
        asked_at: Duration,
        answer: Renewed,
        now: Duration,
    ) -> (Option<LeaseEvent>, bool) {
        if self.asked_at != Some(asked_at) {
            return (None, false);
        }
        self.asked_at = None;
        let State::Leads { epoch, .. } = self.state else {
            return (None, false);
        };
        match answer {
            Renewed::Renewed(wanted) => {
                self.state = State::Leads {
                    epoch,
                    valid_until: asked_at + self.length,
                    renew_at: asked_at + self.length / 3,
                };
                (self.check(now), wanted)
            }
            Renewed::Lost(_) => (Some(self.lose(LostReason::Fenced, now)), false),
        }
    }

    /// The call in progress has failed, or was not answered in time.
    pub fn failed(&mut self, now: Duration) -> Option<LeaseEvent> {
        self.asked_at = None;
        match &mut self.state {
            State::Follows { .. } => self.wait(now),
            State::Leads { renew_at, .. } => *renew_at = now + self.length / 12,
        }
        self.check(now)
    }

    /// The store refused an entry of this epoch; the newest epoch, if it said so. The process no
    /// longer leads, and may ask again at once. What the store says of epochs is not remembered:
    /// anybody may have written it, and [`ACQUIRE`](crate::scripts::ACQUIRE) exceeds it.
    pub fn refused(
        &mut self,
        epoch: u64,
        newest: Option<u64>,
        now: Duration,
    ) -> Option<LeaseEvent> {
        if self.epoch() != Some(epoch) {
            return None;
        }
        let reason = match newest {
            Some(_) => LostReason::Fenced,
            None => LostReason::Store,
        };
        Some(self.lose(reason, now))
    }

    /// The process gives the lease back, because it ends: it does not ask again for that time.
    pub fn released(&mut self, now: Duration, pause: Duration) -> Option<LeaseEvent> {
        self.epoch()?;
        let event = self.lose(LostReason::Released, now);
        self.state = State::Follows {
            ask_at: now + pause,
        };
        Some(event)
    }

    /// Asks again after a sixth of the lease.
    fn wait(&mut self, now: Duration) {
        self.state = State::Follows {
            ask_at: now + self.length / 6,
        };
    }

    fn lose(&mut self, reason: LostReason, now: Duration) -> LeaseEvent {
        // An answer to what was asked in this epoch is of no use.
        self.asked_at = None;
        self.state = State::Follows { ask_at: now };
        LeaseEvent::Lost(reason)
    }
}

#[cfg(test)]
mod tests;
