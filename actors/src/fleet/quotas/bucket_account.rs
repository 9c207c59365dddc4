//! What this process has borrowed of a bucket, as requests and the lender share it.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use nearhead_fleet::quota::{BorrowedQuota, Lent};
use parking_lot::Mutex;

use crate::fleet::store::LoanCall;

/// What is borrowed of one bucket.
#[derive(Debug)]
pub(super) struct BucketAccount {
    name: String,
    rate: NonZeroU32,
    burst: NonZeroU32,
    state: Mutex<BucketState>,
}

#[derive(Debug)]
struct BucketState {
    quota: BorrowedQuota,
    is_listed: bool,
}

/// A call to the store that is due.
#[derive(Debug)]
#[must_use = "the store has to be asked"]
pub struct Loan {
    account: Arc<BucketAccount>,
    /// What is asked.
    pub call: LoanCall,
}

impl BucketAccount {
    pub(super) fn new(name: &str, rate: NonZeroU32, burst: NonZeroU32) -> Self {
        Self {
            name: name.to_owned(),
            rate,
            burst,
            state: Mutex::new(BucketState {
                quota: BorrowedQuota::new(rate, burst),
                is_listed: false,
            }),
        }
    }

    /// Does something with the quota, and lists it if the store has to be asked and it is not
    /// listed; `list` returns whether there was room.
    pub(super) fn with<T>(
        &self,
        at: Duration,
        act: impl FnOnce(&mut BorrowedQuota) -> T,
        list: impl FnOnce() -> bool,
    ) -> T {
        let mut state = self.state.lock();
        let outcome = act(&mut state.quota);
        if !state.is_listed && state.quota.wants_call(at) {
            state.is_listed = list();
        }
        outcome
    }

    /// Gives back tokens that were taken and not used.
    pub(super) fn give_back(&self, tokens: u32) {
        self.state.lock().quota.give_back(tokens);
    }

    /// What is due, and whether it stays listed.
    pub(super) fn due(
        this: &Arc<Self>,
        processes: NonZeroU32,
        at: Duration,
    ) -> (Option<Loan>, bool) {
        let mut state = this.state.lock();
        let request = state.quota.ask(processes, at);
        state.is_listed = state.quota.is_busy(at);
        let loan = request.map(|request| Loan {
            account: Arc::clone(this),
            call: LoanCall {
                name: this.name.clone(),
                rate: this.rate.get(),
                capacity: BorrowedQuota::capacity(this.rate, this.burst),
                request,
            },
        });
        (loan, state.is_listed)
    }
}

impl Loan {
    /// The store has answered.
    pub(super) fn lent(self, lent: Lent, processes: NonZeroU32, at: Duration) {
        self.account.state.lock().quota.lent(lent, processes, at);
    }

    /// The store has not answered.
    pub(super) fn failed(self, processes: NonZeroU32, at: Duration) {
        self.account.state.lock().quota.failed(processes, at);
    }
}
