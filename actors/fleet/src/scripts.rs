//! The scripts that run in the store, and what they answer.
//!
//! The protocol relies on these guarantees of Redis 7 and Valkey 8:
//!
//! - A script runs alone and as a whole. Its effects are replicated, and written to the append-only
//!   file, as a whole and in their order: a failover or a restart may lose the latest effects of
//!   all keys together, and never one key's alone.
//! - A key with an expiry is gone for every script after that time, by the server's clock. If that
//!   clock jumps, a lease may end early, which fencing makes harmless, or late.
//! - A stream accepts no id that is not above all that it has had, until its key is removed.
//! - `XTRIM` with `=` removes exactly what it names.
//!
//! It does not rely on synchronous replication, on `WAIT`, or on clocks that agree. The store has
//! to evict nothing (`maxmemory-policy noeviction`).
//!
//! Fields of the hash *fence*: `epoch`, the newest one; `sequence`, the number of its newest entry,
//! or -1; `wanted`, if a replica waits for a snapshot.

use std::time::Duration;

/// Takes the lease. Keys: lease, fence, entries.
pub const ACQUIRE: &str = include_str!("scripts/acquire.lua");

/// Renews the lease. Keys: lease, fence.
pub const RENEW: &str = include_str!("scripts/renew.lua");

/// Gives the lease back. Keys: lease.
pub const RELEASE: &str = include_str!("scripts/release.lua");

/// Appends an entry. Keys: lease, fence, entries.
pub const APPEND: &str = include_str!("scripts/append.lua");

/// Reads the entry after a position, however large those after it are. Keys: entries.
pub const READ: &str = include_str!("scripts/read.lua");

/// Gets items of the state by hash. Keys: the two halves, and which of them is the newer one.
pub const GET_ITEMS: &str = include_str!("scripts/get_items.lua");

/// Puts items of the state, and bounds them. Keys: as [`GET_ITEMS`].
pub const PUT_ITEMS: &str = include_str!("scripts/put_items.lua");

/// Drops items of the state that are false. Keys: the two halves.
pub const DROP_ITEMS: &str = include_str!("scripts/drop_items.lua");

/// Adds a want, and bounds them. Keys: wants.
pub const WANT: &str = include_str!("scripts/want.lua");

/// Takes the turn to ask nodes for some state. Keys: turn.
pub const TAKE_TURN: &str = include_str!("scripts/take_turn.lua");

/// Gives a turn back. Keys: turn.
pub const GIVE_BACK_TURN: &str = include_str!("scripts/give_back_turn.lua");

/// Reports what a replica has seen. Keys: fence.
pub const REPORT: &str = include_str!("scripts/report.lua");

/// Notes that a process is there, and answers who is. Keys: processes.
pub const PRESENT: &str = include_str!("scripts/present.lua");

/// Lends tokens of quotas. Keys: buckets.
pub const LEND: &str = include_str!("scripts/lend.lua");

/// Sums up the units of a day. Keys: sums.
pub const COUNT: &str = include_str!("scripts/count.lua");

/// Writes records, if nobody has written meanwhile. Keys: records, changes, and the three of the
/// audit.
pub const COMMIT_RECORDS: &str = include_str!("scripts/commit_records.lua");

/// Reads records that have changed. Keys: records, changes.
pub const CHANGED_RECORDS: &str = include_str!("scripts/changed_records.lua");

/// Reads some records. Keys: records.
pub const SCAN_RECORDS: &str = include_str!("scripts/scan_records.lua");

/// Reads entries of the audit. Keys: entries of one kind.
pub const READ_AUDIT: &str = include_str!("scripts/read_audit.lua");

/// Writes what a process has counted, and bounds it. Keys: bytes, then parts and index of each of
/// the four kinds of periods.
pub const PUT_USAGE: &str = include_str!("scripts/put_usage.lua");

/// Reads what processes have counted. Keys: parts and index of
/// one kind of periods.
pub const READ_USAGE: &str = include_str!("scripts/read_usage.lua");

/// Adds a client's filter. Keys: the filter, then for each size the names of all filters, and of
/// those of the tenant.
pub const MAKE_FILTER: &str = include_str!("scripts/make_filter.lua");

/// Reads a client's filter, and keeps it for longer. Keys: as [`MAKE_FILTER`].
pub const READ_FILTER: &str = include_str!("scripts/read_filter.lua");

/// Moves a client's filter. Keys: the filter.
pub const MOVE_FILTER: &str = include_str!("scripts/move_filter.lua");

