//! The classes of calls. Each has a health of its own: a refusal or a stall in one class does not
//! take an upstream away from the others.

use std::time::Duration;

use super::upstream_state::{Fault, Moment};

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallClass {
    /// Which chain an upstream is on, and which blocks it names.
    Heads,
    /// Blocks and receipts.
    Blocks,
    /// Proofs, code and access lists.
    State,
}

impl CallClass {
    pub(crate) const ALL: [Self; 3] = [Self::Heads, Self::Blocks, Self::State];

    /// Its name in log lines.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::Blocks => "blocks",
            Self::State => "state",
        }
    }
}

/// The health of one class of an upstream's calls.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassHealth {
    /// Set by a fault or limit, and removed by [`Self::recover`].
    backoff: Option<BackoffPeriod>,
    /// Backoff periods in a row.
    strikes: u32,
    /// When the last backoff period ended.
    quiet_since: Moment,
}

/// Why an upstream is backed off, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackoffPeriod {
    /// `None`: the upstream limits our rate.
    pub(super) fault: Option<Fault>,
    pub(super) until: Moment,
}

impl BackoffPeriod {
    fn is_of_lie(self) -> bool {
        self.fault.is_some_and(Fault::is_lie)
    }
}

impl ClassHealth {
    /// The backoff; its time may be over.
    pub(super) const fn backoff(&self) -> Option<BackoffPeriod> {
        self.backoff
    }

    /// The strikes that count: all are forgotten after `forgiven_after` without a backoff.
    pub(super) fn strikes(&self, now: Moment, forgiven_after: Duration) -> u32 {
        match now.saturating_sub(self.quiet_since) < forgiven_after {
            true => self.strikes,
            false => 0,
        }
    }

    /// Whether calls of this class may be made.
    pub(super) fn may_ask(&self, now: Moment) -> bool {
        self.backoff.is_none_or(|backoff| backoff.until <= now)
    }

    /// Removes the backoff if its time is over.
    pub(super) fn recover(&mut self, now: Moment) {
        self.backoff.take_if(|backoff| backoff.until <= now);
    }

    /// Begins a backoff. `wait` gives its length for this many strikes. Returns the length; `None`
    /// if nothing changes.
    pub(super) fn back_off(
        &mut self,
        now: Moment,
        fault: Option<Fault>,
        forgiven_after: Duration,
        wait: impl FnOnce(u32) -> Duration,
    ) -> Option<Duration> {
        let is_lie = fault.is_some_and(Fault::is_lie);
        // Concurrent calls fail together, so further failures change nothing, except that a lie
        // outweighs another fault.
        let running = self.backoff.filter(|backoff| backoff.until > now);
        if running.is_some_and(|backoff| !is_lie || backoff.is_of_lie()) {
            return None;
        }
        self.strikes = self.strikes(now, forgiven_after).saturating_add(1);
        let wait = wait(self.strikes);
        let until = now.saturating_add(wait);
        self.backoff = Some(BackoffPeriod { fault, until });
        self.quiet_since = until;
        Some(wait)
    }
}
