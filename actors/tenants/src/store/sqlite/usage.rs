//! `usage.sqlite`: opens it, and removes what is old.
//!
//! | module | content |
//! |---|---|
//! | `adder` | adds usage |
//! | `columns` | what the columns of the tables hold |
//! | `reading` | answers questions about it |

mod adder;
mod columns;
mod reading;

use std::{collections::HashMap, path::Path, time::Duration};

use rusqlite::{Connection, Row, Transaction, params};

use self::{
    adder::Adder,
    columns::{key, millis, periods, stored, table},
};
use super::database::{Database, Fault, Schema};
use crate::{
    UnixMillis,
    id::KeyId,
    store::StoreError,
    usage::{KeyUse, KeyUseQuery, Label, OK_LABEL, Resolution, UsageAnswer, UsageCell, UsageQuery},
};

const SCHEMA: Schema = Schema {
    file: "usage.sqlite",
    content: "the usage so far",
    application_id: 0x6e68_7573,
    migrations: &[include_str!("usage_1.sql"), include_str!("usage_2.sql")],
    // What a power failure undoes is seconds of usage.
    synchronous: "NORMAL",
    // It is long, and what is wrong in it harms nobody: a query that meets it says so.
    checked: &[],
};

/// Largest size of the file: some 15 million sums, which are 5,000 for each minute of 2 days. If
/// there are more, minutes are kept for less time.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// How long it is kept when a key was last used.
const LAST_USED_KEPT: Duration = Duration::from_secs(400 * 86_400);

/// Sums that one call of [`UsageFile::expire`] removes, or a few more: some 20 ms.
const EXPIRED_SUMS: usize = 5_000;

/// Keys that one call of [`UsageFile::expire`] looks at.
const EXPIRED_KEYS: i64 = 1_000;

/// `usage.sqlite`.
#[derive(Debug)]
pub(super) struct UsageFile {
    database: Database,
    pages_max: u64,
    /// Numbers of labels.
    labels: HashMap<Label, i64>,
    /// Keys up to this number were looked at for whether they are still kept.
    keys_seen: i64,
}

impl UsageFile {
    #[cfg(test)]
    pub(super) const fn database(&self) -> &Database {
        &self.database
    }

