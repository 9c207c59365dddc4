//! Times as people read them: beside the present.

use nearhead_tenants::{UnixMillis, UtcTime};

/// Units of time in seconds.
const UNITS: [(u64, &str); 5] = [
    (86_400 * 365, "year"),
    (86_400 * 30, "month"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
];

/// `3 hours ago`, `in 2 days` or `just now`.
pub(super) fn relative(at: UnixMillis, now: UnixMillis) -> String {
    // Up to the next second: a key for 90 days ends in 90 days while its maker reads of it.
    let seconds = at.0.saturating_sub(now.0).div_ceil(1_000) + now.0.saturating_sub(at.0) / 1_000;
    let found = UNITS
        .into_iter()
        .map(|(unit, name)| (seconds / unit, name))
        .find(|(number, name)| *number >= least(name));
    let (number, name) = match found {
        Some(found) => found,
        None if seconds < 5 => return "just now".to_owned(),
        None => (seconds, "second"),
    };
    let plural = if number == 1 { "" } else { "s" };
    match at <= now {
        true => format!("{number} {name}{plural} ago"),
        false => format!("in {number} {name}{plural}"),
    }
}

/// Of what number on a unit is used: two months say more than one does.
fn least(name: &str) -> u64 {
    match name {
        "year" | "month" => 2,
        _ => 1,
    }
}

/// The exact time, and what it is beside the present.
pub(super) fn exact(at: UnixMillis, now: UnixMillis) -> String {
    format!("{} ({})", UtcTime::from(at), relative(at, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_beside_the_present() {
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
            (59 * 86_400, "59 days ago", "in 59 days"),
            (60 * 86_400, "2 months ago", "in 2 months"),
            (729 * 86_400, "24 months ago", "in 24 months"),
            (730 * 86_400, "2 years ago", "in 2 years"),
        ] {
            let (before, after) = (now.0 - seconds * 1_000, now.0 + seconds * 1_000);
            assert_eq!(relative(UnixMillis(before), now), past);
            assert_eq!(relative(UnixMillis(after), now), future);
        }
        let expected = "2027-01-15T07:00:00Z (1 hour ago)";
        assert_eq!(exact(UnixMillis(now.0 - 3_600_000), now), expected);
    }
}
