//! A token bucket whose tokens are borrowed from the store.

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use nearhead_fleet::quota::BorrowedQuota;

use super::{bucket_account::BucketAccount, loan_desk::LoanDesk};

/// A token bucket that all processes of a fleet share, with what this one has borrowed of it. It
/// is used as [`TokenBucket`](crate::budget::TokenBucket) is.
#[derive(Debug)]
pub struct LentBucket {
    desk: LoanDesk,
    name: String,
    rate: NonZeroU32,
    burst: NonZeroU32,
    /// Made when it is first used: most of many tenants are not.
    account: Option<Arc<BucketAccount>>,
}

impl LentBucket {
    /// The bucket of `rate` tokens a second that holds `burst` of them. One with another rate or
    /// burst is another bucket, and full at first, as it is without a fleet.
    #[must_use]
    pub fn new(desk: &LoanDesk, name: &str, rate: NonZeroU32, burst: NonZeroU32) -> Self {
        Self {
            desk: desk.clone(),
            name: format!("{name}:{rate}:{burst}"),
            rate,
            burst,
            account: None,
        }
    }

    /// Tokens per second.
    #[must_use]
    pub const fn rate(&self) -> NonZeroU32 {
        self.rate
    }

    /// Tokens that it holds when it is full.
    #[must_use]
    pub const fn burst(&self) -> NonZeroU32 {
        self.burst
    }

    /// Takes `tokens` at `now`.
    ///
    /// # Errors
    /// There are not as many: the time after which there will be, if no others are taken. Nothing
    /// is taken.
    pub fn take(&mut self, tokens: u32, now: Instant) -> Result<(), Duration> {
        self.with(now, |quota, processes, at| {
            quota.take(tokens, processes, at)
        })
    }

    /// Takes `tokens` at `now`, even if they leave the bucket in debt: for what was used already.
    pub fn charge(&mut self, tokens: u64, now: Instant) {
        self.with(now, |quota, processes, at| {
            quota.charge(tokens, processes, at)
        });
    }

    /// Gives back `tokens` that were taken and not used.
    pub fn give_back(&mut self, tokens: u32) {
        if let Some(account) = &self.account {
            account.give_back(tokens);
        }
    }

    /// Whole tokens that the bucket holds at `now`, as far as this process knows.
    #[must_use]
    pub fn tokens(&mut self, now: Instant) -> u32 {
        self.with(now, BorrowedQuota::tokens)
    }

    /// The time from `now` until it is full, if nothing is taken.
    #[must_use]
    pub fn time_until_full(&mut self, now: Instant) -> Duration {
        self.with(now, BorrowedQuota::time_until_full)
    }

    fn with<T>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut BorrowedQuota, NonZeroU32, Duration) -> T,
    ) -> T {
        let Self {
            desk,
            name,
            rate,
            burst,
            account,
        } = self;
        let make = || Arc::new(BucketAccount::new(name, *rate, *burst));
        let account = account.get_or_insert_with(make);
        let at = desk.since_start(now);
        let act = |quota: &mut BorrowedQuota| act(quota, desk.processes(), at);
        account.with(at, act, || desk.list_bucket(account))
    }
}
