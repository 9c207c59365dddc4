use std::{
    cmp::Ordering,
    collections::{HashMap, hash_map::Entry},
};

use serde::{Deserialize, Serialize};

use super::ConfiguredEntry;
use crate::{
    UnixMillis,
    command::Change,
    directory::Directory,
    id::{KeyId, TenantId},
    record::{KeyRecord, KeyState},
};

/// By what keys are sorted. Keys that are equal in it are sorted by name and id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeySort {
    /// Their name.
    #[default]
    Name,
    /// Their tenant's name.
    Tenant,
    /// When they were made.
    Created,
    /// When they were last used.
    LastUsed,
    /// Requests of the last 24 hours, as of a minute ago at most.
    #[serde(rename = "requests24h")]
    Requests24h,
}

/// Between the two names of a row. No name has it.
const SEPARATOR: char = '\n';

/// All keys in one table: what they are found and sorted by, side by side, so that one pass over
/// 100,000 of them takes a millisecond or two.
#[derive(Debug, Default)]
pub(super) struct KeyRows {
    rows: Vec<KeyRow>,
    places: HashMap<KeyId, u32>,
    #[cfg(test)]
    pub(super) comparisons: std::cell::Cell<u64>,
}

/// One key.
#[derive(Debug)]
struct KeyRow {
    id: KeyId,
    tenant: TenantId,
    /// The name and the tenant's name in lower case.
    names: Box<str>,
    /// The first bytes of the name, by which most names can be compared.
    name_start: u64,
    created: UnixMillis,
    /// The latest time that there is, if it does not end.
    expires: UnixMillis,
    /// The time 0 if it was never used.
    last_used: UnixMillis,
    prefix: [u8; 6],
    is_revoked: bool,
}

/// Which keys are asked for.
#[derive(Debug)]
pub(super) struct RowQuery<'a> {
    pub(super) tenant: Option<TenantId>,
    /// In lower case, and as it was given.
    pub(super) search: Option<(&'a str, &'a str)>,
    pub(super) state: Option<KeyState>,
    pub(super) sort: KeySort,
    pub(super) descending: bool,
    pub(super) offset: usize,
    pub(super) limit: usize,
    pub(super) now: UnixMillis,
}

impl KeyRow {
    fn new(key: &KeyRecord, tenant: &str, last_used: Option<UnixMillis>) -> Self {
        let row = Self {
            id: key.id,
            tenant: key.tenant,
            names: Box::default(),
            name_start: 0,
            created: key.created,
            expires: key.expires.unwrap_or(UnixMillis(u64::MAX)),
            last_used: last_used.unwrap_or_default(),
            prefix: prefix(key.prefix.as_str()),
            is_revoked: key.revoked.is_some(),
        };
        row.named(key.name.as_str(), tenant)
    }

    fn named(self, name: &str, tenant: &str) -> Self {
        let name = name.to_lowercase();
        let mut start = [0; 8];
        let length = name.len().min(start.len());
        start[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self {
            names: names(&name, tenant),
            name_start: u64::from_be_bytes(start),
            ..self
        }
    }

    /// The name and the tenant's name.
    fn names(&self) -> (&str, &str) {
        self.names
            .split_once(SEPARATOR)
            .unwrap_or((&self.names, ""))
    }

    fn state(&self, now: UnixMillis) -> KeyState {
        if self.is_revoked {
            KeyState::Revoked
        } else if self.expires <= now {
            KeyState::Expired
        } else {
            KeyState::Active
        }
    }

    fn fits(&self, query: &RowQuery<'_>, id: Option<IdStart>) -> bool {
        query.tenant.is_none_or(|tenant| self.tenant == tenant)
            && query
                .state
                .is_none_or(|state| self.state(query.now) == state)
            && query.search.is_none_or(|(lower, given)| {
                let shown = self.prefix.split(|byte| *byte == 0).next();
                self.names.contains(lower)
                    || shown.is_some_and(|shown| shown.starts_with(given.as_bytes()))
                    || id.is_some_and(|start| start.begins(self.id))
            })
    }
}

/// The first digits of an id.
#[derive(Clone, Copy, Debug)]
struct IdStart {
    bits: u64,
    mask: u64,
}

impl IdStart {
    /// Fewer digits are a search for a name, and many ids begin with them.
    const DIGITS_MIN: usize = 4;

    fn of(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let has_length = (Self::DIGITS_MIN..=16).contains(&text.len());
        if !has_length || !text.bytes().all(is_digit) {
            return None;
        }
        let shift = 64 - 4 * text.len();
        Some(Self {
            bits: u64::from_str_radix(text, 16).ok()? << shift,
            mask: u64::MAX << shift,
        })
    }

    fn begins(self, id: KeyId) -> bool {
        u64::from_be_bytes(id.bytes()) & self.mask == self.bits
    }
}

/// The names of a row; that of the key is in lower case already.
fn names(name: &str, tenant: &str) -> Box<str> {
    format!("{name}{SEPARATOR}{}", tenant.to_lowercase()).into()
}

/// The first characters of a key. Those of a key that was made here are 6 bytes.
fn prefix(text: &str) -> [u8; 6] {
    let mut prefix = [0; 6];
    let length = text.len().min(prefix.len());
    prefix[..length].copy_from_slice(&text.as_bytes()[..length]);
    prefix
}

impl KeyRows {
    fn add(&mut self, row: KeyRow) {
        // There are fewer keys than that.
        let place = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        match self.places.entry(row.id) {
            Entry::Occupied(known) => {
                if let Some(before) = self.rows.get_mut(*known.get() as usize) {
                    *before = row;
                }
            }
            Entry::Vacant(new) => {
                new.insert(place);
                self.rows.push(row);
            }
        }
    }

