//! Times as a terminal shows them.

use nearhead_tenants::{UnixMillis, UtcTime};

use crate::relative_time::relative_time;

/// The exact time, and how long ago it was or how soon it will be.
pub(super) fn exact(at: UnixMillis, now: UnixMillis) -> String {
    format!("{} ({})", UtcTime::from(at), relative_time(at, now))
}

/// The exact time, or `never`.
pub(super) fn exact_or_never(at: Option<UnixMillis>, now: UnixMillis) -> String {
    at.map_or_else(|| "never".to_owned(), |at| exact(at, now))
}

/// How long ago something was or how soon it will be, or `never`.
pub(super) fn relative_or_never(at: Option<UnixMillis>, now: UnixMillis) -> String {
    at.map_or_else(|| "never".to_owned(), |at| relative_time(at, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_or_relative() {
        let now = UnixMillis(1_800_000_000_000);
        let at = Some(UnixMillis(now.0 - 3_600_000));
        assert_eq!(exact_or_never(at, now), "2027-01-15T07:00:00Z (1 hour ago)");
        assert_eq!(relative_or_never(at, now), "1 hour ago");
        assert_eq!(exact_or_never(None, now), "never");
        assert_eq!(relative_or_never(None, now), "never");
    }
}
