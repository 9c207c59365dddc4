//! A tenant's quota in a fleet: tokens that a process borrows from the store and spends by itself.
//!
//! The store has one token bucket for each tenant, by its own clock, and lends a process some 100
//! ms of the tenant's rate at a time ([`LEND`](crate::scripts::LEND)). So a request needs no call
//! to the store, and all processes together admit what one would.
//!
//! A process may spend more than it has borrowed: its share of what the bucket had when the store
//! last answered, and more for what was used before its price was known. That is its debt, which
//! the next call takes from the bucket, and which may leave the bucket in debt to all. So a burst
//! is admitted at once, and over time no more than the rate is.
//!
//! If the store does not answer, each process admits `rate / processes`: the tenant keeps a limit
//! and is not shut out.
//!
//! Buckets have no MAC: who can write into the store can give a tenant more, or nothing.

mod day;

use std::{num::NonZeroU32, time::Duration};

pub use self::day::{SharedUnits, UnitsReport};

/// What a process borrows at a time: the tokens of so many milliseconds. Less means more calls,
/// more means more tokens that wait at processes that have no use for them.
const LOAN_MS: i128 = 100;

/// Milliseconds of the rate that a bucket holds at least: between two calls of a process, what it
/// could have lent is not to run over.
const CAPACITY_MS: u64 = 250;

/// Time after which the store counts as away if it has not answered.
const ANSWER_MAX: Duration = Duration::from_millis(100);

/// Time between two calls if the bucket was empty, and the longest one if it was in debt.
const EMPTY_PAUSE: Duration = Duration::from_millis(10);
const DEBT_PAUSE_MAX: Duration = Duration::from_millis(200);

/// Time for which a tenant counts as busy: tokens are borrowed in advance for those alone.
const BUSY: Duration = Duration::from_secs(1);

/// One token, in the units of this file: a rate of tokens a second is as many units a nanosecond.
const TOKEN: i128 = 1_000_000_000;

/// A thousandth of a token, in which the script counts.
const MILLITOKEN: i128 = TOKEN / 1_000;

/// The largest debt in tokens: a century of requests, and Lua's numbers are exact there.
const DEBT_MAX: i128 = 1 << 42;

/// What a process asks the store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoanRequest {
    /// Thousandths of tokens that were spent and not borrowed: the bucket loses them in any case.
    pub debt: u64,
    /// Tokens that are wanted: the bucket gives what it has.
    pub wanted: u32,
}

/// What the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Thousandths of tokens that it has lent.
    pub thousandths: u64,
    /// Thousandths of tokens that the bucket has now; negative if it is in debt.
    pub level: i64,
}

/// A call to the store that has no answer yet.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Duration,
    request: LoanRequest,
}

/// What one process knows of one tenant's quota. Times are since some start that the caller
/// chooses; they do not go back. `processes` is how many processes share the quota.
#[derive(Clone, Debug)]
pub struct BorrowedQuota {
    rate: NonZeroU32,
    burst: NonZeroU32,
    /// What is borrowed and not spent; negative is a debt.
    left: i128,
    /// What the bucket had at `level_at`, as far as this process knows; negative is a debt.
    level: i128,
    level_at: Duration,
    /// The largest amount that could not be taken lately, and until when it is kept for whoever
    /// comes back for it.
    missing: i128,
    missing_until: Duration,
    used_at: Option<Duration>,
    /// Since when an answer of the store is needed.
    wanting_at: Option<Duration>,
    asked: Option<Asked>,
    ask_at: Duration,
    /// When tokens were last added because the store is away; `None` if it answers.
    away_at: Option<Duration>,
    /// How many were.
    granted: i128,
}

impl BorrowedQuota {
    /// Nothing borrowed yet, of a quota of `rate` tokens a second and a bucket that holds `burst`
    /// and is full.
    #[must_use]
    pub const fn new(rate: NonZeroU32, burst: NonZeroU32) -> Self {
        Self {
            rate,
            burst,
            left: 0,
            level: burst.get() as i128 * TOKEN,
            level_at: Duration::ZERO,
            missing: 0,
            missing_until: Duration::ZERO,
            used_at: None,
            wanting_at: None,
            asked: None,
            ask_at: Duration::ZERO,
            away_at: None,
            granted: 0,
        }
    }

    fn rate(&self) -> i128 {
        self.rate.get().into()
    }

    fn burst(&self) -> i128 {
        i128::from(self.burst.get()) * TOKEN
    }

