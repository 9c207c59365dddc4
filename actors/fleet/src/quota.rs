//! A tenant's quota in a fleet: tokens that a replica borrows from the store and spends by itself.
//!
//! The store has one token bucket for each tenant, by its own clock, and lends a replica some 100
//! ms of the tenant's rate at a time ([`LEND`](crate::scripts::LEND)). So a request needs no call
//! to the store, and all replicas together admit what one would. If the store does not answer, each
//! replica admits `rate / replicas`: the tenant keeps a limit and is not shut out.
//!
//! Buckets have no MAC: who can write into the store can give a tenant more.

use std::{num::NonZeroU32, time::Duration};

/// What a replica borrows at a time: the tokens of so many milliseconds. Less means more calls,
/// more means more tokens that wait at replicas that have no use for them.
const LOAN_MS: i128 = 100;

/// Time after which the store counts as away if it has not answered.
const ANSWER_MAX: Duration = Duration::from_millis(100);

/// Time between two questions if the bucket was empty.
const EMPTY_PAUSE: Duration = Duration::from_millis(10);

/// Time for which a tenant counts as busy: tokens are borrowed in advance for those alone.
const BUSY: Duration = Duration::from_secs(1);

/// One token, in the units of this file: a rate of tokens a second is as many units a nanosecond.
const TOKEN: i128 = 1_000_000_000;

/// A thousandth of a token, in which the script counts.
const MILLITOKEN: i128 = TOKEN / 1_000;

/// Why tokens were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The store may have more: take again when it has answered, or when that is overdue.
    Ask,
    /// Nobody has more. There will be as many after this time, if no others are taken.
    Wait(Duration),
}

/// What one replica knows of one tenant's quota. Times are since some start that the caller
/// chooses; they do not go back.
#[derive(Clone, Debug)]
pub struct BorrowedQuota {
    rate: NonZeroU32,
    replicas: NonZeroU32,
    left: i128,
    /// The largest amount that could not be taken lately, and when that was.
    missing: i128,
    missing_at: Duration,
    used_at: Option<Duration>,
    asked_at: Option<Duration>,
    ask_at: Duration,
    /// The store had less than was wanted when it last answered.
    is_empty: bool,
    /// When tokens were last added because the store is away; `None` if it answers.
    away_at: Option<Duration>,
}

impl BorrowedQuota {
    /// Nothing borrowed yet, of a quota of `rate` tokens a second that this many replicas share.
    #[must_use]
    pub const fn new(rate: NonZeroU32, replicas: NonZeroU32) -> Self {
        Self {
            rate,
            replicas,
            left: 0,
            missing: 0,
            missing_at: Duration::ZERO,
            used_at: None,
            asked_at: None,
            ask_at: Duration::ZERO,
            is_empty: false,
            away_at: None,
        }
    }

    /// Notes how many replicas there are: what matters is the number when the store goes away.
    pub const fn share_with(&mut self, replicas: NonZeroU32) {
        self.replicas = replicas;
    }

    fn rate(&self) -> i128 {
        self.rate.get().into()
    }

    /// Tokens of one loan, at least one.
    fn loan(&self) -> i128 {
        (self.rate() * LOAN_MS * 1_000_000).max(TOKEN)
    }

    /// Takes tokens at `now`.
    ///
    /// # Errors
    /// There are not as many here. None are taken.
    pub fn take(&mut self, tokens: u32, now: Duration) -> Result<(), Shortage> {
        self.used_at = Some(now);
        self.forget_missing(now);
        self.add_share(now);
        let wanted = i128::from(tokens) * TOKEN;
        if self.left >= wanted {
            self.left -= wanted;
            if wanted >= self.missing {
                self.missing = 0;
            }
            return Ok(());
        }
        self.missing = self.missing.max(wanted);
        self.missing_at = now;
        let rate = match self.away_at {
            Some(_) => self.rate() / i128::from(self.replicas.get()),
            None if self.is_empty => self.rate(),
            None => return Err(Shortage::Ask),
        };
        let nanos = (wanted - self.left) / rate.max(1);
        let wait = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Err(Shortage::Wait(wait.max(EMPTY_PAUSE)))
    }

    /// Who could not be served has given up.
    fn forget_missing(&mut self, now: Duration) {
        if now >= self.missing_at + BUSY {
            self.missing = 0;
        }
    }

    /// While the store is away, adds this replica's share of the rate since the last call. At most
    /// as much as a loan, or as was missing, is there then.
    fn add_share(&mut self, now: Duration) {
        if self.asked_at.is_some_and(|at| now >= at + ANSWER_MAX) && self.away_at.is_none() {
            self.away_at = Some(now);
        }
        let Some(at) = self
            .away_at
            .filter(|_| self.left < self.loan().max(self.missing))
        else {
            self.away_at = self.away_at.map(|_| now);
            return;
        };
        let nanos = i128::try_from(now.saturating_sub(at).as_nanos()).unwrap_or(0);
        let share = nanos * self.rate() / i128::from(self.replicas.get());
        self.left = (self.left + share).min(self.loan().max(self.missing));
        self.away_at = Some(now);
    }

    /// How many tokens to ask the store for at `now`, if any; one question is asked at a time.
    /// After this, the caller asks, and reports [`lent`](Self::lent) or [`failed`](Self::failed).
    pub fn ask(&mut self, now: Duration) -> Option<u32> {
        self.forget_missing(now);
        let is_busy = self.used_at.is_some_and(|at| now < at + BUSY);
        let loan = self.loan();
        let has_enough = self.left > loan / 2 && self.left >= self.missing;
        if !is_busy || has_enough || self.asked_at.is_some() || now < self.ask_at {
            return None;
        }
        self.asked_at = Some(now);
        let wanted = loan.max(self.missing) - self.left;
        let tokens = (wanted + TOKEN - 1) / TOKEN;
        Some(u32::try_from(tokens.max(1)).unwrap_or(u32::MAX))
    }

    /// The store lent so many thousandths of tokens, of as many tokens as were asked for at
    /// `asked_at`. A late answer counts too: its tokens are gone from the bucket.
    pub fn lent(&mut self, asked_at: Duration, tokens: u32, thousandths: u64, now: Duration) {
        let thousandths = thousandths.min(u64::from(tokens) * 1_000);
        self.left += i128::from(thousandths) * MILLITOKEN;
        if self.asked_at != Some(asked_at) {
            return;
        }
        self.asked_at = None;
        self.away_at = None;
        self.is_empty = thousandths < u64::from(tokens) * 1_000;
        if self.is_empty {
            self.ask_at = now + EMPTY_PAUSE;
        }
    }

    /// The store could not be asked, or has not answered in time: it is away from then on, until it
    /// answers again.
    pub fn failed(&mut self, asked_at: Duration, now: Duration) {
        if self.asked_at == Some(asked_at) {
            self.add_share(now);
            self.asked_at = None;
            self.ask_at = now + ANSWER_MAX;
            self.away_at = self.away_at.or(Some(now));
        }
    }

    /// Whether the store is away, so that this replica admits its share of the rate.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        self.away_at.is_some()
    }
}

#[cfg(test)]
mod tests;