/// Removes a client's filter. Keys: as [`MAKE_FILTER`].
pub const DROP_FILTER: &str = include_str!("scripts/drop_filter.lua");

/// A script answered what this program does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store answered {word:?} with {number}")]
pub struct UnknownAnswer {
    /// The first element of the answer.
    pub word: String,
    /// The second one.
    pub number: i64,
}

/// What [`ACQUIRE`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The lease, with a new epoch.
    Epoch(u64),
    /// Another process holds it for so long, unless it renews it.
    Held(Duration),
    /// There is no epoch above those that were seen.
    Exhausted,
}

/// What [`RENEW`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// It is valid for its whole length again, and whether a replica wants a snapshot.
    Renewed(bool),
    /// It is no longer the caller's; the newest epoch of the store.
    Lost(u64),
}

/// What [`APPEND`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The entry is in the stream, and whether a replica wants a snapshot.
    Appended(bool),
    /// The lease is no longer the caller's, or a newer epoch has begun: the store's newest one.
    Fenced(u64),
    /// The store has lost entries before this one.
    Gap,
    /// Something else is in its place.
    Blocked,
}

/// What [`REPORT`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The store has what was seen; its newest epoch, and the number of the newest entry in it.
    Known(u64, Option<u64>),
    /// It had lost it, and its epoch is over; its newest epoch.
    Raised(u64),
}

/// What [`MAKE_FILTER`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterMade {
    /// The filter is there.
    Made,
    /// The store has too many filters.
    Full,
    /// The tenant has too many.
    TenantFull,
}

/// What [`MOVE_FILTER`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterMoved {
    /// The filter is in the new place.
    Moved,
    /// It was not where the caller believed it to be.
    Other,
    /// It is too late.
    Late,
}

fn unknown(word: &str, number: i64) -> UnknownAnswer {
    UnknownAnswer {
        word: word.to_owned(),
        number,
    }
}

/// A number that is not negative.
fn unsigned(word: &str, number: i64) -> Result<u64, UnknownAnswer> {
    u64::try_from(number).map_err(|_| unknown(word, number))
}

impl Acquired {
    /// Reads the two elements of the answer.
    ///
    /// # Errors
    /// It is none of the script's answers.
    pub fn parse(word: &str, number: i64) -> Result<Self, UnknownAnswer> {
        let value = unsigned(word, number)?;
        match word {
            "acquired" => Ok(Self::Epoch(value)),
            "held" => Ok(Self::Held(Duration::from_millis(value))),
            "exhausted" => Ok(Self::Exhausted),
            _ => Err(unknown(word, number)),
        }
    }
}

impl Renewed {
    /// Reads the two elements of the answer.
    ///
    /// # Errors
    /// It is none of the script's answers.
    pub fn parse(word: &str, number: i64) -> Result<Self, UnknownAnswer> {
        let value = unsigned(word, number)?;
        match word {
            "renewed" => Ok(Self::Renewed(value == 1)),
            "lost" => Ok(Self::Lost(value)),
            _ => Err(unknown(word, number)),
        }
    }
}

impl Appended {
    /// Reads the two elements of the answer.
    ///
    /// # Errors
    /// It is none of the script's answers.
    pub fn parse(word: &str, number: i64) -> Result<Self, UnknownAnswer> {
        match word {
            "appended" => Ok(Self::Appended(number == 1)),
            "fenced" => Ok(Self::Fenced(unsigned(word, number)?)),
            "gap" => Ok(Self::Gap),
            "blocked" => Ok(Self::Blocked),
            _ => Err(unknown(word, number)),
        }
    }
}

impl Reported {
    /// Reads the three elements of the answer.
    ///
    /// # Errors
    /// It is none of the script's answers.
    pub fn parse(word: &str, [number, sequence]: [i64; 2]) -> Result<Self, UnknownAnswer> {
        let epoch = unsigned(word, number)?;
        match word {
            // `None` also for a negative number that a foreign writer stored.
            "known" => Ok(Self::Known(epoch, u64::try_from(sequence).ok())),
            "raised" => Ok(Self::Raised(epoch)),
            _ => Err(unknown(word, number)),
        }
    }
}

impl FilterMade {
    /// Reads the two elements of the answer.
    ///
    /// # Errors
    /// It is none of the script's answers.
    pub fn parse(word: &str, number: i64) -> Result<Self, UnknownAnswer> {
        match word {
            "made" => Ok(Self::Made),
            "full" => Ok(Self::Full),
            "tenant_full" => Ok(Self::TenantFull),
            _ => Err(unknown(word, number)),
        }
    }
}

