use std::{fmt, sync::Arc, time::Instant};

use arc_swap::ArcSwapOption;
use nearhead_actors::disk_wait::StallWatch;

use crate::metrics::Metrics;

/// Whether the store of tenants works; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct StoreState(Arc<Shown>);

#[derive(Debug, Default)]
struct Shown {
    failure: ArcSwapOption<StoreFailure>,
    disk: StallWatch,
}

/// Why the store fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// Its disk does not answer, so it answers nothing.
    DiskHangs,
    /// Its last work failed, with this error.
    Failed(String),
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DiskHangs => f.write_str("the disk of the store does not answer"),
            Self::Failed(error) => f.write_str(error),
        }
    }
}

impl StoreState {
    /// Why the store fails; `None` if it works.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<StoreFailure>> {
        self.0.failure.load_full()
    }

    /// Whether its disk is known to hang, so that nothing that is asked of it would be answered.
    pub(crate) fn hangs(&self) -> bool {
        self.failure().as_deref() == Some(&StoreFailure::DiskHangs)
    }

    /// Looks whether the disk hangs, and shows it: the thread that works on the store cannot. It is
    /// to be called every few seconds.
    pub(crate) fn watch(&self, now: Instant, metrics: &Metrics) {
        self.0.disk.watch(now, |_| {
            self.show(Some(StoreFailure::DiskHangs), metrics);
        });
    }

    /// Works on the store, which is watched meanwhile. Such work is no part of other such work.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.disk.during(work).0
    }

    /// Shows why the store fails, if it does, and logs it when that changes. The service goes on
    /// with what it knows.
    pub(super) fn show(&self, failure: Option<StoreFailure>, metrics: &Metrics) {
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_that_hangs_is_shown_until_it_ends() {
        let (state, metrics) = (StoreState::default(), Metrics::new([]).unwrap());
        let late = || Instant::now() + Duration::from_secs(60);
        state.watch(late(), &metrics);
        assert_eq!(state.failure(), None);
        state.during(|| {
            state.watch(Instant::now(), &metrics);
            assert!(!state.hangs());
            state.watch(late(), &metrics);
        });
        // Whoever has done the work shows that the store works.
        assert!(state.hangs());
        assert_eq!(metrics.tenant_store_failing.get(), 1);
        state.show(None, &metrics);
        state.watch(late(), &metrics);
        assert!(!state.hangs());
        assert_eq!(metrics.tenant_store_failing.get(), 0);
    }
}