    pub(super) fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_bounded(folder, FILE_BYTES_MAX)
    }

    pub(super) fn open_bounded(folder: &Path, bytes_max: u64) -> Result<Self, StoreError> {
        let database = Database::open(folder, &SCHEMA)?;
        let (labels, pages_max) = database.read(|connection| {
            let mut all = connection.prepare("SELECT text, number FROM label")?;
            let all = all.query_map([], |row| Ok((row.get::<_, Label>(0)?, row.get(1)?)))?;
            let labels: HashMap<_, _> = all.collect::<Result<_, _>>()?;
            let page: u64 = pragma(connection, "page_size")?.max(1);
            Ok((labels, bytes_max / page))
        })?;
        Ok(Self {
            database,
            pages_max,
            labels,
            keys_seen: 0,
        })
    }

    pub(super) fn last_used(&self) -> Result<HashMap<KeyId, UnixMillis>, StoreError> {
        self.database.read(|connection| {
            let mut all = connection.prepare("SELECT id, last_used FROM key")?;
            let all = all.query_map([], |row| Ok((key(row, 0)?, millis(row, 1)?)))?;
            Ok(all.collect::<Result<_, _>>()?)
        })
    }

    pub(super) fn add(&mut self, cells: &[UsageCell]) -> Result<(), StoreError> {
        let mut labels = self.labels.clone();
        let pages_max = self.pages_max;
        self.database.write(|transaction| {
            let pages = pages_in_use(transaction)?;
            if pages >= pages_max {
                let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
                return Err(rusqlite::Error::SqliteFailure(full, None).into());
            }
            Adder::new(transaction, &mut labels)?.add(cells)
        })?;
        self.labels = labels;
        Ok(())
    }

    pub(super) fn answer(&self, query: &UsageQuery) -> Result<UsageAnswer, StoreError> {
        self.database
            .read(|connection| reading::answer(connection, query))
    }

    pub(super) fn key_use(
        &self,
        query: &KeyUseQuery,
        each: &mut dyn FnMut(KeyUse),
    ) -> Result<(), StoreError> {
        // No label has the number 0.
        let ok = self.labels.get(OK_LABEL).copied().unwrap_or(0);
        let read = |connection: &Connection| reading::key_use(connection, query, ok, each);
        self.database.read(read)
    }

    pub(super) fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        let (keys_seen, pages_max) = (self.keys_seen, self.pages_max);
        // Nothing is written if there is nothing to remove, so that an idle disk can sleep.
        let (last_key, is_due) = self.database.read(|connection| {
            let last = connection.query_row("SELECT max(number) FROM key", [], |row| row.get(0))?;
            let last: Option<i64> = last;
            let is_due = next_expired(connection, now, pages_max)?.is_some();
            Ok((last.unwrap_or(0), is_due))
        })?;
        let seen = keys_seen.saturating_add(EXPIRED_KEYS);
        let kept = u64::try_from(LAST_USED_KEPT.as_millis()).unwrap_or(u64::MAX);
        let oldest = stored(now.0.saturating_sub(kept));
        let old_keys = "FROM key WHERE number > ?1 AND number <= ?2 AND last_used < ?3";
        let range = params![keys_seen, seen, oldest];
        let has_old_keys = self.database.read(|connection| {
            let mut old = connection.prepare(&format!("SELECT 1 {old_keys}"))?;
            Ok(old.exists(range)?)
        })?;
        let mut is_more = false;
        if is_due || has_old_keys {
            is_more = self.database.write(|transaction| {
                transaction.execute(&format!("DELETE {old_keys}"), range)?;
                let mut removed = 0;
                while removed < EXPIRED_SUMS {
                    match next_expired(transaction, now, pages_max)? {
                        Some((table, at)) => removed += remove(transaction, table, at)?,
                        None => return Ok(false),
                    }
                }
                Ok(next_expired(transaction, now, pages_max)?.is_some())
            })?;
        }
        self.keys_seen = if seen >= last_key { 0 } else { seen };
        Ok(is_more)
    }
}

fn pragma(connection: &Connection, name: &str) -> Result<u64, Fault> {
    let read = |row: &Row<'_>| row.get::<_, i64>(0);
    let number = connection.pragma_query_value(None, name, read)?;
    Ok(number.max(0).unsigned_abs())
}

fn pages_in_use(connection: &Connection) -> Result<u64, Fault> {
    let free = pragma(connection, "freelist_count")?;
    Ok(pragma(connection, "page_count")?.saturating_sub(free))
}

/// The oldest period that is no longer kept, of the finest resolution that has one. If the file is
/// nearly full, that is also one that would be kept.
fn next_expired(
    connection: &Connection,
    now: UnixMillis,
    pages_max: u64,
) -> Result<Option<(Resolution, i64)>, Fault> {
    let is_nearly_full = pages_in_use(connection)? >= pages_max / 10 * 9;
    for resolution in Resolution::ALL {
        let first = format!("SELECT min(at) FROM {}", table(resolution));
        let first: Option<i64> = connection.query_row(&first, [], |row| row.get(0))?;
        let oldest = periods(resolution, resolution.oldest(now));
        if let Some(first) = first.filter(|first| *first < oldest || is_nearly_full) {
            return Ok(Some((resolution, first)));
        }
    }
    Ok(None)
}

/// Removes sums of one period: those of its first keys, if it has many.
fn remove(transaction: &Transaction<'_>, of: Resolution, at: i64) -> Result<usize, Fault> {
    let table = table(of);
    let last = format!("SELECT key FROM {table} WHERE at = ?1 ORDER BY key LIMIT 1 OFFSET ?2");
    let mut last = transaction.prepare(&last)?;
    let mut last = last.query(params![at, stored(EXPIRED_SUMS as u64)])?;
    let last = last.next()?.map_or(Ok(i64::MAX), |row| row.get(0))?;
    let removed = format!("DELETE FROM {table} WHERE at = ?1 AND key <= ?2");
    match transaction.execute(&removed, params![at, last])? {
        // In a damaged file, an index may have what its table does not have.
        0 => Err(Fault::Damaged(format!(
            "a sum of table {table} cannot be removed"
        ))),
        removed => Ok(removed),
    }
}
