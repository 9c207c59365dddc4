use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use alloy_primitives::{B256, Bytes};
use rusqlite::{
    Connection, Error, ErrorCode, OpenFlags, OptionalExtension, Row, TransactionBehavior,
    config::DbConfig, params, types::FromSqlError,
};

/// The file's name in the folder of its chain.
pub(super) const NAME: &str = "window.sqlite";

/// Marks the file as this program's: "nhWd".
const APPLICATION_ID: i32 = 0x6e68_5764;

/// The file's format. A file of another one is replaced: it has nothing that cannot be fetched.
const FORMAT: i32 = 2;

/// Bytes of one block or item that are read at most. A file that has more is damaged.
const CONTENT_BYTES_MAX: u32 = 128 << 20;

/// Blocks that are read at most: a window and its genesis, and those above a node that is behind.
const BLOCKS_MAX: u32 = 512;

/// Merged blocks that are read at most.
const MERGED_MAX: u32 = 64;

/// The largest age of an item with which a file is used. The next item has the age after it, so
/// that the next start replaces the file.
pub(super) const LAST_AGE: i64 = 1 << 62;

/// `items` has a row for each trie node and code. A new row gets the largest `age`, so that rows
/// are appended, and the smallest is the oldest. They are found by the first 8 bytes of their hash:
/// an index of whole hashes has twice the bytes.
const TABLES: &str = "
    CREATE TABLE blocks (
        hash BLOB NOT NULL PRIMARY KEY,
        number INTEGER NOT NULL,
        content BLOB NOT NULL
    ) STRICT;
    CREATE TABLE items (
        age INTEGER PRIMARY KEY,
        prefix INTEGER NOT NULL,
        hash BLOB NOT NULL,
        content BLOB NOT NULL
    ) STRICT;
    CREATE INDEX items_by_prefix ON items (prefix);
    CREATE TABLE merged (
        age INTEGER PRIMARY KEY,
        hash BLOB NOT NULL
    ) STRICT;";

/// The log is checkpointed at this many pages of 4 KiB. One page takes many changes until then, and
/// is written to the file once.
const LOG_PAGES: u32 = 16_384;

/// Bytes of the log that stay after a large transaction.
const LOG_BYTES_KEPT: u32 = 128 << 20;

/// Pages that a connection holds in memory, in KiB.
const CACHE_KIB: i32 = 8 << 10;

/// How long a connection waits for the other one, which holds the file for a moment at the end of
/// the log.
const BUSY: Duration = Duration::from_secs(2);

/// Why the file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// It is damaged, or is not what this program writes. It has to be replaced.
    #[error("{0}")]
    Unusable(String),
    /// The system says no, or the disk is full: it may be possible later.
    #[error("{0}")]
    Failed(String),
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<Error> for FileError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error.sqlite_error_code() {
            // An unknown one is about a statement. Ours are right, so the tables are not.
            Some(
                ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::Unknown
                | ErrorCode::ConstraintViolation
                | ErrorCode::TypeMismatch,
            ) => Self::Unusable(text),
            Some(_) => Self::Failed(text),
            // A value of another type.
            None => Self::Unusable(text),
        }
    }
}

/// A change of the file, which is written whole or not at all.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Blocks to add: hash, number, and what `Block::save` made of them. `None`: the block is too
    /// large to save, and the next process fetches it.
    pub(super) blocks: Vec<(B256, u64, Option<Bytes>)>,
    /// Hashes of blocks to remove.
    pub(super) removed: Vec<B256>,
    /// Trie nodes and codes to add, or to make the newest.
    pub(super) items: Vec<(B256, Bytes)>,
    /// Hashes of those to remove.
    pub(super) dropped: Vec<B256>,
    /// The blocks that are merged, if they are others than before.
    pub(super) merged: Option<Vec<B256>>,
}

impl Change {
    pub(super) const fn is_empty(&self) -> bool {
        let Self {
            blocks,
            removed,
            items,
            dropped,
            merged,
        } = self;
        let has_blocks = !blocks.is_empty() || !removed.is_empty();
        !has_blocks && items.is_empty() && dropped.is_empty() && merged.is_none()
    }
}

/// The open file.
#[derive(Debug)]
pub(super) struct SavedFile {
    path: PathBuf,
    connection: Connection,
}

