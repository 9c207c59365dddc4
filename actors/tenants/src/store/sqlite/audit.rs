//! The audit: a table beside the records, so that a change and its entry are one transaction.

use std::fmt::Display;

use rusqlite::{
    Connection, OptionalExtension as _, Row, Transaction, named_params, params, types::FromSql,
};

use super::database::Fault;
use crate::{
    UnixMillis,
    audit::{
        AUDIT_ENTRIES_MAX, AUDIT_KEPT, AUDIT_LOGINS_MAX, AUDIT_REFUSALS_MAX, AuditEntry,
        AuditNumber, AuditPage, AuditQuery, Author, Detail,
    },
    name::Name,
};

/// Most entries of a kind that one call removes: some milliseconds.
const EXPIRED_MAX: i64 = 1_000;

pub(super) fn add(transaction: &Transaction<'_>, entry: &AuditEntry) -> Result<(), Fault> {
    let (author, author_name) = match &entry.author {
        Author::Account(name) => ("account", Some(name.as_str())),
        Author::Token(name) => ("token", Some(name.as_str())),
        Author::CommandLine => ("command line", None),
        Author::Configuration => ("configuration", None),
        Author::Service => ("service", None),
        Author::Unknown => ("unknown", None),
    };
    let add = "INSERT INTO audit (at, author, author_name, address, verb, tenant, key, detail)
               VALUES (:at, :author, :author_name, :address, :verb, :tenant, :key, :detail)";
    transaction.execute(
        add,
        named_params! {
            ":at": i64::try_from(entry.at.0).unwrap_or(i64::MAX),
            ":author": author,
            ":author_name": author_name,
            ":address": entry.from.map(|address| address.to_string()),
            ":verb": entry.verb.as_str(),
            ":tenant": entry.tenant.map(crate::id::TenantId::bytes),
            ":key": entry.key.map(crate::id::KeyId::bytes),
            ":detail": entry.detail.as_str(),
        },
    )?;
    Ok(())
}

pub(super) fn page(connection: &Connection, query: &AuditQuery) -> Result<AuditPage, Fault> {
    // A condition that is not asked for is left out, so that an index serves the others.
    let of_tenant = query.tenant.map_or("", |_| "AND tenant = :tenant");
    let of_key = query.key.map_or("", |_| "AND key = :key");
    let (index, of_logins) = match query.logins {
        // The condition of the index is in the question, or it could not be used.
        true => {
            let Kind { index, condition } = LOGINS;
            (
                format!("INDEXED BY {index}"),
                format!("AND {condition} AND verb = 'login'"),
            )
        }
        false => (String::new(), String::new()),
    };
    let select = format!(
        "SELECT number, at, author, author_name, address, verb, tenant, key, detail
         FROM audit {index} WHERE number < :before {of_tenant} {of_key} {of_logins}
         ORDER BY number DESC LIMIT :max"
    );
    let mut select = connection.prepare(&select)?;
    let before = query.before.map_or(i64::MAX, |before| {
        i64::try_from(before.0).unwrap_or(i64::MAX)
    });
    // One more than asked for says whether there is another page.
    let most = i64::try_from(query.entries_max).map_or(i64::MAX, |most| most.saturating_add(1));
    let (tenant, key) = (
        query.tenant.map(|id| id.bytes()),
        query.key.map(|id| id.bytes()),
    );
    let mut parameters: Vec<(&str, &dyn rusqlite::ToSql)> =
        vec![(":before", &before), (":max", &most)];
    if let Some(tenant) = &tenant {
        parameters.push((":tenant", tenant));
    }
    if let Some(key) = &key {
        parameters.push((":key", key));
    }
    let mut rows = select.query(&*parameters)?;
    let mut page = AuditPage::default();
    while let Some(row) = rows.next()? {
        if page.entries.len() == query.entries_max {
            page.next = page.entries.last().map(|(number, _)| *number);
            break;
        }
        page.entries.push(entry(row)?);
    }
    Ok(page)
}

fn entry(row: &Row<'_>) -> Result<(AuditNumber, AuditEntry), Fault> {
    let name = || -> Result<Name, Fault> { parsed(&get::<String>(row, "author_name")?) };
    let author: String = get(row, "author")?;
    let author = match author.as_str() {
        "account" => Author::Account(name()?),
        "token" => Author::Token(name()?),
        "command line" => Author::CommandLine,
        "configuration" => Author::Configuration,
        "service" => Author::Service,
        "unknown" => Author::Unknown,
        _ => {
            return Err(Fault::Damaged(format!(
                "the audit has an author {author:?}"
            )));
        }
    };
    let address: Option<String> = get(row, "address")?;
    let detail: String = get(row, "detail")?;
    let detail = Detail::stored(&detail);
    let entry = AuditEntry {
        at: UnixMillis(get::<i64>(row, "at")?.unsigned_abs()),
        author,
        from: address.as_deref().map(parsed).transpose()?,
        verb: parsed(&get::<String>(row, "verb")?)?,
        tenant: get::<Option<[u8; 8]>>(row, "tenant")?.map(Into::into),
        key: get::<Option<[u8; 8]>>(row, "key")?.map(Into::into),
        detail: detail.ok_or_else(|| Fault::Damaged("the audit has no JSON".to_owned()))?,
    };
    Ok((
        AuditNumber(get::<i64>(row, "number")?.unsigned_abs()),
        entry,
    ))
}

fn get<T: FromSql>(row: &Row<'_>, column: &str) -> Result<T, Fault> {
    row.get(column).map_err(Fault::Sql)
}