    /// Tokens that the store's bucket holds when it is full: a quarter of a second's worth at
    /// least.
    #[must_use]
    pub fn capacity(rate: NonZeroU32, burst: NonZeroU32) -> u64 {
        let least = (u64::from(rate.get()) * CAPACITY_MS).div_ceil(1_000);
        least.max(burst.get().into())
    }

    /// Tokens of one loan, at least one.
    fn loan(&self) -> i128 {
        (self.rate() * LOAN_MS * 1_000_000).max(TOKEN)
    }

    /// What the bucket has at `now`, if the other processes use their shares of the rate.
    fn level(&self, processes: NonZeroU32, now: Duration) -> i128 {
        let share = self.share_of(now.saturating_sub(self.level_at), processes);
        self.burst().min(self.level + share)
    }

    /// This process's share of what a time brings.
    fn share_of(&self, time: Duration, processes: NonZeroU32) -> i128 {
        let nanos = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX >> 64);
        nanos.saturating_mul(self.rate()) / i128::from(processes.get())
    }

    /// Takes tokens at `now`. More than a full bucket holds are given if it is full, and leave it
    /// in debt.
    ///
    /// # Errors
    /// There are not as many: the time after which there will be, if no others are taken. None are
    /// taken.
    pub fn take(
        &mut self,
        tokens: u32,
        processes: NonZeroU32,
        now: Duration,
    ) -> Result<(), Duration> {
        self.used(processes, now);
        let cost = i128::from(tokens) * TOKEN;
        let needed = cost.min(self.burst());
        if self.left >= needed || self.may_overdraw(needed, processes, now) {
            self.left -= cost;
            if needed >= self.missing {
                self.missing = 0;
            }
            self.note_want(now);
            return Ok(());
        }
        let wait = self.wait_for(needed, processes, now);
        self.missing = self.missing.max(needed);
        self.missing_until = self.missing_until.max(now + wait + BUSY);
        self.note_want(now);
        Err(wait)
    }

    /// Whether this process may spend what it has not borrowed: its share of what the bucket has,
    /// or all of that for one request.
    fn may_overdraw(&self, needed: i128, processes: NonZeroU32, now: Duration) -> bool {
        if self.away_at.is_some() {
            return false;
        }
        let level = self.level(processes, now).max(0);
        let share = level / i128::from(processes.get());
        self.left + share >= needed || (self.left >= 0 && self.left + level >= needed)
    }

    /// The time until so much is there.
    fn wait_for(&self, needed: i128, processes: NonZeroU32, now: Duration) -> Duration {
        let (missing, parts) = match self.away_at {
            Some(_) => (needed - self.left, i128::from(processes.get())),
            None => (needed - self.left - self.level(processes, now), 1),
        };
        self.time_of(missing * parts).max(EMPTY_PAUSE)
    }

    /// The time in which the rate brings so much.
    fn time_of(&self, units: i128) -> Duration {
        let nanos = (units.max(0) + self.rate() - 1) / self.rate();
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Takes what was used already, even if it leaves a debt.
    pub fn charge(&mut self, tokens: u64, processes: NonZeroU32, now: Duration) {
        self.used(processes, now);
        self.left = (self.left - i128::from(tokens) * TOKEN).max(-DEBT_MAX * TOKEN);
        self.note_want(now);
    }

    /// Gives back tokens that were taken and not used.
    pub fn give_back(&mut self, tokens: u32) {
        self.left += i128::from(tokens) * TOKEN;
    }

    /// Whole tokens of the bucket, as far as this process knows: with its own, or, if the store is
    /// away, these alone.
    #[must_use]
    pub fn tokens(&mut self, processes: NonZeroU32, now: Duration) -> u32 {
        self.add_share(processes, now);
        let left = self.all(processes, now).clamp(0, self.burst()) / TOKEN;
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// The time from `now` until the bucket is full, if nothing is taken anywhere.
    #[must_use]
    pub fn time_until_full(&mut self, processes: NonZeroU32, now: Duration) -> Duration {
        self.add_share(processes, now);
        self.time_of(self.burst() - self.all(processes, now))
    }

    fn all(&self, processes: NonZeroU32, now: Duration) -> i128 {
        match self.away_at {
            Some(_) => self.left,
            None => self.left + self.level(processes, now),
        }
    }

    fn used(&mut self, processes: NonZeroU32, now: Duration) {
        self.used_at = Some(now);
        self.forget_missing(now);
        self.add_share(processes, now);
    }

    /// Who could not be served has given up.
    fn forget_missing(&mut self, now: Duration) {
        if now >= self.missing_until {
            self.missing = 0;
        }
    }

    /// Notes since when an answer is needed: if none comes, the store is away.
    fn note_want(&mut self, now: Duration) {
        self.wanting_at = match self.wants_loan() {
            true => self.wanting_at.or(Some(now.max(self.ask_at))),
            false => None,
        };
    }

    /// Whether less is left than a process should have.
    fn wants_loan(&self) -> bool {
        self.left <= self.loan() / 2 || self.left < self.missing
    }

    /// While the store is away, adds this process's share of the rate since the last call. At most
    /// its share of the burst, or as much as was missing, is there then.
    fn add_share(&mut self, processes: NonZeroU32, now: Duration) {
        let is_overdue = |at: Duration| now >= at + ANSWER_MAX;
        if self.away_at.is_none() && self.wanting_at.is_some_and(is_overdue) {
            self.away_at = Some(now);
        }
        let Some(at) = self.away_at else {
            return;
        };
        self.away_at = Some(now.max(at));
        let burst = self.burst() / i128::from(processes.get());
        let most = burst.max(self.loan()).max(self.missing);
        if self.left < most {
            let share = self.share_of(now.saturating_sub(at), processes);
            let left = (self.left + share).min(most);
            self.granted += left - self.left;
            self.left = left;
        }
    }

    /// Whether the store has to be asked from time to time.
    #[must_use]
    pub fn is_busy(&self, now: Duration) -> bool {
        let was_used = self.used_at.is_some_and(|at| now < at + BUSY);
        was_used || now < self.missing_until || self.left < 0 || self.asked.is_some()
    }

    /// Whether the store has to be asked soon.
    #[must_use]
    pub fn wants_call(&self, now: Duration) -> bool {
        self.wants_loan() && self.is_busy(now)
    }

    /// What to ask the store for at `now`, if anything; one call is made at a time. After this, the
    /// caller asks, and reports [`lent`](Self::lent) or [`failed`](Self::failed).
    pub fn ask(&mut self, processes: NonZeroU32, now: Duration) -> Option<LoanRequest> {
        self.forget_missing(now);
        self.add_share(processes, now);
        if !self.is_busy(now) || !self.wants_loan() || self.asked.is_some() || now < self.ask_at {
            return None;
        }
        let debt = (-self.left).max(0) / MILLITOKEN;
        let wanted = self.loan().max(self.missing) - self.left.max(0);
        let request = LoanRequest {
            debt: u64::try_from(debt).unwrap_or(u64::MAX),
            wanted: u32::try_from((wanted + TOKEN - 1) / TOKEN).unwrap_or(u32::MAX),
        };
        self.asked = Some(Asked { at: now, request });
        self.wanting_at = self.wanting_at.or(Some(now));
        Some(request)
    }

    /// The store has answered.
    pub fn lent(&mut self, lent: Lent, processes: NonZeroU32, now: Duration) {
        let Some(Asked { at, request }) = self.asked.take() else {
            return;
        };
        let wanted = u64::from(request.wanted) * 1_000;
        let thousandths = lent.thousandths.min(wanted);
        self.left += i128::from(request.debt.saturating_add(thousandths)) * MILLITOKEN;
        self.level = (i128::from(lent.level) * MILLITOKEN).max(-DEBT_MAX * TOKEN);
        self.level_at = at;
        // What was admitted without the store meanwhile was borrowed too, unless that was long: the
        // bucket has run over then.
        let second = self.share_of(BUSY, processes);
        self.left -= self.granted.min(second);
        self.granted = 0;
        self.away_at = None;
        self.wanting_at = None;
        if thousandths < wanted {
            let pause = self.time_of(-self.level);
            self.ask_at = now + pause.clamp(EMPTY_PAUSE, DEBT_PAUSE_MAX);
        }
    }

    /// The store could not be asked, or has not answered in time: it is away from then on, until it
    /// answers again.
    pub fn failed(&mut self, processes: NonZeroU32, now: Duration) {
        self.add_share(processes, now);
        if self.asked.take().is_some() {
            self.ask_at = now + ANSWER_MAX;
            self.away_at = self.away_at.or(Some(now));
        }
    }

    /// Whether the store is away, so that this process admits its share of the rate.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        self.away_at.is_some()
    }
}

#[cfg(test)]
mod tests;
