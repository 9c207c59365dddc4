//! The quotas that need the store, and how many processes share them.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use nearhead_fleet::{bounds::QUOTAS_LISTED_MAX, quota::Lent};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    bucket_account::{BucketAccount, Loan},
    units_account::{UnitsAccount, UnitsCount},
};

/// Where quotas wait for the thread that asks the store; clones share it.
///
/// The path of requests adds to a list in memory, and nothing else.
#[derive(Clone, Debug)]
pub struct LoanDesk(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    started: Instant,
    processes: AtomicU32,
    buckets: Mutex<Vec<Arc<BucketAccount>>>,
    units: Mutex<Vec<Arc<UnitsAccount>>>,
    wake: Notify,
}

impl LoanDesk {
    /// Nothing is listed yet. `started` is what times are since.
    #[must_use]
    pub fn new(started: Instant) -> Self {
        Self(Arc::new(Shared {
            started,
            processes: AtomicU32::new(1),
            buckets: Mutex::default(),
            units: Mutex::default(),
            wake: Notify::new(),
        }))
    }

    /// How many processes share each quota, as far as is known.
    #[must_use]
    pub fn processes(&self) -> NonZeroU32 {
        let processes = self.0.processes.load(Ordering::Relaxed);
        NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN)
    }

    /// Notes how many processes there are.
    pub fn share_with(&self, processes: usize) {
        let processes = u32::try_from(processes).unwrap_or(u32::MAX).max(1);
        self.0.processes.store(processes, Ordering::Relaxed);
    }

    /// The time since the start.
    pub(super) fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.0.started)
    }

    /// Lists a quota, and wakes the thread; returns whether there was room.
    pub(super) fn list_bucket(&self, bucket: &Arc<BucketAccount>) -> bool {
        self.list(&self.0.buckets, bucket)
    }

    /// The same for units of a day.
    pub(super) fn list_units(&self, units: &Arc<UnitsAccount>) -> bool {
        self.list(&self.0.units, units)
    }

    fn list<T>(&self, list: &Mutex<Vec<Arc<T>>>, one: &Arc<T>) -> bool {
        let mut list = list.lock();
        if list.len() >= QUOTAS_LISTED_MAX {
            return false;
        }
        list.push(Arc::clone(one));
        drop(list);
        self.0.wake.notify_one();
        true
    }

    /// Whether nothing is listed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.buckets.lock().is_empty() && self.0.units.lock().is_empty()
    }

    /// Ends when something was listed since the last call.
    pub(super) async fn listed(&self) {
        self.0.wake.notified().await;
    }

    /// What to ask the store for at `now`. A quota that is not used any more is not listed any
    /// more.
    #[must_use]
    pub fn due_loans(&self, now: Instant) -> Vec<Loan> {
        let (processes, at) = (self.processes(), self.since_start(now));
        // Requests may list more meanwhile: no lock of a quota is taken under that of the list.
        let listed = std::mem::take(&mut *self.0.buckets.lock());
        let mut loans = Vec::new();
        let mut stay = Vec::with_capacity(listed.len());
        for bucket in listed {
            let (loan, stays) = BucketAccount::due(&bucket, processes, at);
            loans.extend(loan);
            if stays {
                stay.push(bucket);
            }
        }
        self.0.buckets.lock().append(&mut stay);
        loans
    }

    /// The store has answered.
    pub fn lent(&self, loan: Loan, lent: Lent, now: Instant) {
        loan.lent(lent, self.processes(), self.since_start(now));
    }

    /// The store has not answered.
    pub fn not_lent(&self, loan: Loan, now: Instant) {
        loan.failed(self.processes(), self.since_start(now));
    }

    /// What to report of units of a day.
    #[must_use]
    pub fn due_counts(&self) -> Vec<UnitsCount> {
        let listed = std::mem::take(&mut *self.0.units.lock());
        listed.into_iter().filter_map(UnitsAccount::due).collect()
    }

    /// The store has counted units: so many were used in all.
    pub fn counted(&self, count: UnitsCount, sum: u64) {
        count.counted(sum);
    }

    /// The store has not answered. They are reported again.
    pub fn not_counted(&self, count: UnitsCount) {
        count.failed(|account| self.list_units(account));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{super::LentBucket, *};

    /// The list is bounded, and a quota that is not on it keeps a limit and is not shut out.
    #[test]
    fn a_quota_that_finds_no_room_goes_on_as_without_the_store() {
        let start = Instant::now();
        let desk = LoanDesk::new(start);
        desk.share_with(3);
        let rate = NonZeroU32::new(30).unwrap();
        let bucket = |name: usize| LentBucket::new(&desk, &name.to_string(), rate, rate);
        let mut buckets: Vec<_> = (0..=QUOTAS_LISTED_MAX).map(bucket).collect();
        for bucket in &mut buckets {
            bucket.take(25, start).unwrap();
        }
        assert_eq!(desk.0.buckets.lock().len(), QUOTAS_LISTED_MAX);
        let last = buckets.last_mut().unwrap();
        let at = |seconds| start + Duration::from_secs(seconds);
        let admitted =
            (1..=30).map(|second| (0..30).filter(|_| last.take(1, at(second)).is_ok()).count());
        let admitted: usize = admitted.sum();
        assert!(
            (255..=275).contains(&admitted),
            "{admitted}: a third of 30 a second, and a debt"
        );
        // What is not used for a second leaves its place.
        for loan in desk.due_loans(start) {
            desk.not_lent(loan, start);
        }
        assert!(desk.due_loans(at(100)).is_empty());
        assert!(desk.0.buckets.lock().is_empty());
        last.take(9, at(100)).unwrap();
        assert_eq!(desk.due_loans(at(100)).len(), 1);
    }
}
