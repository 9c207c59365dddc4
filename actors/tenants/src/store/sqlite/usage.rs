use std::{collections::HashMap, path::Path, time::Duration};

use rusqlite::{Connection, Row, Statement, ToSql, Transaction, named_params, params};

use super::database::{Database, Fault, Schema};
use crate::{
    UnixMillis,
    id::KeyId,
    store::StoreError,
    usage::{Label, Resolution, UsageAnswer, UsageCell, UsageOf, UsageQuery, UsageRow, Used},
};

const SCHEMA: Schema = Schema {
    file: "usage.sqlite",
    content: "the usage so far",
    application_id: 0x6e68_7573,
    migrations: &[include_str!("usage_1.sql")],
    // What a power failure undoes is seconds of usage.
    synchronous: "NORMAL",
    // It is long, and what is wrong in it harms nobody: a query that meets it says so.
    checked: &[],
};

/// Largest size of the file: some 15 million sums, which are 5,000 for each minute of 2 days. If
/// there are more, minutes are kept for less time.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Most labels: methods and outcomes of this and of earlier versions. Others share the last one.
const LABELS_MAX: usize = 4_096;

/// What stands for labels beyond the bound.
const UNNAMED: &str = "other";

/// How long it is kept when a key was last used.
const LAST_USED_KEPT: Duration = Duration::from_secs(400 * 86_400);

/// Sums that one call of [`UsageFile::expire`] removes, or a few more: some 20 ms.
const EXPIRED_SUMS: usize = 5_000;

/// Keys that one call of [`UsageFile::expire`] looks at.
const EXPIRED_KEYS: i64 = 1_000;

/// Largest number that is added at once. The sums of 31 days of it fit.
const ADDED_MAX: u64 = 1 << 40;

/// Most keys of a query that are looked up one by one, which is a page of a list; for more, all
/// sums are read.
const KEYS_SOUGHT_MAX: usize = 512;

/// The columns of the sums, in the order of [`Used::numbers`].
const COLUMNS: [&str; Used::NUMBERS] = [
    "requests",
    "units",
    "bytes_in",
    "bytes_out",
    "sessions",
    "notifications",
    "latency_0",
    "latency_1",
    "latency_2",
    "latency_3",
    "latency_4",
    "latency_5",
    "latency_6",
    "latency_7",
];

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
            let mut adder = Adder::new(transaction, &mut labels)?;
            cells.iter().try_for_each(|cell| adder.add(cell))
        })?;
        self.labels = labels;
        Ok(())
    }

    pub(super) fn answer(&self, query: &UsageQuery) -> Result<UsageAnswer, StoreError> {
        self.database.read(|connection| answer(connection, query))
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

const fn table(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::Minute => "minute",
        Resolution::Hour => "hour",
        Resolution::Day => "day",
    }
}

/// A time as a number of periods.
fn periods(resolution: Resolution, at: UnixMillis) -> i64 {
    let period = u64::try_from(resolution.period().as_millis()).unwrap_or(u64::MAX);
    stored(at.0 / period)
}

fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<KeyId> {
    Ok(row.get::<_, [u8; 8]>(column)?.into())
}

