//! Times as people read them: relative to the present.

use nearhead_tenants::UnixMillis;

/// A unit of time.
struct Unit {
    name: &'static str,
    seconds: u64,
    /// The unit is used from this number of it on.
    least: u64,
}

/// The longest first. "1 month" could be any of 59 days, so short months are given in days.
const UNITS: [Unit; 6] = [
    unit("year", 365 * 86_400, 2),
    unit("month", 30 * 86_400, 4),
    unit("day", 86_400, 1),
    unit("hour", 3_600, 1),
    unit("minute", 60, 1),
    unit("second", 1, 5),
];

const fn unit(name: &'static str, seconds: u64, least: u64) -> Unit {
    Unit {
        name,
        seconds,
        least,
    }
}

/// `3 hours ago`, `in 2 days` or `just now`. Numbers are rounded down.
pub(crate) fn relative_time(at: UnixMillis, now: UnixMillis) -> String {
    // A part of a second still to come counts as a whole one: a key that is made for 90 days ends
    // "in 90 days" when its maker reads that a moment later.
    let seconds = at.0.saturating_sub(now.0).div_ceil(1_000) + now.0.saturating_sub(at.0) / 1_000;
    let fits = |unit: &Unit| seconds / unit.seconds >= unit.least;
    let Some(unit) = UNITS.into_iter().find(fits) else {
        return "just now".to_owned();
    };
    let number = seconds / unit.seconds;
    let plural = if number == 1 { "" } else { "s" };
    match at <= now {
        true => format!("{number} {}{plural} ago", unit.name),
        false => format!("in {number} {}{plural}", unit.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_to_the_present() {
        let now = UnixMillis(1_800_000_000_000);
        for (seconds, past, future) in [
            (0, "just now", "just now"),
            (4, "just now", "just now"),
            (5, "5 seconds ago", "in 5 seconds"),
            (60, "1 minute ago", "in 1 minute"),
            (3_599, "59 minutes ago", "in 59 minutes"),
            (3_600, "1 hour ago", "in 1 hour"),
            (86_399, "23 hours ago", "in 23 hours"),
            (86_400, "1 day ago", "in 1 day"),
            (119 * 86_400, "119 days ago", "in 119 days"),
            (120 * 86_400, "4 months ago", "in 4 months"),
            (729 * 86_400, "24 months ago", "in 24 months"),
            (730 * 86_400, "2 years ago", "in 2 years"),
        ] {
            let (before, after) = (now.0 - seconds * 1_000, now.0 + seconds * 1_000);
            assert_eq!(relative_time(UnixMillis(before), now), past);
            assert_eq!(relative_time(UnixMillis(after), now), future);
        }
    }

    #[test]
    fn an_end_that_was_just_chosen_has_the_number_that_was_chosen() {
        let chosen = UnixMillis(1_800_000_000_000);
        let end = UnixMillis(chosen.0 + 90 * 86_400_000);
        let read = UnixMillis(chosen.0 + 999);
        assert_eq!(relative_time(end, read), "in 90 days");
    }
}
