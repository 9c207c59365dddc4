//! What keys used, as the processes of a fleet share it.
//!
//! Each process keeps sums of what it has counted itself, by minute, hour and day, and writes them
//! under its own name, sealed. A reader sums up over all processes. So
//!
//! - nobody without the fleet's key can invent usage, which increments in the store would allow;
//! - what is written twice counts once, because it replaces itself;
//! - an old value that somebody puts back is only lower, and only until its process writes again;
//! - a process needs to read nothing before it writes, and leaves its sums behind when it ends. The
//!   store removes them when their time is over.
//!
//! Sums of one period are in [`UsagePart`]s of at most
//! [`USAGE_PART_CELLS`](crate::bounds::USAGE_PART_CELLS) cells, so that a few new requests write
//! little again. A process never uses the name of a part twice: it may forget a part that the store
//! has, and go on in another one.
//!
//! When a key was last used is kept for longer than what it used, in sums of their own that have
//! nothing else ([`UsagePeriod::LastUse`]).
//!
//! | file | content |
//! |---|---|
//! | `part` | a part, and how it is written |
//! | `own` | the sums of one process, and what of them is not written yet |

mod own;
mod part;

use std::sync::Arc;

pub use self::{
    own::OwnUsage,
    part::{SealedPart, UsagePart},
};
use crate::bounds::{
    USAGE_DAYS_BYTES_MAX, USAGE_HOURS_BYTES_MAX, USAGE_LAST_BYTES_MAX, USAGE_MINUTES_BYTES_MAX,
};

/// Numbers of a cell.
pub const USAGE_NUMBERS: usize = 14;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// What is summed in one cell. Times are milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsagePeriod {
    /// A minute, kept for 2 days.
    Minute,
    /// An hour, kept for 8 days.
    Hour,
    /// A day, kept for 31 days.
    Day,
    /// When a key was last used in some 30 days, kept for 400 days.
    LastUse,
}

impl UsagePeriod {
    /// All of them, the finest first.
    pub const ALL: [Self; 4] = [Self::Minute, Self::Hour, Self::Day, Self::LastUse];

    /// How long it is.
    #[must_use]
    pub const fn millis(self) -> u64 {
        match self {
            Self::Minute => MINUTE,
            Self::Hour => HOUR,
            Self::Day => DAY,
            Self::LastUse => 30 * DAY,
        }
    }

    /// How long it is kept after it has begun, at least.
    #[must_use]
    pub const fn kept_millis(self) -> u64 {
        match self {
            Self::Minute => 2 * DAY,
            Self::Hour => 8 * DAY,
            Self::Day => 31 * DAY,
            Self::LastUse => 400 * DAY,
        }
    }

    /// Its name in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minute => "minutes",
            Self::Hour => "hours",
            Self::Day => "days",
            Self::LastUse => "last use",
        }
    }

    /// Most bytes that all of its parts have in the store. Each kind has room of its own, so that
    /// minutes never remove days.
    #[must_use]
    pub const fn bytes_max(self) -> u64 {
        match self {
            Self::Minute => USAGE_MINUTES_BYTES_MAX,
            Self::Hour => USAGE_HOURS_BYTES_MAX,
            Self::Day => USAGE_DAYS_BYTES_MAX,
            Self::LastUse => USAGE_LAST_BYTES_MAX,
        }
    }

    /// When the one began that a time is in.
    #[must_use]
    pub const fn start(self, at: u64) -> u64 {
        at - at % self.millis()
    }

    /// The letter that stands for it in names.
    const fn letter(self) -> &'static str {
        match self {
            Self::Minute => "m",
            Self::Hour => "h",
            Self::Day => "d",
            Self::LastUse => "l",
        }
    }

    fn of_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.letter() == letter)
    }
}

/// For whom a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageOwner {
    /// Its tenant.
    pub tenant: [u8; 8],
    /// The first key of its chain of rotations, if that is another one.
    pub chain: Option<[u8; 8]>,
}

/// What one key used in one period with one method and one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageCell {
    /// The key.
    pub key: [u8; 8],
    /// Its owner, as far as that is known.
    pub owner: Option<UsageOwner>,
    /// The method; empty in [`UsagePeriod::LastUse`].
    pub method: Arc<str>,
    /// The outcome; empty in [`UsagePeriod::LastUse`].
    pub outcome: Arc<str>,
    /// When the last of it was.
    pub last: u64,
    /// How much. This package does not know of what.
    pub numbers: [u64; USAGE_NUMBERS],
}

impl UsageCell {
    /// Adds more of the same. A sum that is too large stays at its largest value.
    fn add(&mut self, more: &Self) {
        self.owner = more.owner.or(self.owner);
        self.last = self.last.max(more.last);
        for (sum, more) in self.numbers.iter_mut().zip(more.numbers) {
            *sum = sum.saturating_add(more);
        }
    }

    /// What is kept of it for longer: when the key was used.
    fn last_use(&self) -> Self {
        let nothing: Arc<str> = "".into();
        Self {
            key: self.key,
            owner: self.owner,
            method: Arc::clone(&nothing),
            outcome: nothing,
            last: self.last,
            numbers: [0; USAGE_NUMBERS],
        }
    }
}

#[cfg(test)]
mod tests;
