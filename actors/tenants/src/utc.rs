//! Dates and times of day, as people write and read them.

use std::{fmt, str::FromStr};

use crate::UnixMillis;

const SECONDS_OF_DAY: u64 = 86_400;

/// A time in UTC, to the second: from 1970 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcTime {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

/// A text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a time in UTC is such as 2030-12-31 or 2030-12-31T18:00:00Z")]
pub struct InvalidTime;

impl UtcTime {
    /// The date alone: `2030-12-31`.
    #[must_use]
    pub fn date(&self) -> String {
        let Self {
            year, month, day, ..
        } = self;
        format!("{year:04}-{month:02}-{day:02}")
    }
}

impl From<UnixMillis> for UtcTime {
    /// A time after 9999 becomes the last one.
    fn from(UnixMillis(millis): UnixMillis) -> Self {
        const LAST: u64 = 253_402_300_799;
        let seconds = (millis / 1_000).min(LAST);
        // Years begin on 1 March, so that a leap day is the last one; 400 of them are an era. The
        // first of March of year 0 is 719,468 days before 1970.
        let days = seconds / SECONDS_OF_DAY + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let leap_days = day_of_era / 1_460 + day_of_era / 146_096 - day_of_era / 36_524;
        let year_of_era = (day_of_era - leap_days) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day,
            second_of_day: seconds % SECONDS_OF_DAY,
        }
    }
}

impl From<UtcTime> for UnixMillis {
    fn from(time: UtcTime) -> Self {
        let UtcTime {
            year,
            month,
            day,
            second_of_day,
        } = time;
        let (year, month) = match month {
            1 | 2 => (year - 1, month + 9),
            _ => (year, month - 3),
        };
        let day_of_year = (153 * month + 2) / 5 + day - 1;
        let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
        Self((days * SECONDS_OF_DAY + second_of_day) * 1_000)
    }
}

impl fmt::Display for UtcTime {
    /// As RFC 3339 has it: `2030-12-31T18:00:00Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, second) = (self.second_of_day / 60, self.second_of_day % 60);
        let (hour, minute) = (minutes / 60, minutes % 60);
        write!(f, "{}T{hour:02}:{minute:02}:{second:02}Z", self.date())
    }
}

impl FromStr for UtcTime {
    type Err = InvalidTime;

    /// A date, which is its first second, or a date and a time of day, with or without seconds.
    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (date, time.strip_suffix('Z').ok_or(InvalidTime)?),
            None => (text, "00:00"),
        };
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let second_of_day = match numbers(time, ':', [2, 2, 2]) {
            Ok(parts) => seconds(parts),
            Err(_) => {
                numbers(time, ':', [2, 2]).and_then(|[hour, minute]| seconds([hour, minute, 0]))
            }
        };
        let time = Self {
            year,
            month,
            day,
            second_of_day: second_of_day?,
        };
        // Only a date that exists comes back as it was.
        let exists = year >= 1_970 && (1..=12).contains(&month) && (1..=31).contains(&day);
        match exists && Self::from(UnixMillis::from(time)) == time {
            true => Ok(time),
            false => Err(InvalidTime),
        }
    }
}

fn seconds([hour, minute, second]: [u64; 3]) -> Result<u64, InvalidTime> {
    match hour < 24 && minute < 60 && second < 60 {
        true => Ok((hour * 60 + minute) * 60 + second),
        false => Err(InvalidTime),
    }
}

/// Numbers with this many digits each, and this between them.
fn numbers<const N: usize>(
    text: &str,
    between: char,
    digits: [usize; N],
) -> Result<[u64; N], InvalidTime> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().ok_or(InvalidTime)?;
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidTime);
        }
        *number = part.parse().map_err(|_| InvalidTime)?;
    }
    match parts.next() {
        None => Ok(numbers),
        Some(_) => Err(InvalidTime),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_800_000_000, "2027-01-15T08:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            let time = UnixMillis(seconds * 1_000);
            assert_eq!(UtcTime::from(time).to_string(), text);
            assert_eq!(UnixMillis::from(text.parse::<UtcTime>().unwrap()), time);
        }
        let last = UtcTime::from(UnixMillis(u64::MAX)).to_string();
        assert_eq!(last, "9999-12-31T23:59:59Z");
    }

    #[test]
    fn a_time_may_be_short() {
        for (text, expected) in [
            ("2030-12-31", Some("2030-12-31T00:00:00Z")),
            ("2030-12-31T18:05Z", Some("2030-12-31T18:05:00Z")),
            ("2030-12-31 18:05:09Z", Some("2030-12-31T18:05:09Z")),
            ("2030-12-31T18:05:09", None),
            ("2030-12-31T18Z", None),
            ("2030-12-31T24:00Z", None),
            ("2030-12-31T00:60Z", None),
            ("2030-12-31T00:00:60Z", None),
            ("2030-02-29", None),
            ("2030-13-01", None),
            ("2030-00-01", None),
            ("2030-01-00", None),
            ("1969-12-31", None),
            ("2030-1-1", None),
            ("2030-01", None),
            ("2030-01-01-01", None),
            ("+030-01-01", None),
            ("", None),
        ] {
            let found = text.parse::<UtcTime>().ok().map(|time| time.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = UtcTime::from(UnixMillis(0));
        for day in 1..60_000 {
            let time = UtcTime::from(UnixMillis(day * SECONDS_OF_DAY * 1_000));
            assert!(before < time, "{before} {time}");
            assert_eq!(UnixMillis::from(time).0, day * SECONDS_OF_DAY * 1_000);
            before = time;
        }
    }
}
