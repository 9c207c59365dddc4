use std::{path::Path, sync::Arc};

use ring::digest;
use rusqlite::{
    Connection, OptionalExtension as _, Statement, ToSql, Transaction, named_params, params,
    types::{ToSqlOutput, ValueRef},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    audit::{self, AuditBounds},
    database::{Database, Fault, Schema},
};
use crate::{
    UnixMillis,
    account::{Account, AccountChange, Accounts, ApiToken, Login},
    audit::{AuditPage, AuditQuery},
    command::Change,
    directory::Directory,
    record::{KeyRecord, TenantRecord},
    store::{Commit, StoreError},
};

/// Each record is JSON, beside what it is found by, and has a checksum. `state` has the exclusive
/// or of all checksums, so that a record that is missing, or an old one, is noticed.
const SCHEMA: Schema = Schema {
    file: "tenants.sqlite",
    content: "its tenants, keys and administrators",
    application_id: 0x6e68_746e,
    migrations: &[
        include_str!("records_1.sql"),
        include_str!("records_2.sql"),
        include_str!("records_3.sql"),
    ],
    synchronous: "FULL",
    // The audit is long, and nobody is let in by it.
    checked: &["state", "tenant", "key", "account", "login", "token"],
};

/// `tenants.sqlite`.
#[derive(Debug)]
pub(super) struct RecordsFile {
    database: Database,
    audit: AuditBounds,
}

/// A table of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Tenant,
    Key,
    Account,
    Login,
    Token,
}

impl Table {
    const ALL: [Self; 5] = [
        Self::Tenant,
        Self::Key,
        Self::Account,
        Self::Login,
        Self::Token,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Key => "key",
            Self::Account => "account",
            Self::Login => "login",
            Self::Token => "token",
        }
    }

    /// The table without whose record one of this table does not exist.
    const fn owner(self) -> Option<Self> {
        match self {
            Self::Key => Some(Self::Tenant),
            Self::Login => Some(Self::Account),
            Self::Tenant | Self::Account | Self::Token => None,
        }
    }

    /// The table whose records go with one of this table.
    const fn owned(self) -> Option<Self> {
        match self {
            Self::Tenant => Some(Self::Key),
            Self::Account => Some(Self::Login),
            Self::Key | Self::Login | Self::Token => None,
        }
    }
}

