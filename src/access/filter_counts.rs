//! Counts of filters, of a tenant or of the whole service.

use super::shared_count::{Counted, SharedCount};

/// Counts of filters, and of the addresses and topics in them; cloning shares them.
#[derive(Clone, Debug, Default)]
pub(super) struct FilterCounts {
    filters: SharedCount,
    values: SharedCount,
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// Filters.
    Filters,
    /// Addresses and topics in them.
    Values,
}

/// One filter in both counts, until it is dropped.
#[derive(Debug)]
pub(super) struct CountedFilter {
    _filter: Counted,
    _values: Counted,
}

impl FilterCounts {
    /// Counts one more filter with this many addresses and topics, unless there would be more than
    /// `filters_max` and `values_max`.
    pub(super) fn take(
        &self,
        values: usize,
        filters_max: usize,
        values_max: usize,
    ) -> Result<CountedFilter, Full> {
        Ok(CountedFilter {
            _filter: self.filters.take(filters_max).ok_or(Full::Filters)?,
            _values: self
                .values
                .take_many(values, values_max)
                .ok_or(Full::Values)?,
        })
    }
}
