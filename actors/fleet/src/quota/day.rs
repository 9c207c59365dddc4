//! Units of a day, counted over a fleet.

/// What one process knows of the units that a tenant has used today, in all of the fleet.
///
/// It reports what it has counted, and what it knew of before: a store that has lost the sum gets
/// it back. A report that was counted although its answer was lost is counted again.
#[derive(Clone, Debug, Default)]
pub struct SharedUnits {
    /// Days since some start.
    day: u64,
    /// Units that were used by all, as far as is known.
    used: u64,
    /// Of these, those that the store has not counted yet.
    unreported: i64,
    /// Of these, those that are on their way.
    reporting: Option<i64>,
}

/// What is reported to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitsReport {
    /// Days since the same start.
    pub day: u64,
    /// Units that this process knows of and has not counted: the sum is as much at least.
    pub known: u64,
    /// What it has counted since; negative if more was given back.
    pub added: i64,
}

impl SharedUnits {
    /// So many units are known to have been used on this day.
    #[must_use]
    pub const fn new(day: u64, used: u64) -> Self {
        Self {
            day,
            used,
            unreported: 0,
            reporting: None,
        }
    }

    /// Units used on this day. A clock that goes back does not bring back those of a day that is
    /// over.
    pub fn used(&mut self, day: u64) -> u64 {
        if day > self.day {
            *self = Self::new(day, 0);
        }
        self.used
    }

    /// Counts units.
    pub fn add(&mut self, units: u64, day: u64) {
        self.used = self.used(day).saturating_add(units);
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        self.unreported = self.unreported.saturating_add(units);
    }

    /// Gives back units that were counted and not used.
    pub fn give_back(&mut self, units: u32) {
        self.used = self.used.saturating_sub(units.into());
        self.unreported = self.unreported.saturating_sub(units.into());
    }

    /// What to report, if anything; one report is made at a time. After this, the caller reports,
    /// and calls [`counted`](Self::counted) or [`failed`](Self::failed).
    pub fn report(&mut self) -> Option<UnitsReport> {
        if self.unreported == 0 || self.reporting.is_some() {
            return None;
        }
        self.reporting = Some(self.unreported);
        Some(UnitsReport {
            day: self.day,
            known: self
                .used
                .saturating_add_signed(self.unreported.saturating_neg()),
            added: self.unreported,
        })
    }

    /// The store has counted the report of this day: so many were used in all.
    pub fn counted(&mut self, day: u64, sum: u64) {
        if day != self.day {
            return;
        }
        if let Some(reported) = self.reporting.take() {
            self.unreported = self.unreported.saturating_sub(reported);
            let since = self.unreported;
            self.used = self.used.max(sum.saturating_add_signed(since));
        }
    }

    /// The report of this day did not arrive, as far as is known.
    pub const fn failed(&mut self, day: u64) {
        if day == self.day {
            self.reporting = None;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// `count.lua`, in Rust.
    fn count(sum: &mut u64, report: UnitsReport) -> u64 {
        *sum = (*sum).max(report.known).saturating_add_signed(report.added);
        *sum
    }

    #[test]
    fn processes_count_together() {
        let (mut one, mut other, mut sum) = (SharedUnits::new(1, 5), SharedUnits::new(1, 0), 0);
        assert_eq!(one.report(), None);
        one.add(10, 1);
        let report = one.report().unwrap();
        assert_eq!((report.known, report.added), (5, 10));
        assert_eq!(one.report(), None, "one report at a time");
        one.add(1, 1);
        one.counted(1, count(&mut sum, report));
        assert_eq!(one.used(1), 16);
        other.add(100, 1);
        let report = other.report().unwrap();
        other.counted(1, count(&mut sum, report));
        assert_eq!((other.used(1), sum), (115, 115));
        let report = one.report().unwrap();
        one.failed(1);
        assert_eq!(one.report(), Some(report), "it is repeated");
        one.counted(1, count(&mut sum, report));
        assert_eq!((one.used(1), sum), (116, 116));
        // The store has lost the sum, and gets it back.
        sum = 0;
        one.add(4, 1);
        one.give_back(1);
        let report = one.report().unwrap();
        one.counted(1, count(&mut sum, report));
        assert_eq!((one.used(1), sum), (119, 119));
        one.give_back(3);
        let report = one.report().unwrap();
        assert_eq!(count(&mut sum, report), 116);
    }

    #[test]
    fn a_day_that_is_over_counts_for_nothing() {
        let mut units = SharedUnits::new(1, 0);
        units.add(10, 1);
        let report = units.report().unwrap();
        assert_eq!(units.used(2), 0);
        units.counted(report.day, 10);
        units.failed(report.day);
        assert_eq!((units.used(2), units.report()), (0, None));
        units.add(3, 2);
        // A clock that went back begins no new day.
        units.add(3, 1);
        assert_eq!(units.report().unwrap().added, 6);
        units.counted(2, u64::MAX);
        units.add(u64::MAX, 2);
        assert_eq!(units.used(2), u64::MAX);
    }
}