fn millis(row: &Row<'_>, column: usize) -> rusqlite::Result<UnixMillis> {
    Ok(UnixMillis(row.get::<_, i64>(column)?.max(0).unsigned_abs()))
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

/// Adds cells within one transaction.
struct Adder<'t> {
    labels: &'t mut HashMap<Label, i64>,
    put_label: Statement<'t>,
    put_key: Statement<'t>,
    /// By resolution.
    add: Vec<(Resolution, Statement<'t>)>,
}

impl<'t> Adder<'t> {
    fn new(
        transaction: &'t Transaction<'_>,
        labels: &'t mut HashMap<Label, i64>,
    ) -> Result<Self, Fault> {
        let names = COLUMNS.join(", ");
        let values: Vec<_> = (5..5 + COLUMNS.len()).map(|at| format!("?{at}")).collect();
        let values = values.join(", ");
        let sums: Vec<_> = COLUMNS
            .iter()
            .map(|column| format!("{column} = {column} + excluded.{column}"))
            .collect();
        let sums = sums.join(", ");
        let add = Resolution::ALL.map(|resolution| {
            let table = table(resolution);
            let add = transaction.prepare(&format!(
                "INSERT INTO {table} (at, key, method, outcome, {names})
                 VALUES (?1, ?2, ?3, ?4, {values}) ON CONFLICT DO UPDATE SET {sums}"
            ))?;
            Ok::<_, Fault>((resolution, add))
        });
        let put_key = "INSERT INTO key (id, tenant, last_used) VALUES (:id, :tenant, :last)
                       ON CONFLICT DO UPDATE SET tenant = coalesce(:tenant, tenant),
                       last_used = max(:last, last_used) RETURNING number";
        let put_label = "INSERT INTO label (text) VALUES (?1)
                         ON CONFLICT DO UPDATE SET text = text RETURNING number";
        Ok(Self {
            labels,
            put_label: transaction.prepare(put_label)?,
            put_key: transaction.prepare(put_key)?,
            add: add.into_iter().collect::<Result<_, _>>()?,
        })
    }

    fn add(&mut self, cell: &UsageCell) -> Result<(), Fault> {
        let put_key = named_params! {
            ":id": cell.key.bytes(),
            ":tenant": cell.tenant.map(|tenant| tenant.bytes()),
            ":last": stored(cell.last.0),
        };
        let key: i64 = self.put_key.query_row(put_key, |row| row.get(0))?;
        let (method, outcome) = (self.label(&cell.method)?, self.label(&cell.outcome)?);
        let numbers = cell
            .used
            .numbers()
            .map(|number| stored(number.min(ADDED_MAX)));
        for (resolution, add) in &mut self.add {
            let at = periods(*resolution, cell.minute);
            let values = [at, key, method, outcome].into_iter().chain(numbers);
            add.execute(rusqlite::params_from_iter(values))?;
        }
        Ok(())
    }

    fn label(&mut self, label: &Label) -> Result<i64, Fault> {
        if let Some(number) = self.labels.get(label) {
            return Ok(*number);
        }
        let label = match self.labels.len() >= LABELS_MAX {
            true => UNNAMED.into(),
            false => label.clone(),
        };
        let number = self.put_label.query_row([&*label], |row| row.get(0))?;
        self.labels.insert(label, number);
        Ok(number)
    }
}

fn answer(connection: &Connection, query: &UsageQuery) -> Result<UsageAnswer, Fault> {
    let from = periods(query.resolution, query.from);
    let to = periods(query.resolution, query.resolution.end(query.to));
    let most = i64::try_from(query.rows_max).map_or(i64::MAX, |most| most.saturating_add(1));
    let (keys, tenant);
    let mut parameters: Vec<(&str, &dyn ToSql)> =
        vec![(":from", &from), (":to", &to), (":max", &most)];
    match &query.of {
        UsageOf::All => {}
        UsageOf::Tenant(of) => {
            tenant = of.bytes();
            parameters.push((":tenant", &tenant));
        }
        UsageOf::Keys(of) => {
            keys = serde_json::json!(of).to_string();
            parameters.push((":keys", &keys));
        }
    }
    let mut select = connection.prepare(&select(query))?;
    let mut rows = select.query(&*parameters)?;
    let mut answer = UsageAnswer::default();
    while let Some(row) = rows.next()? {
        if answer.rows.len() == query.rows_max {
            answer.is_truncated = true;
            break;
        }
        answer.rows.push(usage_row(row, query.resolution)?);
    }
    Ok(answer)
}

/// The statement that answers a question.
fn select(query: &UsageQuery) -> String {
    let by = query.by;
    let groups = [
        (by.time, "at"),
        (by.key, "key"),
        (by.method, "method"),
        (by.outcome, "outcome"),
    ];
    let group: Vec<_> = groups
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, column)| *column)
        .collect();
    let group = match group.is_empty() {
        true => String::new(),
        false => format!("GROUP BY {}", group.join(", ")),
    };
    let picked = groups.map(|(is, column)| match is {
        true => column.to_owned(),
        false => format!("NULL AS {column}"),
    });
    let picked = picked.join(", ");
    let summed = COLUMNS
        .map(|column| format!("sum({column}) AS {column}"))
        .join(", ");
    let (source, columns) = (source(query), COLUMNS.join(", "));
    format!(
        "SELECT at, key.id, method.text, outcome.text, {columns}
         FROM (SELECT {picked}, {summed} {source} {group}) AS sums
         LEFT JOIN key ON key.number = sums.key
         LEFT JOIN label AS method ON method.number = sums.method
         LEFT JOIN label AS outcome ON outcome.number = sums.outcome
         WHERE requests IS NOT NULL
         ORDER BY at, key.id, method.text, outcome.text LIMIT :max"
    )
}

/// The rows of a table that a question is about.
fn source(query: &UsageQuery) -> String {
    let table = table(query.resolution);
    let in_range = "at >= :from AND at < :to";
    let chosen = "SELECT number FROM key WHERE id IN (SELECT unhex(value) FROM json_each(:keys))";
    match &query.of {
        UsageOf::All => format!("FROM {table} WHERE {in_range}"),
        UsageOf::Tenant(_) => {
            let owned = "SELECT number FROM key WHERE tenant = :tenant";
            format!("FROM {table} WHERE {in_range} AND key IN ({owned})")
        }
        // Each period of each key is looked up. The range is that of what there is.
        UsageOf::Keys(of) if of.len() <= KEYS_SOUGHT_MAX => format!(
            "FROM (SELECT used.* FROM (WITH RECURSIVE period (at) AS (
                 SELECT max(:from, (SELECT min(at) FROM {table}))
                 UNION ALL SELECT at + 1 FROM period
                 WHERE at + 1 < min(:to, 1 + (SELECT max(at) FROM {table}))
             ) SELECT at FROM period WHERE {in_range}) AS period
             CROSS JOIN ({chosen}) AS chosen
             CROSS JOIN {table} AS used
             ON used.at = period.at AND used.key = chosen.number)"
        ),
        UsageOf::Keys(_) => format!("FROM {table} WHERE {in_range} AND key IN ({chosen})"),
    }
}

fn usage_row(row: &Row<'_>, resolution: Resolution) -> Result<UsageRow, Fault> {
    let period = u64::try_from(resolution.period().as_millis()).unwrap_or(u64::MAX);
    let at: Option<i64> = row.get(0)?;
    let key: Option<[u8; 8]> = row.get(1)?;
    let mut numbers = [0; Used::NUMBERS];
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = row.get::<_, i64>(4 + index)?.max(0).unsigned_abs();
    }
    Ok(UsageRow {
        at: at.map(|at| UnixMillis(at.max(0).unsigned_abs().saturating_mul(period))),
        key: key.map(Into::into),
        method: row.get(2)?,
        outcome: row.get(3)?,
        used: Used::from_numbers(numbers),
    })
}