impl FilterMoved {
    /// Reads the two elements of the answer.
    ///
    /// # Errors
    /// It is none of the script's answers.
    pub fn parse(word: &str, number: i64) -> Result<Self, UnknownAnswer> {
        match word {
            "moved" => Ok(Self::Moved),
            "other" => Ok(Self::Other),
            "late" => Ok(Self::Late),
            _ => Err(unknown(word, number)),
        }
    }
}

/// Reads the two elements of the answer of [`RELEASE`].
///
/// # Errors
/// It is none of the script's answers.
pub fn parse_released(word: &str, number: i64) -> Result<(), UnknownAnswer> {
    match word {
        "released" => Ok(()),
        _ => Err(unknown(word, number)),
    }
}

/// Reads the two elements of an answer that is a number under one word: that of [`PUT_ITEMS`],
/// [`DROP_ITEMS`], [`WANT`] or [`GIVE_BACK_TURN`].
///
/// # Errors
/// It is another answer.
pub fn parse_count(expected: &str, word: &str, number: i64) -> Result<u64, UnknownAnswer> {
    match word == expected {
        true => unsigned(word, number),
        false => Err(unknown(word, number)),
    }
}

/// Answers of [`COMMIT_RECORDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// All of it is written.
    Written {
        /// Whether an audit had what the fleet did not write, and was begun again.
        audit_begun_again: bool,
    },
    /// Another process has written meanwhile, and nothing is written.
    Conflict,
}

impl Committed {
    /// Reads the two elements of an answer.
    ///
    /// # Errors
    /// It is none of the script's answers.
    pub fn parse(word: &str, number: i64) -> Result<Self, UnknownAnswer> {
        match (word, number) {
            ("committed", 0 | 1) => Ok(Self::Written {
                audit_begun_again: number == 1,
            }),
            ("conflict", _) => Ok(Self::Conflict),
            _ => Err(unknown(word, number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that a script returns: those after `return {'`.
    fn words(script: &str) -> Vec<&str> {
        let code = script.lines().filter(|line| !line.starts_with("--"));
        let words = code.filter_map(|line| Some(line.split_once("return {'")?.1));
        words
            .filter_map(|rest| Some(rest.split_once('\'')?.0))
            .collect()
    }

    #[test]
    fn every_answer_of_a_script_is_known() {
        for word in words(ACQUIRE) {
            assert!(Acquired::parse(word, 1).is_ok(), "{word}");
        }
        for word in words(RENEW) {
            assert!(Renewed::parse(word, 1).is_ok(), "{word}");
        }
        for word in words(APPEND) {
            assert!(Appended::parse(word, 1).is_ok(), "{word}");
        }
        for word in words(REPORT) {
            assert!(Reported::parse(word, [1, -1]).is_ok(), "{word}");
        }
        for word in words(MAKE_FILTER) {
            assert!(FilterMade::parse(word, 0).is_ok(), "{word}");
        }
        for word in words(MOVE_FILTER) {
            assert!(FilterMoved::parse(word, 0).is_ok(), "{word}");
        }
        assert_eq!(words(MAKE_FILTER).len() + words(MOVE_FILTER).len(), 6);
        assert_eq!(words(RELEASE), ["released", "released"]);
        assert!(parse_released("released", 0).is_ok() && parse_released("lent", 0).is_err());
        for (script, word) in [
            (PUT_ITEMS, "put"),
            (DROP_ITEMS, "dropped"),
            (WANT, "wanted"),
            (GIVE_BACK_TURN, "given"),
        ] {
            assert!(words(script).iter().all(|found| *found == word));
            assert_eq!(parse_count(word, word, 7), Ok(7));
            assert!(parse_count(word, word, -1).is_err() && parse_count(word, "x", 1).is_err());
        }
        for word in words(COMMIT_RECORDS) {
            assert!(Committed::parse(word, 1).is_ok(), "{word}");
        }
        assert_eq!(words(ACQUIRE), ["held", "exhausted", "acquired"]);
        assert!(Acquired::parse("released", 1).is_err());
        assert!(Renewed::parse("renewed", -1).is_err());
        assert_eq!(Appended::parse("gap", -1), Ok(Appended::Gap));
        assert!(Reported::parse("gap", [1, 1]).is_err());
        assert_eq!(
            Reported::parse("known", [3, 7]),
            Ok(Reported::Known(3, Some(7)))
        );
        assert_eq!(
            Reported::parse("known", [3, -1]),
            Ok(Reported::Known(3, None))
        );
    }
}
