use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::metrics::Metrics;

/// Work on the store that takes longer than this shows that its disk hangs. The largest takes a
/// second.
const STALLED: Duration = Duration::from_secs(10);

/// What is shown while the disk hangs.
const HANGS: &str = "the disk of the store does not answer";

/// Whether the store of tenants works; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct StoreState(Arc<Shown>);

#[derive(Debug, Default)]
struct Shown {
    failure: ArcSwapOption<String>,
    /// When the work on the store began that is in progress.
    work_began: Mutex<Option<Instant>>,
}

/// Work on the store, until this is dropped.
#[derive(Debug)]
pub(super) struct StoreWork {
    state: StoreState,
    /// Whether it is no part of other work.
    is_whole: bool,
}

impl StoreState {
    /// Why the store fails; `None` if it works.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<String>> {
        self.0.failure.load_full()
    }

    /// Whether its disk is known to hang, so that nothing that is asked of it would be answered.
    pub(crate) fn hangs(&self) -> bool {
        self.failure().is_some_and(|failure| *failure == HANGS)
    }

    /// Looks whether the disk hangs, and shows it: the thread that works on the store cannot. It is
    /// to be called every few seconds.
    pub(crate) fn watch(&self, now: Instant, metrics: &Metrics) {
        // Held, so that the work does not end before it is shown as one that hangs.
        let work_began = self.0.work_began.lock();
        let took = work_began.map(|at| now.saturating_duration_since(at));
        if took.is_some_and(|took| took >= STALLED) {
            self.show(Some(HANGS.to_owned()), metrics);
        }
    }

    /// Notes that work on the store begins.
    pub(super) fn begin_work(&self) -> StoreWork {
        let mut work_began = self.0.work_began.lock();
        let is_whole = work_began.is_none();
        work_began.get_or_insert_with(Instant::now);
        drop(work_began);
        StoreWork {
            state: self.clone(),
            is_whole,
        }
    }

    /// Shows why the store fails, if it does, and logs it when that changes. The service goes on
    /// with what it knows.
    pub(super) fn show(&self, failure: Option<String>, metrics: &Metrics) {
        if failure.as_ref() == self.failure().as_deref() {
            return;
        }
        match &failure {
            Some(error) => tracing::error!(
                %error,
                "the store of tenants fails: the service goes on with what it knows"
            ),
            None => tracing::info!("the store of tenants works again"),
        }
        let is_failing = i64::from(failure.is_some());
        metrics.tenant_store_failing.set(is_failing);
        self.0.failure.store(failure.map(Arc::new));
    }
}

impl Drop for StoreWork {
    fn drop(&mut self) {
        if self.is_whole {
            *self.state.0.work_began.lock() = None;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn work_that_hangs_is_shown_until_it_ends() {
        let (state, metrics) = (StoreState::default(), Metrics::new([]).unwrap());
        let late = || Instant::now() + STALLED;
        state.watch(late(), &metrics);
        assert_eq!(state.failure(), None);
        let work = state.begin_work();
        drop(state.begin_work());
        state.watch(Instant::now(), &metrics);
        assert!(!state.hangs());
        state.watch(late(), &metrics);
        assert!(state.hangs());
        assert_eq!(metrics.tenant_store_failing.get(), 1);
        drop(work);
        state.show(None, &metrics);
        state.watch(late(), &metrics);
        assert!(!state.hangs());
        assert_eq!(metrics.tenant_store_failing.get(), 0);
    }
}
