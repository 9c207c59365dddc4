//! Answers questions about usage.

use rusqlite::{Connection, Row, ToSql};

use super::columns::{COLUMNS, key, owner_in, periods, table};
use crate::{
    UnixMillis,
    store::sqlite::database::Fault,
    usage::{KeyUse, KeyUseQuery, Resolution, UsageAnswer, UsageOf, UsageQuery, UsageRow, Used},
};

/// Most keys of a query that are looked up one by one, which is a page of a list; for more, all
/// sums are read.
const KEYS_SOUGHT_MAX: usize = 512;

/// What the statements of a question have as parameters.
struct Range {
    from: i64,
    to: i64,
    tenant: Option<[u8; 8]>,
    keys: Option<String>,
}

impl Range {
    fn new(of: &UsageOf, resolution: Resolution, (from, to): (UnixMillis, UnixMillis)) -> Self {
        Self {
            from: periods(resolution, from),
            to: periods(resolution, resolution.end(to)),
            tenant: match of {
                UsageOf::Tenant(tenant) => Some(tenant.bytes()),
                UsageOf::All | UsageOf::Keys(_) | UsageOf::Chains(_) => None,
            },
            keys: match of {
                UsageOf::Keys(keys) | UsageOf::Chains(keys) => {
                    Some(serde_json::json!(keys).to_string())
                }
                UsageOf::All | UsageOf::Tenant(_) => None,
            },
        }
    }

    /// Those that the source of the same question has.
    fn parameters(&self) -> Vec<(&str, &dyn ToSql)> {
        let mut parameters: Vec<(&str, &dyn ToSql)> =
            vec![(":from", &self.from), (":to", &self.to)];
        if let Some(tenant) = &self.tenant {
            parameters.push((":tenant", tenant));
        }
        if let Some(keys) = &self.keys {
            parameters.push((":keys", keys));
        }
        parameters
    }
}

pub(super) fn answer(connection: &Connection, query: &UsageQuery) -> Result<UsageAnswer, Fault> {
    let range = Range::new(&query.of, query.resolution, (query.from, query.to));
    let most = i64::try_from(query.rows_max).map_or(i64::MAX, |most| most.saturating_add(1));
    let mut parameters = range.parameters();
    parameters.push((":max", &most));
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

/// Reads sums in the order in which they are stored, so that nothing is sorted and kept for it.
pub(super) fn key_use(
    connection: &Connection,
    query: &KeyUseQuery,
    ok: i64,
    each: &mut dyn FnMut(KeyUse),
) -> Result<(), Fault> {
    let range = Range::new(&query.of, query.resolution, (query.from, query.to));
    let source = source(&query.of, query.resolution);
    let mut select = connection.prepare(&format!(
        "SELECT key.id, key.tenant, key.chain, sums.outcome, sums.requests, sums.units
         FROM (SELECT key, outcome, requests, units {source}) AS sums
         CROSS JOIN key ON key.number = sums.key"
    ))?;
    let mut rows = select.query(&*range.parameters())?;
    while let Some(row) = rows.next()? {
        let number =
            |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.max(0).unsigned_abs());
        let used = Used {
            requests: number(4)?,
            units: number(5)?,
            ..Used::default()
        };
        each(KeyUse::new(
            key(row, 0)?,
            owner_in(row, 1)?,
            row.get::<_, i64>(3)? == ok,
            &used,
        ));
    }
    Ok(())
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
    let source = source(&query.of, query.resolution);
    let columns = COLUMNS.join(", ");
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
fn source(of: &UsageOf, resolution: Resolution) -> String {
    let table = table(resolution);
    let in_range = "at >= :from AND at < :to";
    let chosen = "SELECT number FROM key WHERE id IN (SELECT unhex(value) FROM json_each(:keys))";
    match of {
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
        UsageOf::Chains(_) => {
            let rotated =
                "SELECT number FROM key WHERE chain IN (SELECT unhex(value) FROM json_each(:keys))";
            format!("FROM {table} WHERE {in_range} AND key IN ({chosen} UNION {rotated})")
        }
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
