use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf, absolute},
    time::Duration,
};

use rusqlite::{
    Connection, Error, ErrorCode, MAIN_DB, OpenFlags, Transaction, TransactionBehavior,
    config::DbConfig, ffi,
};

use crate::store::StoreError;

/// Bytes of the write-ahead log that stay after a large transaction.
const LOG_BYTES_KEPT: u32 = 16 << 20;

/// What a file is to be.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) file: &'static str,
    /// What is lost without it, for a message.
    pub(super) content: &'static str,
    /// Marks the file as this program's.
    pub(super) application_id: i32,
    /// Statements that make format 1, those that make format 2 of it, and so on. A step is never
    /// changed once it is released.
    pub(super) migrations: &'static [&'static str],
    /// How a transaction is written: `FULL` outlives a power failure.
    pub(super) synchronous: &'static str,
    /// Tables that are checked whole at the start.
    pub(super) checked: &'static [&'static str],
}

/// An open file.
#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    content: &'static str,
    connection: Connection,
}

/// Why a call fails.
#[derive(Debug)]
pub(super) enum Fault {
    /// The database says so.
    Sql(Error),
    /// What was read is not what was written.
    Damaged(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// What it is while a file is opened: the statements are right, so what they find is wrong.
    fn at_start(self) -> Self {
        match self {
            Self::Sql(Error::SqliteFailure(failure, reason))
                if failure.extended_code == ffi::SQLITE_ERROR =>
            {
                Self::Damaged(reason.unwrap_or_else(|| failure.to_string()))
            }
            other => other,
        }
    }
}

impl Database {
    /// Opens a file, or makes it, brings it to the newest format and checks it.
    pub(super) fn open(folder: &Path, schema: &Schema) -> Result<Self, StoreError> {
        let path = folder.join(schema.file);
        let unusable = |error: io::Error| StoreError::Unusable {
            path: path.clone(),
            reason: error.to_string(),
        };
        // Not a relative one: the database takes what begins with "file:" for a URI.
        let full = absolute(&path).map_err(unusable)?;
        make(&full).map_err(unusable)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&full, flags);
        let connection =
            opened.map_err(|error| store_error(error.into(), &path, schema.content))?;
        let mut database = Self {
            path,
            content: schema.content,
            connection,
        };
        let prepared = database.configure(schema);
        prepared.map_err(|fault| database.error(fault.at_start()))?;
        database.migrate(schema)?;
        let checked = database.check(schema);
        checked.map_err(|fault| database.error(fault.at_start()))?;
        Ok(database)
    }