impl SavedFile {
    /// Opens the file in this folder, or makes it.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn open(folder: &Path) -> Result<Self, FileError> {
        let path = std::path::absolute(folder.join(NAME))?;
        make(&path)?;
        let mut connection = connect(&path)?;
        let is_new = is_new(&connection)?;
        let set = |row: &Row<'_>| row.get::<_, String>(0);
        let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", set)?;
        if mode != "wal" {
            let reason = format!("the file system allows no write-ahead log ({mode})");
            return Err(FileError::Failed(reason));
        }
        // After a power failure, the last seconds may be missing; the file is whole.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection
            .pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_KEPT, |_| Ok(()))?;
        connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES, |_| Ok(()))?;
        if is_new {
            let behavior = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(behavior)?;
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
            transaction.commit()?;
        }
        check(&connection)?;
        Ok(Self { path, connection })
    }

    /// Removes the file in this folder, which may be open, and makes a new one.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn replace(folder: &Path) -> Result<Self, FileError> {
        let path = std::path::absolute(folder.join(NAME))?;
        for suffix in ["", "-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            match fs::remove_file(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Self::open(folder)
    }

    /// Another connection, which only reads.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn reader(&self) -> Result<ReadFile, FileError> {
        let connection = connect(&self.path)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(ReadFile { connection })
    }

    /// Its blocks.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn blocks(&self) -> Result<Vec<BlockRow>, FileError> {
        let sql = "SELECT hash, number, length(content) FROM blocks LIMIT ?1";
        let mut statement = self.connection.prepare(sql)?;
        let blocks = statement.query_map([BLOCKS_MAX], |row| {
            Ok(BlockRow {
                hash: hash(row, 0)?,
                number: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(u64::MAX),
                bytes: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
            })
        })?;
        Ok(blocks.collect::<Result<_, _>>()?)
    }

    /// Whether there is any trie node or code.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn has_items(&self) -> Result<bool, FileError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM items)";
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// The blocks that are merged, the newest last.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn merged(&self) -> Result<Vec<B256>, FileError> {
        let mut statement = self
            .connection
            .prepare("SELECT hash FROM merged ORDER BY age LIMIT ?1")?;
        let hashes = statement.query_map([MERGED_MAX], |row| hash(row, 0))?;
        Ok(hashes.collect::<Result<_, _>>()?)
    }

    /// Writes a change, all of it or nothing.
    ///
    /// # Errors
    /// [`FileError`]; nothing has changed then.
    pub(super) fn write(&mut self, change: &Change) -> Result<(), FileError> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let remove_block = "DELETE FROM blocks WHERE hash = ?1";
        let remove_item = "DELETE FROM items WHERE prefix = ?1 AND hash = ?2";
        for hash in &change.removed {
            let mut statement = transaction.prepare_cached(remove_block)?;
            statement.execute([hash.as_slice()])?;
        }
        for (hash, number, content) in &change.blocks {
            let Some(content) = content else {
                continue;
            };
            let sql = "INSERT OR REPLACE INTO blocks (hash, number, content) VALUES (?1, ?2, ?3)";
            let number = i64::try_from(*number).unwrap_or(i64::MAX);
            let mut statement = transaction.prepare_cached(sql)?;
            statement.execute(params![hash.as_slice(), number, content.as_ref()])?;
        }
        let stored = change.items.iter().map(|(hash, _)| hash);
        for hash in change.dropped.iter().chain(stored) {
            let mut statement = transaction.prepare_cached(remove_item)?;
            statement.execute(params![prefix(hash), hash.as_slice()])?;
        }
        for (hash, content) in &change.items {
            let sql = "INSERT INTO items (prefix, hash, content) VALUES (?1, ?2, ?3)";
            let mut statement = transaction.prepare_cached(sql)?;
            statement.execute(params![prefix(hash), hash.as_slice(), content.as_ref()])?;
        }
        if let Some(merged) = &change.merged {
            transaction.execute("DELETE FROM merged", [])?;
            for hash in merged {
                let sql = "INSERT INTO merged (hash) VALUES (?1)";
                transaction.execute(sql, [hash.as_slice()])?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Bytes of the file that are in use.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn used_bytes(&self) -> Result<u64, FileError> {
        let number = |pragma: &str| {
            let read = |row: &Row<'_>| row.get::<_, i64>(0);
            let number = self.connection.pragma_query_value(None, pragma, read)?;
            Ok::<_, Error>(u64::try_from(number).unwrap_or(0))
        };
        let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
        Ok(pages * number("page_size")?)
    }

    /// Hashes of the oldest trie nodes and codes.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn oldest_items(&self, count: u32) -> Result<Vec<B256>, FileError> {
        let sql = "SELECT hash FROM items ORDER BY age LIMIT ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let hashes = statement.query_map([count], |row| hash(row, 0))?;
        Ok(hashes.collect::<Result<_, _>>()?)
    }

    /// Forbids the file to grow, or allows it.
    #[cfg(test)]
    #[expect(clippy::unwrap_used, reason = "tests")]
    pub(super) fn fill_disk(&self, is_full: bool) {
        // The smallest number stands for the present size.
        let pages = if is_full { 1 } else { u32::MAX - 1 };
        let set = |_: &Row<'_>| Ok(());
        let connection = &self.connection;
        connection
            .pragma_update_and_check(None, "max_page_count", pages, set)
            .unwrap();
    }
}

