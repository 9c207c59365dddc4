use std::time::Duration;

use crate::UnixMillis;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// How long the periods are whose usage is summed. They begin at multiples of their length since
/// the Unix epoch, so that days are days of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    /// Minutes, kept for 2 days.
    Minute,
    /// Hours, kept for 8 days: a week, and the day that has begun.
    Hour,
    /// Days, kept for 31 days: 30 days, and the one that has begun.
    Day,
}

impl Resolution {
    /// All of them, the finest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// How long a period is.
    #[must_use]
    pub const fn period(self) -> Duration {
        match self {
            Self::Minute => MINUTE,
            Self::Hour => HOUR,
            Self::Day => DAY,
        }
    }

    /// How long a period is kept after it has begun, at least.
    #[must_use]
    pub const fn kept(self) -> Duration {
        match self {
            Self::Minute => Duration::from_secs(2 * DAY.as_secs()),
            Self::Hour => Duration::from_secs(8 * DAY.as_secs()),
            Self::Day => Duration::from_secs(31 * DAY.as_secs()),
        }
    }

    /// The longest range that is shown by this: 720 minutes, or 192 hours.
    const fn range_max(self) -> Duration {
        match self {
            Self::Minute => Duration::from_secs(12 * HOUR.as_secs()),
            Self::Hour => Duration::from_secs(8 * DAY.as_secs()),
            Self::Day => Duration::MAX,
        }
    }

    /// The beginning of the period that a time is in.
    #[must_use]
    pub fn start(self, at: UnixMillis) -> UnixMillis {
        UnixMillis(at.0 - at.0 % self.millis())
    }

    /// The first beginning of a period that is not before `at`.
    #[must_use]
    pub fn end(self, at: UnixMillis) -> UnixMillis {
        match self.start(at) {
            start if start == at => at,
            start => start.after(self.period()),
        }
    }

    /// The beginning of the oldest period that is kept at `now`.
    #[must_use]
    pub fn oldest(self, now: UnixMillis) -> UnixMillis {
        let kept = u64::try_from(self.kept().as_millis()).unwrap_or(u64::MAX);
        self.start(UnixMillis(now.0.saturating_sub(kept)))
    }

    /// The one for a range of time: the finest that has at most 720 periods in it and is still kept
    /// for all of it, else days.
    #[must_use]
    pub fn of_range(from: UnixMillis, to: UnixMillis, now: UnixMillis) -> Self {
        let range = Duration::from_millis(to.0.saturating_sub(from.0));
        let fits = |one: &Self| range <= one.range_max() && from >= one.oldest(now);
        Self::ALL.into_iter().find(fits).unwrap_or(Self::Day)
    }

    fn millis(self) -> u64 {
        // At most a day.
        self.period().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_resolution() {
        let now = UnixMillis(1_800_000_000_123);
        let before = |seconds: u64| UnixMillis(now.0 - seconds * 1_000);
        let (minute, hour, day) = (60, 3_600, 86_400);
        for (from, to, expected) in [
            (15 * minute, 0, Resolution::Minute),
            (12 * hour, 0, Resolution::Minute),
            (12 * hour + 1, 0, Resolution::Hour),
            (2 * day, 2 * day - hour, Resolution::Minute),
            (2 * day + hour, 2 * day, Resolution::Hour),
            (8 * day, 0, Resolution::Hour),
            (8 * day + hour, 8 * day, Resolution::Day),
            (30 * day, 0, Resolution::Day),
            (90 * day, 80 * day, Resolution::Day),
        ] {
            let found = Resolution::of_range(before(from), before(to), now);
            assert_eq!(found, expected, "from {from} to {to} seconds ago");
        }
    }

    #[test]
    fn periods_begin_at_multiples_of_their_length() {
        let at = UnixMillis(90_061_001);
        for (resolution, start, end) in [
            (Resolution::Minute, 90_060_000, 90_120_000),
            (Resolution::Hour, 90_000_000, 93_600_000),
            (Resolution::Day, 86_400_000, 172_800_000),
        ] {
            let (start, end) = (UnixMillis(start), UnixMillis(end));
            assert_eq!((resolution.start(at), resolution.end(at)), (start, end));
            assert_eq!((resolution.start(end), resolution.end(end)), (end, end));
        }
    }
}