    fn configure(&self, schema: &Schema) -> Result<(), Fault> {
        let connection = &self.connection;
        connection.busy_timeout(Duration::ZERO)?;
        // SQL that a damaged file contains can do no harm.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        // One process has the file, so its index of the log needs no shared memory.
        connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
        if connection.is_readonly(MAIN_DB)? {
            let code = ffi::Error::new(ffi::SQLITE_READONLY);
            return Err(Error::SqliteFailure(code, None).into());
        }
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", schema.synchronous)?;
        connection
            .pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_KEPT, |_| Ok(()))?;
        Ok(())
    }

    /// Brings the file to the newest format. It is written even if it has that already, so that a
    /// file that cannot be written is found at the start.
    fn migrate(&mut self, schema: &Schema) -> Result<(), StoreError> {
        let known = u32::try_from(schema.migrations.len()).unwrap_or(u32::MAX);
        let (path, content) = (self.path.clone(), self.content);
        let to_error = |fault: Fault| store_error(fault.at_start(), &path, content);
        let begun = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.map_err(|error| to_error(error.into()))?;
        let number = |pragma: &str| {
            let read = transaction.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
            read.map_err(|error| to_error(error.into()))
        };
        let found = match (number("application_id")?, number("user_version")?) {
            (0, _) => {
                let count = "SELECT count(*) FROM sqlite_schema";
                let items: Result<i64, Error> = transaction.query_row(count, [], |row| row.get(0));
                match items.map_err(|error| to_error(error.into()))? {
                    0 => 0,
                    _ => return Err(StoreError::OtherProgram { path }),
                }
            }
            (id, _) if id != schema.application_id => {
                return Err(StoreError::OtherProgram { path });
            }
            (_, found) => match u32::try_from(found) {
                Ok(found) if found > known => {
                    return Err(StoreError::Newer { path, found, known });
                }
                Ok(found @ 1..) => found,
                _ => {
                    let reason = format!("format {found} does not exist");
                    return Err(to_error(Fault::Damaged(reason)));
                }
            },
        };
        let migrated = || -> Result<(), Error> {
            for step in schema.migrations.iter().skip(found as usize) {
                transaction.execute_batch(step)?;
            }
            transaction.pragma_update(None, "application_id", schema.application_id)?;
            transaction.pragma_update(None, "user_version", known)
        };
        let migrated = migrated().and_then(|()| transaction.commit());
        migrated.map_err(|error| to_error(error.into()))
    }

    /// Compares the tables with those that the migrations make, and reads the tables that have to
    /// be whole.
    fn check(&self, schema: &Schema) -> Result<(), Fault> {
        let fresh = Connection::open_in_memory()?;
        for step in schema.migrations {
            fresh.execute_batch(step)?;
        }
        if items(&fresh)? != items(&self.connection)? {
            return Err(Fault::Damaged(
                "its tables are not those of its format".to_owned(),
            ));
        }
        for table in schema.checked {
            let mut problem = None;
            let keep = |row: &rusqlite::Row<'_>| {
                problem = Some(row.get::<_, String>(0)?);
                Ok(())
            };
            self.connection.pragma(None, "quick_check", *table, keep)?;
            if let Some(problem) = problem.filter(|problem| problem != "ok") {
                return Err(Fault::Damaged(problem));
            }
        }
        Ok(())
    }

    /// Runs something that reads.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        read(&self.connection).map_err(|fault| self.error(fault))
    }

    /// Runs something that writes, all of it or nothing.
    pub(super) fn write<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let (path, content) = (&self.path, self.content);
        let written = || -> Result<T, Fault> {
            let behavior = TransactionBehavior::Immediate;
            let transaction = self.connection.transaction_with_behavior(behavior)?;
            let result = write(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        written().map_err(|fault| store_error(fault, path, content))
    }

    /// Forbids the file to grow, or allows it.
    #[cfg(test)]
    #[expect(clippy::unwrap_used, reason = "tests")]
    pub(super) fn fill_disk(&self, is_full: bool) {
        // The smallest number stands for the present size.
        let pages = if is_full { 1 } else { u32::MAX - 1 };
        let set =
            self.connection
                .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()));
        set.unwrap();
    }

    fn error(&self, fault: Fault) -> StoreError {
        store_error(fault, &self.path, self.content)
    }
}

/// Makes an empty file that nobody else can read, unless it exists.
fn make(path: &Path) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        // The folder has the file's name.
        Ok(_) => match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // The system's words are clearer than the database's.
            match fs::metadata(path)?.is_file() {
                true => File::options().read(true).write(true).open(path).map(drop),
                false => Err(io::Error::other("it is no file")),
            }
        }
        Err(error) => Err(error),
    }
}

/// Names and texts of all tables and indexes.
fn items(connection: &Connection) -> Result<Vec<(String, Option<String>)>, Error> {
    let mut items = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?;
    let rows = items.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn store_error(fault: Fault, path: &Path, content: &'static str) -> StoreError {
    let path = path.to_owned();
    let error = match fault {
        Fault::Sql(error) => error,
        Fault::Damaged(reason) => {
            return StoreError::Damaged {
                path,
                reason,
                content,
            };
        }
    };
    let reason = error.to_string();
    match error {
        // A value of another type, or text that is no UTF-8.
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..)
        | Error::InvalidColumnType(..)
        | Error::QueryReturnedNoRows => StoreError::Damaged {
            path,
            reason,
            content,
        },
        Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::InUse { path },
            ErrorCode::DiskFull => StoreError::Full { path },
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Damaged {
                path,
                reason,
                content,
            },
            ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::SystemIoFailure => StoreError::Unusable { path, reason },
            _ => StoreError::Failed { path, reason },
        },
        _ => StoreError::Failed { path, reason },
    }
}