/// A saved block, without its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockRow {
    pub(super) hash: B256,
    pub(super) number: u64,
    /// Bytes of its content.
    pub(super) bytes: u64,
}

/// The file, for reading.
#[derive(Debug)]
pub(super) struct ReadFile {
    connection: Connection,
}

impl ReadFile {
    /// What was saved of a block.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn block(&self, hash: &B256) -> Result<Option<Vec<u8>>, FileError> {
        let sql = "SELECT content FROM blocks WHERE hash = ?1 AND length(content) <= ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let row = statement.query_row(params![hash.as_slice(), CONTENT_BYTES_MAX], |row| {
            row.get(0)
        });
        Ok(row.optional()?)
    }

    /// A trie node or code.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn item(&self, hash: &B256) -> Result<Option<Vec<u8>>, FileError> {
        let sql = "SELECT content FROM items
            WHERE prefix = ?1 AND hash = ?2 AND length(content) <= ?3";
        let mut statement = self.connection.prepare_cached(sql)?;
        let key = params![prefix(hash), hash.as_slice(), CONTENT_BYTES_MAX];
        let row = statement.query_row(key, |row| row.get(0));
        Ok(row.optional()?)
    }
}

/// The first 8 bytes of a hash.
fn prefix(hash: &B256) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = hash.0;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

fn hash(row: &Row<'_>, column: usize) -> Result<B256, Error> {
    let bytes = row.get_ref(column)?.as_blob()?;
    B256::try_from(bytes).map_err(|_| FromSqlError::InvalidType.into())
}

fn connect(path: &Path) -> Result<Connection, FileError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // SQL that a damaged file contains can do no harm.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// Whether a file is empty; an error if it is none of ours. Nothing is written.
fn is_new(connection: &Connection) -> Result<bool, FileError> {
    let number =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, FORMAT) => Ok(false),
        (0, 0) if tables(connection)?.is_empty() => Ok(true),
        (APPLICATION_ID, format) => Err(FileError::Unusable(format!("it has format {format}"))),
        _ => Err(FileError::Unusable("it is of another program".to_owned())),
    }
}

/// Checks the tables, and that there is room.
fn check(connection: &Connection) -> Result<(), FileError> {
    let fresh = Connection::open_in_memory()?;
    fresh.execute_batch(TABLES)?;
    if tables(connection)? != tables(&fresh)? {
        return Err(FileError::Unusable("its tables are others".to_owned()));
    }
    // After the largest age, the next row would get any.
    let is_last = "SELECT coalesce(max(age), 0) > ?1 FROM items";
    match connection.query_row(is_last, [LAST_AGE], |row| row.get(0))? {
        true => Err(FileError::Unusable("no age is left".to_owned())),
        false => Ok(()),
    }
}

/// Names and texts of all tables and indexes.
fn tables(connection: &Connection) -> Result<Vec<(String, Option<String>)>, Error> {
    let mut tables = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?;
    let rows = tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Makes an empty file that nobody else can read, unless it exists.
fn make(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is no file")),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