/// What a record is found by.
#[derive(Clone, Copy)]
enum Id<'a> {
    Bytes(&'a [u8]),
    Text(&'a str),
}

impl Id<'_> {
    const fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

impl ToSql for Id<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

/// The checksum of one record. That of several is the exclusive or of all.
fn checksum(table: Table, id: &[u8], owner: &[u8], record: &str) -> u64 {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in [table.name().as_bytes(), id, owner, record.as_bytes()] {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&context.finish().as_ref()[..8]);
    u64::from_le_bytes(first)
}

impl RecordsFile {
    #[cfg(test)]
    pub(super) const fn database(&self) -> &Database {
        &self.database
    }

    pub(super) fn open(folder: &Path, audit: AuditBounds) -> Result<Self, StoreError> {
        let database = Database::open(folder, &SCHEMA)?;
        Ok(Self { database, audit })
    }

    pub(super) fn load(&self) -> Result<(Directory, Accounts), StoreError> {
        self.database.read(|connection| {
            let mut directory = Directory::default();
            let mut accounts = Accounts::default();
            let mut sum = 0;
            let mut rows = 0;
            for table in Table::ALL {
                let all = format!("SELECT id, owner, record, checksum FROM {}", table.name());
                let mut all = connection.prepare(&all)?;
                let mut found = all.query([])?;
                while let Some(row) = found.next()? {
                    let bytes = |column| -> Result<&[u8], Fault> {
                        let value = row.get_ref(column)?;
                        value
                            .as_bytes_or_null()
                            .map(Option::unwrap_or_default)
                            .map_err(damaged)
                    };
                    let record = row.get_ref(2)?.as_str().map_err(damaged)?;
                    let expected = checksum(table, bytes(0)?, bytes(1)?, record);
                    if row.get::<_, i64>(3)? as u64 != expected {
                        let reason = format!("a record of table {} was altered", table.name());
                        return Err(Fault::Damaged(reason));
                    }
                    sum ^= expected;
                    rows += 1;
                    match table {
                        Table::Tenant => {
                            directory.make(Change::Tenant(parse::<TenantRecord>(record)?));
                        }
                        Table::Key => directory.make(Change::Key(parse::<KeyRecord>(record)?)),
                        Table::Account => {
                            accounts.make(AccountChange::Account(parse::<Account>(record)?));
                        }
                        Table::Login => {
                            accounts.make(AccountChange::Login(parse::<Login>(record)?))
                        }
                        Table::Token => {
                            accounts.make(AccountChange::Token(parse::<ApiToken>(record)?));
                        }
                    }
                }
            }
            let state = "SELECT checksum FROM state";
            let stored: i64 = connection.query_row(state, [], |row| row.get(0))?;
            let made = directory.tenants().len()
                + directory.keys().len()
                + accounts.accounts().len()
                + accounts.logins().len()
                + accounts.tokens().len();
            if stored as u64 != sum || rows != made {
                return Err(Fault::Damaged("records are missing, or old".to_owned()));
            }
            Ok((directory, accounts))
        })
    }

    pub(super) fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            let mut writer = Writer::new(transaction);
            for change in commit.directory {
                match change {
                    Change::Tenant(tenant) => {
                        writer.put(
                            Table::Tenant,
                            Id::Bytes(&tenant.id.bytes()),
                            None,
                            &**tenant,
                        )?;
                    }
                    Change::Key(key) => {
                        let (id, tenant) = (key.id.bytes(), key.tenant.bytes());
                        let owner = Some(Id::Bytes(&tenant));
                        writer.put(Table::Key, Id::Bytes(&id), owner, &**key)?;
                    }
                    Change::KeyRemoved(id) => {
                        writer.remove(Table::Key, Id::Bytes(&id.bytes()))?;
                    }
                    Change::TenantRemoved(id) => {
                        writer.remove(Table::Tenant, Id::Bytes(&id.bytes()))?;
                    }
                }
            }
            for change in commit.accounts {
                match change {
                    AccountChange::Account(account) => {
                        let id = Id::Text(account.name.as_str());
                        writer.put(Table::Account, id, None, &**account)?;
                    }
                    AccountChange::AccountRemoved(name) => {
                        writer.remove(Table::Account, Id::Text(name.as_str()))?;
                    }
                    AccountChange::Login(login) => {
                        let owner = Some(Id::Text(login.account.as_str()));
                        writer.put(
                            Table::Login,
                            Id::Bytes(login.digest.bytes()),
                            owner,
                            &**login,
                        )?;
                    }
                    AccountChange::LoginEnded(digest) => {
                        writer.remove(Table::Login, Id::Bytes(digest.bytes()))?;
                    }
                    AccountChange::LoginsEnded(name) => {
                        writer.remove_owned(Table::Login, Id::Text(name.as_str()))?;
                    }
                    AccountChange::Token(token) => {
                        writer.put(Table::Token, Id::Text(token.name.as_str()), None, &**token)?;
                    }
                    AccountChange::TokenRemoved(name) => {
                        writer.remove(Table::Token, Id::Text(name.as_str()))?;
                    }
                }
            }
            writer.finish()?;
            let mut entries = commit.entries.iter();
            entries.try_for_each(|entry| audit::add(transaction, entry))
        })
    }

    pub(super) fn audit(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.database
            .read(|connection| audit::page(connection, query))
    }

    pub(super) fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        let bounds = self.audit;
        let is_due = |connection: &Connection| audit::is_expiry_due(connection, now, bounds);
        if !self.database.read(is_due)? {
            return Ok(false);
        }
        self.database
            .write(|transaction| audit::expire(transaction, now, bounds))
    }
}

fn damaged(error: impl std::fmt::Display) -> Fault {
    Fault::Damaged(error.to_string())
}

