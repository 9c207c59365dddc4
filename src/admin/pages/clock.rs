use std::fmt;

use askama::filters::HtmlSafe;
use nearhead_tenants::{UnixMillis, UtcTime};

/// Units of time in seconds, the largest first.
const UNITS: [(u64, &str); 6] = [
    (365 * 86_400, "year"),
    (30 * 86_400, "month"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
    (1, "second"),
];

/// The time at which a page is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) now: UnixMillis,
}

impl Clock {
    /// How long ago something was, or how soon it will be.
    pub(super) const fn ago(&self, at: &UnixMillis) -> When {
        When {
            at: Some(*at),
            now: self.now,
            otherwise: "",
        }
    }

    /// The same, and what is written if it never was.
    pub(super) const fn ago_or(&self, at: &Option<UnixMillis>, otherwise: &'static str) -> When {
        When {
            at: *at,
            now: self.now,
            otherwise,
        }
    }
}

/// A time in a page: a relative one, with the exact one where a pointer rests on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    at: Option<UnixMillis>,
    now: UnixMillis,
    otherwise: &'static str,
}

/// It has digits and fixed words alone.
impl HtmlSafe for When {}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(at) = self.at else {
            return write!(f, r#"<span class="muted">{}</span>"#, self.otherwise);
        };
        let exact = UtcTime::from(at).to_string();
        let shown = exact.replace('T', " ").replace('Z', " UTC");
        let relative = relative(at, self.now);
        write!(
            f,
            r#"<time datetime="{exact}" title="{shown}">{relative}</time>"#
        )
    }
}

fn relative(at: UnixMillis, now: UnixMillis) -> String {
    let seconds = at.0.abs_diff(now.0) / 1_000;
    let unit = UNITS.iter().find(|(length, _)| seconds >= *length);
    let Some((length, unit)) = unit else {
        return "just now".to_owned();
    };
    let number = seconds / length;
    let plural = if number == 1 { "" } else { "s" };
    match at > now {
        true => format!("in {number} {unit}{plural}"),
        false => format!("{number} {unit}{plural} ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative() {
        let now = UnixMillis(1_800_000_000_000);
        for (seconds, expected) in [
            (0, "just now"),
            (-1, "1 second ago"),
            (-59, "59 seconds ago"),
            (-60, "1 minute ago"),
            (-3_599, "59 minutes ago"),
            (-7_200, "2 hours ago"),
            (-86_400, "1 day ago"),
            (-31 * 86_400, "1 month ago"),
            (-800 * 86_400, "2 years ago"),
            (90, "in 1 minute"),
            (86_400, "in 1 day"),
        ] {
            let at = UnixMillis(now.0.saturating_add_signed(seconds * 1_000));
            assert_eq!(relative(at, now), expected, "{seconds}");
        }
        let clock = Clock { now };
        assert_eq!(
            clock.ago(&UnixMillis(now.0 - 60_000)).to_string(),
            r#"<time datetime="2027-01-15T07:59:00Z" title="2027-01-15 07:59:00 UTC">1 minute ago</time>"#
        );
        assert_eq!(
            clock.ago_or(&None, "never").to_string(),
            r#"<span class="muted">never</span>"#
        );
    }
}