fn parsed<T: std::str::FromStr<Err: Display>>(text: &str) -> Result<T, Fault> {
    text.parse()
        .map_err(|error: T::Err| Fault::Damaged(error.to_string()))
}

/// Most entries that are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct AuditBounds {
    pub(super) changes: u64,
    pub(super) logins: u64,
    pub(super) refusals: u64,
}

impl Default for AuditBounds {
    fn default() -> Self {
        Self {
            changes: AUDIT_ENTRIES_MAX,
            logins: AUDIT_LOGINS_MAX,
            refusals: AUDIT_REFUSALS_MAX,
        }
    }
}

/// Entries that are bounded together.
#[derive(Clone, Copy)]
struct Kind {
    index: &'static str,
    /// The condition of the index: that of [`Verb::is_of_login`] or
    /// [`Verb::is_refusal`], or of neither.
    condition: &'static str,
}

const CHANGES: Kind = Kind {
    index: "audit_change",
    condition: "verb NOT IN ('login', 'login.refused', 'logout')",
};

const LOGINS: Kind = Kind {
    index: "audit_login",
    condition: "verb IN ('login', 'logout')",
};

const REFUSALS: Kind = Kind {
    index: "audit_refusal",
    condition: "verb = 'login.refused'",
};

impl Kind {
    /// The number of the entry that has `skipped` older ones, or newer ones.
    fn number(
        self,
        connection: &Connection,
        order: &str,
        skipped: i64,
    ) -> Result<Option<i64>, Fault> {
        let Self { index, condition } = self;
        let select = format!(
            "SELECT number FROM audit INDEXED BY {index} WHERE {condition}
             ORDER BY number {order} LIMIT 1 OFFSET ?1"
        );
        let number = connection.query_row(&select, [skipped], |row| row.get(0));
        Ok(number.optional()?)
    }

    /// Entries up to this number are too many.
    fn too_many(self, connection: &Connection, most: u64) -> Result<Option<i64>, Fault> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let first = self.number(connection, "ASC", 0)?;
        let last = self.number(connection, "DESC", 0)?;
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(None);
        };
        // To count them takes long, so that is done only if there may be too many.
        if last - first < most {
            return Ok(None);
        }
        let Some(beyond) = self.number(connection, "DESC", most)? else {
            return Ok(None);
        };
        let bounded = self.number(connection, "ASC", EXPIRED_MAX - 1)?;
        Ok(Some(bounded.map_or(beyond, |bounded| bounded.min(beyond))))
    }
}

/// Entries up to this number are too old.
fn too_old(connection: &Connection, now: UnixMillis) -> Result<Option<i64>, Fault> {
    let first = "SELECT min(number) FROM audit";
    let first: Option<i64> = connection.query_row(first, [], |row| row.get(0))?;
    let Some(first) = first else {
        return Ok(None);
    };
    // From the first on, those that are too old; the clock may have been set back between two.
    let oldest = now.0.saturating_sub(AUDIT_KEPT.as_millis() as u64);
    let kept = "SELECT min(number) FROM audit WHERE number < ?1 AND at >= ?2";
    let end = first.saturating_add(EXPIRED_MAX);
    let oldest = i64::try_from(oldest).unwrap_or(i64::MAX);
    let kept: Option<i64> = connection.query_row(kept, params![end, oldest], |row| row.get(0))?;
    let up_to = kept.map_or(end - 1, |kept| kept - 1);
    Ok((up_to >= first).then_some(up_to))
}

pub(super) fn is_expiry_due(
    connection: &Connection,
    now: UnixMillis,
    bounds: AuditBounds,
) -> Result<bool, Fault> {
    Ok(too_old(connection, now)?.is_some()
        || CHANGES.too_many(connection, bounds.changes)?.is_some()
        || LOGINS.too_many(connection, bounds.logins)?.is_some()
        || REFUSALS.too_many(connection, bounds.refusals)?.is_some())
}

/// Removes some of the oldest entries; whether there are more to remove.
pub(super) fn expire(
    transaction: &Transaction<'_>,
    now: UnixMillis,
    bounds: AuditBounds,
) -> Result<bool, Fault> {
    if let Some(up_to) = too_old(transaction, now)? {
        transaction.execute("DELETE FROM audit WHERE number <= ?1", [up_to])?;
    }
    for (kind, most) in [
        (CHANGES, bounds.changes),
        (LOGINS, bounds.logins),
        (REFUSALS, bounds.refusals),
    ] {
        if let Some(up_to) = kind.too_many(transaction, most)? {
            let condition = kind.condition;
            let delete = format!("DELETE FROM audit WHERE number <= ?1 AND {condition}");
            transaction.execute(&delete, [up_to])?;
        }
    }
    is_expiry_due(transaction, now, bounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Verb;

    #[test]
    fn the_indexes_have_the_verbs_of_logins() {
        let list = |is_one: fn(&Verb) -> bool| {
            let verbs = Verb::ALL.iter().filter(|verb| is_one(verb));
            let verbs: Vec<_> = verbs.map(|verb| format!("'{verb}'")).collect();
            verbs.join(", ")
        };
        let verbs = list(Verb::is_of_login);
        assert_eq!(LOGINS.condition, format!("verb IN ({verbs})"));
        let verbs = list(Verb::is_refusal);
        assert_eq!(REFUSALS.condition, format!("verb = {verbs}"));
        let verbs = list(|verb| verb.is_of_login() || verb.is_refusal());
        assert_eq!(CHANGES.condition, format!("verb NOT IN ({verbs})"));
    }
}
