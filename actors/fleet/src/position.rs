//! Where an entry is in the stream.

use std::fmt;

use alloy_primitives::B256;

/// Where an entry is: its epoch, and its number in it. It is the entry's id in the store's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The epoch, from 1.
    pub epoch: u64,
    /// The number of the entry in its epoch, from 0.
    pub sequence: u64,
}

impl Position {
    /// The place of this entry of this epoch.
    #[must_use]
    pub const fn new(epoch: u64, sequence: u64) -> Self {
        Self { epoch, sequence }
    }

    /// Reads a stream's id: `EPOCH-SEQUENCE`. `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (epoch, sequence) = text.split_once('-')?;
        Some(Self::new(epoch.parse().ok()?, sequence.parse().ok()?))
    }

    /// The entry after this one in the same epoch.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.epoch, self.sequence.saturating_add(1))
    }
}

/// An entry, by where it is and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Where it is.
    pub position: Position,
    /// Its digest.
    pub digest: B256,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.epoch, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_the_id_of_a_stream() {
        let position = Position::new(3, 17);
        assert_eq!(position.to_string(), "3-17");
        assert_eq!(Position::parse("3-17"), Some(position));
        let last = Position::new(u64::MAX, u64::MAX);
        assert_eq!(Position::parse(&last.to_string()), Some(last));
        for text in [
            "",
            "3",
            "3-",
            "-17",
            "3-17-1",
            "x-1",
            "18446744073709551616-0",
        ] {
            assert_eq!(Position::parse(text), None, "{text:?}");
        }
        assert!(Position::new(3, 17).next() < Position::new(4, 0));
    }
}