fn parse<T: DeserializeOwned>(record: &str) -> Result<Arc<T>, Fault> {
    serde_json::from_str(record).map(Arc::new).map_err(damaged)
}

/// Writes records within one transaction, and keeps the checksum of all.
struct Writer<'t> {
    transaction: &'t Transaction<'t>,
    /// Statements of the tables that were written.
    tables: [Option<Statements<'t>>; Table::ALL.len()],
    /// The exclusive or of all checksums that come and go.
    change: u64,
}

struct Statements<'t> {
    has_owner: Option<Statement<'t>>,
    checksum: Statement<'t>,
    put: Statement<'t>,
}

impl<'t> Writer<'t> {
    const fn new(transaction: &'t Transaction<'t>) -> Self {
        Self {
            transaction,
            tables: [const { None }; Table::ALL.len()],
            change: 0,
        }
    }

    fn statements(&mut self, table: Table) -> Result<&mut Statements<'t>, Fault> {
        let statements = &mut self.tables[table as usize];
        if let Some(statements) = statements {
            return Ok(statements);
        }
        let name = table.name();
        let has_owner = match table.owner() {
            Some(owner) => {
                let has = format!("SELECT 1 FROM {} WHERE id = ?1", owner.name());
                Some(self.transaction.prepare(&has)?)
            }
            None => None,
        };
        let checksum = format!("SELECT checksum FROM {name} WHERE id = ?1");
        let put = format!(
            "INSERT INTO {name} (id, owner, record, checksum) VALUES (:id, :owner, :record, :sum)
             ON CONFLICT DO UPDATE SET owner = :owner, record = :record, checksum = :sum"
        );
        Ok(statements.insert(Statements {
            has_owner,
            checksum: self.transaction.prepare(&checksum)?,
            put: self.transaction.prepare(&put)?,
        }))
    }

    /// Writes a record, unless the one that it belongs to is gone.
    fn put(
        &mut self,
        table: Table,
        id: Id<'_>,
        owner: Option<Id<'_>>,
        record: &impl Serialize,
    ) -> Result<(), Fault> {
        let record = serde_json::to_string(record).map_err(damaged)?;
        let statements = self.statements(table)?;
        if let Some(has_owner) = &mut statements.has_owner
            && !has_owner.exists([owner])?
        {
            return Ok(());
        }
        let old = statements
            .checksum
            .query_row([id], |row| row.get::<_, i64>(0));
        let old = old.optional()?.unwrap_or_default() as u64;
        let owner_bytes = owner.as_ref().map_or(&[][..], Id::as_bytes);
        let sum = checksum(table, id.as_bytes(), owner_bytes, &record);
        let put = named_params! {
            ":id": id, ":owner": owner, ":record": record, ":sum": sum as i64
        };
        statements.put.execute(put)?;
        self.change ^= old ^ sum;
        Ok(())
    }

    /// Removes a record, and what belongs to it.
    fn remove(&mut self, table: Table, id: Id<'_>) -> Result<(), Fault> {
        if let Some(owned) = table.owned() {
            self.remove_owned(owned, id)?;
        }
        self.remove_where(table, "id", id)
    }

    /// Removes all records that belong to one.
    fn remove_owned(&mut self, table: Table, owner: Id<'_>) -> Result<(), Fault> {
        self.remove_where(table, "owner", owner)
    }

    fn remove_where(&mut self, table: Table, column: &str, id: Id<'_>) -> Result<(), Fault> {
        let name = table.name();
        let removed = format!("DELETE FROM {name} WHERE {column} = ?1 RETURNING checksum");
        let mut removed = self.transaction.prepare(&removed)?;
        for sum in removed.query_map([id], |row| row.get::<_, i64>(0))? {
            self.change ^= sum? as u64;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Fault> {
        if self.change == 0 {
            return Ok(());
        }
        // SQL has no exclusive or: it is "or" without "and".
        let change = "UPDATE state SET checksum = (checksum | ?1) & ~(checksum & ?1)";
        self.transaction
            .execute(change, params![self.change as i64])?;
        Ok(())
    }
}
