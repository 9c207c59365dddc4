//! Entries of the audit, sealed with their numbers.

use alloy_primitives::Bytes;
use nearhead_actors::fleet::store::AuditKind;
use nearhead_fleet::{fleet_key::FleetKey, record::Record};
use nearhead_tenants::{
    audit::{AuditEntry, AuditNumber, AuditPage, AuditQuery, Verb},
    store::StoreError,
};

use super::failures::{no_json, too_large};
use crate::metrics::RecordRefusals;

/// Reads of one page: some 60,000 entries. A page of a rare key may have fewer entries than were
/// asked for, and the next one goes on.
const READS_MAX: usize = 1_000;

fn name(number: u64) -> String {
    format!("audit:{number}")
}

fn kind_of(entry: &AuditEntry) -> AuditKind {
    match (entry.verb.is_of_login(), entry.verb.is_refusal()) {
        (true, _) => AuditKind::Logins,
        (_, true) => AuditKind::Refusals,
        _ => AuditKind::Changes,
    }
}

/// An entry as the store has it.
pub(super) fn seal(
    entry: &AuditEntry,
    number: u64,
    key: &FleetKey,
) -> Result<(AuditKind, u64, Bytes), StoreError> {
    let record = Record {
        name: name(number),
        revision: number,
        payload: entry.to_json().map_err(no_json)?.into(),
    };
    let bytes = record.seal(key).map_err(too_large)?;
    Ok((kind_of(entry), number, bytes))
}

/// Entries of one kind that were read and are not used yet, the newest last.
struct Ahead {
    kind: AuditKind,
    entries: Vec<(u64, Bytes)>,
    before: u64,
    is_at_end: bool,
}

/// A page of the audit. `read` gives entries of a kind below a number. What is sealed by nobody of
/// the fleet, or for another number, is left out and counted.
pub(super) fn page(
    query: &AuditQuery,
    read: impl Fn(AuditKind, u64) -> Result<Vec<(u64, Bytes)>, StoreError>,
    key: &FleetKey,
    refusals: &RecordRefusals,
) -> Result<AuditPage, StoreError> {
    let before = query.before.map_or(u64::MAX, |before| before.0);
    let kinds: &[AuditKind] = match query.logins {
        true => &[AuditKind::Logins],
        false => &AuditKind::ALL,
    };
    let mut kinds: Vec<_> = kinds
        .iter()
        .map(|kind| Ahead {
            kind: *kind,
            entries: Vec::new(),
            before,
            is_at_end: false,
        })
        .collect();
    let (mut page, mut reads) = (AuditPage::default(), 0);
    loop {
        for ahead in &mut kinds {
            if ahead.entries.is_empty() && !ahead.is_at_end {
                let below = ahead.before;
                let mut found = read(ahead.kind, below)?;
                // What is not in its order is none of the fleet's.
                found.retain(|(number, _)| *number < below);
                found.sort_by_key(|(number, _)| *number);
                found.dedup_by_key(|(number, _)| *number);
                reads += 1;
                ahead.is_at_end = found.is_empty();
                ahead.before = found.first().map_or(0, |(number, _)| *number);
                ahead.entries = found;
            }
        }
        let newest = kinds
            .iter_mut()
            .max_by_key(|ahead| ahead.entries.last().map(|(number, _)| *number));
        let Some((number, bytes)) = newest.and_then(|ahead| ahead.entries.pop()) else {
            return Ok(page);
        };
        let opened = Record::open(&name(number), &bytes, key);
        let opened = opened.map_err(|error| refusals.count(&error)).ok();
        let entry = opened.and_then(|(record, _)| AuditEntry::from_json(&record.payload));
        let entry = entry.filter(|entry| {
            let is_of_tenant = query.tenant.is_none_or(|id| entry.tenant == Some(id));
            let is_of_key = query.key.is_none_or(|id| entry.key == Some(id));
            is_of_tenant && is_of_key && (!query.logins || entry.verb == Verb::LOGIN)
        });
        let Some(entry) = entry else {
            if reads >= READS_MAX {
                page.next = Some(AuditNumber(number));
                return Ok(page);
            }
            continue;
        };
        if page.entries.len() == query.entries_max {
            page.next = page.entries.last().map(|(number, _)| *number);
            return Ok(page);
        }
        page.entries.push((AuditNumber(number), entry));
    }
}