    /// The last row takes the place of the one that goes: their order means nothing.
    fn remove(&mut self, id: KeyId) {
        let Some(place) = self.places.remove(&id) else {
            return;
        };
        self.rows.swap_remove(place as usize);
        if let Some(moved) = self.rows.get(place as usize) {
            self.places.insert(moved.id, place);
        }
    }

    /// Follows a change of the directory, which is not made there yet.
    pub(super) fn change(&mut self, change: &Change, directory: &Directory) {
        match change {
            Change::Tenant(tenant) => {
                let is_renamed = directory
                    .tenant(tenant.id)
                    .is_some_and(|before| before.name != tenant.name);
                if is_renamed {
                    let own = self.rows.iter_mut().filter(|row| row.tenant == tenant.id);
                    for row in own {
                        let name = row.names().0.to_owned();
                        row.names = names(&name, tenant.name.as_str());
                    }
                }
            }
            Change::Key(key) => {
                let tenant = directory.tenant(key.tenant);
                let tenant = tenant.map_or("", |tenant| tenant.name.as_str());
                let known = self.places.get(&key.id);
                let known = known.and_then(|place| self.rows.get(*place as usize));
                let last_used = known.map(|row| row.last_used);
                self.add(KeyRow::new(key, tenant, last_used));
            }
            Change::KeyRemoved(id) => self.remove(*id),
            Change::TenantRemoved(id) => {
                self.rows.retain(|row| row.tenant != *id);
                let places = self.rows.iter().zip(0..);
                self.places = places.map(|(row, place)| (row.id, place)).collect();
            }
        }
    }

    pub(super) fn mark_used(&mut self, key: KeyId, at: UnixMillis) {
        let place = self.places.get(&key);
        if let Some(row) = place.and_then(|place| self.rows.get_mut(*place as usize)) {
            row.last_used = at;
        }
    }

    /// The keys of a page, and how many there are on all pages. `requests` has those of the last
    /// 24 hours.
    pub(super) fn page(
        &self,
        query: &RowQuery<'_>,
        requests: impl Fn(KeyId) -> u64,
    ) -> (Vec<KeyId>, usize) {
        let id = query.search.and_then(|(_, given)| IdStart::of(given));
        let found = self.rows.iter().filter(|row| row.fits(query, id));
        // The number first: it is next to its row in memory, and seldom the same.
        let number = |row: &KeyRow| match query.sort {
            KeySort::Name => row.name_start,
            KeySort::Tenant => 0,
            KeySort::Created => row.created.0,
            KeySort::LastUsed => row.last_used.0,
            KeySort::Requests24h => requests(row.id),
        };
        let mut found: Vec<_> = found.map(|row| (number(row), row)).collect();
        let total = found.len();
        let by_tenant = query.sort == KeySort::Tenant;
        let compare = |one: &(u64, &KeyRow), other: &(u64, &KeyRow)| {
            #[cfg(test)]
            self.comparisons.update(|comparisons| comparisons + 1);
            let ordering = one
                .0
                .cmp(&other.0)
                .then_with(|| compare(one.1, other.1, by_tenant));
            match query.descending {
                true => ordering.reverse(),
                false => ordering,
            }
        };
        // Only the page is sorted.
        let end = query.offset.saturating_add(query.limit);
        if query.offset >= total {
            return (Vec::new(), total);
        }
        if end < total {
            found.select_nth_unstable_by(end, compare);
            found.truncate(end);
        }
        if query.offset > 0 {
            found.select_nth_unstable_by(query.offset, compare);
            found.drain(..query.offset);
        }
        found.sort_unstable_by(compare);
        (found.into_iter().map(|(_, row)| row.id).collect(), total)
    }
}

fn compare(one: &KeyRow, other: &KeyRow, by_tenant: bool) -> Ordering {
    let (names, others) = (one.names(), other.names());
    let tenants = match by_tenant {
        true => names.1.cmp(others.1),
        false => Ordering::Equal,
    };
    tenants
        .then_with(|| names.0.cmp(others.0))
        .then_with(|| one.id.cmp(&other.id))
}

impl KeyRows {
    /// Nothing yet, with room for this many keys.
    pub(super) fn with_capacity(keys: usize) -> Self {
        let mut rows = Self::default();
        rows.rows.reserve(keys);
        rows.places.reserve(keys);
        rows
    }

    /// Adds a key that is stored.
    pub(super) fn add_stored(
        &mut self,
        key: &KeyRecord,
        tenant: &str,
        last_used: Option<UnixMillis>,
    ) {
        self.add(KeyRow::new(key, tenant, last_used));
    }

    /// Adds a key that the configuration names.
    pub(super) fn add_configured(
        &mut self,
        entry: &ConfiguredEntry,
        tenant: TenantId,
        last_used: Option<UnixMillis>,
    ) {
        let name = entry.tenant.as_str();
        let row = KeyRow {
            id: entry.id,
            tenant,
            names: Box::default(),
            name_start: 0,
            created: UnixMillis(0),
            expires: UnixMillis(u64::MAX),
            last_used: last_used.unwrap_or_default(),
            prefix: prefix(entry.prefix.as_str()),
            is_revoked: false,
        };
        self.add(row.named(name, name));
    }
}
