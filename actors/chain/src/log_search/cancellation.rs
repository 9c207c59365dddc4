//! Stops running work.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::SearchError;

/// Tells running work to stop; cheap to look at, shared by whoever may cancel.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    cancelled: Arc<AtomicBool>,
    /// Tests cancel at an exact look and see how often work looks.
    #[cfg(test)]
    pub(super) looks: Arc<super::tests::Looks>,
}

impl Cancellation {
    /// Cancels.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        #[cfg(test)]
        self.looks.count(self);
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Units of work between two looks at the token. A unit (a term hashed or looked up, a candidate, a
/// match looked up in the JSON) takes below 100 ns even where nothing is cached: a tenth of a
/// millisecond. Longer is only the sorting of a block's keys and matches, which is not interrupted:
/// some 0.2 ms for the 10,000 matches and the 5,000 values of the largest eth_getLogs. So a cancel
/// is seen within a millisecond.
pub(super) const UNITS_PER_CHECK: usize = 1_024;

/// Looks at the token once every [`UNITS_PER_CHECK`] units of work.
#[derive(Debug)]
pub(super) struct CancelChecker<'a> {
    cancel: &'a Cancellation,
    units: usize,
}

impl<'a> CancelChecker<'a> {
    /// Looks at once: cancelled work does not begin.
    pub(super) fn begin(cancel: &'a Cancellation) -> Result<Self, SearchError> {
        let mut checker = Self { cancel, units: 0 };
        checker.count(UNITS_PER_CHECK)?;
        Ok(checker)
    }

    /// Accounts for `units` of work that follow.
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
