//! A token that stops a running search.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::SearchError;

/// A token that stops running work. Clones share one flag, which is cheap to check.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    cancelled: Arc<AtomicBool>,
    /// The flag of the token that this one stops with.
    parent: Option<Arc<AtomicBool>>,
    /// Whether the time of the work is over.
    is_over: Option<IsOver>,
    /// Tests cancel at an exact check and count the checks.
    #[cfg(test)]
    pub(super) checks: Arc<super::tests::Checks>,
}

#[derive(Clone)]
struct IsOver(Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for IsOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IsOver")
    }
}

impl Cancellation {
    /// A token that stops with this one, and by itself once `is_over` says so. That is asked on the
    /// thread of the work, now and then.
    #[must_use]
    pub fn child_until(&self, is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        debug_assert!(
            self.parent.is_none(),
            "it would not stop with the first one"
        );
        Self {
            parent: Some(Arc::clone(&self.cancelled)),
            is_over: Some(IsOver(Arc::new(is_over))),
            ..Self::default()
        }
    }

    /// Cancels the work if its time is over.
    pub(crate) fn expire(&self) {
        if self
            .is_over
            .as_ref()
            .is_some_and(|IsOver(is_over)| is_over())
        {
            self.cancel();
        }
    }

    /// Cancels the work.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the work was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        #[cfg(test)]
        self.checks.count(self);
        let parent = self.parent.as_ref();
        self.cancelled.load(Ordering::Relaxed)
            || parent.is_some_and(|parent| parent.load(Ordering::Relaxed))
    }
}

/// Units of work between two checks of the token, so that cancellation takes effect within a
/// millisecond.
///
/// A unit (a term hashed or looked up, a candidate, a match looked up in the JSON) takes less than
/// 100 ns even with cold caches: a tenth of a millisecond between checks. Sorting a block's keys
/// and matches is not interrupted: it takes about 0.2 ms for the 10,000 matches and 5,000 values of
/// the largest eth_getLogs.
pub(super) const UNITS_PER_CHECK: usize = 1_024;

/// Checks the token once per [`UNITS_PER_CHECK`] units of work.
#[derive(Debug)]
pub(super) struct CancelChecker<'a> {
    cancel: &'a Cancellation,
    units: usize,
}

impl<'a> CancelChecker<'a> {
    /// Checks the token at once, so that cancelled work does not begin.
    pub(super) fn begin(cancel: &'a Cancellation) -> Result<Self, SearchError> {
        let mut checker = Self { cancel, units: 0 };
        checker.count(UNITS_PER_CHECK)?;
        Ok(checker)
    }

    /// Counts the next `units` of work, and checks the token when it is due.
    #[inline]
    pub(super) fn count(&mut self, units: usize) -> Result<(), SearchError> {
        self.units += units;
        if self.units < UNITS_PER_CHECK {
            return Ok(());
        }
        self.units = 0;
        if self.cancel.is_cancelled() {
            Err(SearchError::Cancelled)
        } else {
            Ok(())
        }
    }
}
