//! By how many entries a process is behind the store.

use std::cmp::Ordering;

use crate::{bounds::STORE_ENTRIES_MAX, position::Position, scripts::Reported};

/// The newest entry of a store that has answered this; `None` if its newest epoch has none.
#[must_use]
pub fn newest_of(reported: Reported) -> Option<Position> {
    match reported {
        Reported::Known(epoch, sequence) => Some(Position::new(epoch, sequence?)),
        Reported::Raised(_) => None,
    }
}

/// How many entries a process that has seen those up to here is behind the newest one of the store.
/// Entries of earlier epochs do not count: a replica does not need them. At most as many as a store
/// keeps: a foreign writer may have forged the number.
#[must_use]
pub fn entries_behind(newest: Position, seen: Position) -> u64 {
    let entries = match seen.epoch.cmp(&newest.epoch) {
        Ordering::Less => newest.sequence.saturating_add(1),
        Ordering::Equal => newest.sequence.saturating_sub(seen.sequence),
        Ordering::Greater => 0,
    };
    entries.min(STORE_ENTRIES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_missing_are_counted() {
        let newest = Position::new(3, 17);
        for (epoch, sequence, expected) in [
            (3, 17, 0),
            (3, 18, 0),
            (3, 12, 5),
            (2, 90, 18),
            (0, 0, 18),
            (4, 0, 0),
        ] {
            let seen = Position::new(epoch, sequence);
            assert_eq!(entries_behind(newest, seen), expected, "{seen}");
        }
        let invented = Position::new(3, u64::MAX);
        assert_eq!(entries_behind(invented, newest), STORE_ENTRIES_MAX);
    }

    #[test]
    fn the_store_says_which_entry_is_the_newest() {
        for (reported, expected) in [
            (Reported::Known(3, Some(7)), Some(Position::new(3, 7))),
            (Reported::Known(3, None), None),
            (Reported::Raised(4), None),
        ] {
            assert_eq!(newest_of(reported), expected);
        }
    }
}
