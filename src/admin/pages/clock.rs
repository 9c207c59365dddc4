use std::fmt;

use askama::filters::HtmlSafe;
use nearhead_tenants::{UnixMillis, UtcTime};

use crate::relative_time::relative_time;

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
        let relative = relative_time(at, self.now);
        write!(
            f,
            r#"<time datetime="{exact}" title="{shown}">{relative}</time>"#
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_and_have_the_exact_time() {
        let now = UnixMillis(1_800_000_000_000);
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
