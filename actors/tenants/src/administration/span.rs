use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// A span of time as people write it: `90s`, `15m`, `24h` or `30d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(Duration);

/// A text is not a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a span of time is a number of seconds, minutes, hours or days, such as 90s, 15m, 24h or 30d"
)]
pub struct InvalidSpan;

/// The units, the largest first.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Longest span: a hundred years.
const SECONDS_MAX: u64 = 36_525 * 86_400;

impl Span {
    /// This many minutes.
    #[must_use]
    pub const fn minutes(minutes: u32) -> Self {
        Self(Duration::from_secs(minutes as u64 * 60))
    }

    /// This many hours.
    #[must_use]
    pub const fn hours(hours: u32) -> Self {
        Self::minutes(hours.saturating_mul(60))
    }

    /// This many days.
    #[must_use]
    pub const fn days(days: u32) -> Self {
        Self::hours(days.saturating_mul(24))
    }

    /// How long it is.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Span {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        let parsed = UNITS.iter().find_map(|(unit, seconds)| {
            let number = text.strip_suffix(unit)?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let number: u64 = is_number.then(|| number.parse().ok())??;
            number.checked_mul(*seconds)
        });
        match parsed {
            Some(seconds) if seconds <= SECONDS_MAX => Ok(Self(Duration::from_secs(seconds))),
            _ => Err(InvalidSpan),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let fits = |(_, unit): &&(&str, u64)| seconds.is_multiple_of(*unit);
        match UNITS.iter().find(fits) {
            Some((unit, length)) if seconds > 0 => write!(f, "{}{unit}", seconds / length),
            _ => write!(f, "{seconds}s"),
        }
    }
}

impl TryFrom<String> for Span {
    type Error = InvalidSpan;

    fn try_from(text: String) -> Result<Self, InvalidSpan> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (text, seconds, shown) in [
            ("15m", Some(900), "15m"),
            ("30d", Some(30 * 86_400), "30d"),
            ("24h", Some(86_400), "1d"),
            ("90s", Some(90), "90s"),
            ("0s", Some(0), "0s"),
            ("36525d", Some(SECONDS_MAX), "36525d"),
            ("36526d", None, ""),
            ("99999999999999999999d", None, ""),
            ("", None, ""),
            ("d", None, ""),
            ("15", None, ""),
            ("-1d", None, ""),
            ("+1d", None, ""),
            ("1.5h", None, ""),
            ("1 h", None, ""),
        ] {
            let span = text.parse::<Span>();
            let found = span.map(|span| span.duration().as_secs());
            assert_eq!(found.ok(), seconds, "{text:?}");
            if let Ok(span) = span {
                assert_eq!(span.to_string(), shown);
                assert_eq!(shown.parse(), Ok(span));
            }
        }
    }
}
