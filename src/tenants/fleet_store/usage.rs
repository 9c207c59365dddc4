//! What keys used, over all processes of the fleet.
//!
//! A process writes its own sums under its own name (`nearhead_fleet::usage` says why), and reads
//! those of all when somebody asks. What was counted is taken at once, and written if the store
//! answers; else it waits here, bounded, and when there is no room, with whoever counts.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::{Instant, SystemTime},
};

use nearhead_actors::fleet::store::FleetRecords;
use nearhead_fleet::{
    bounds::{
        USAGE_AHEAD_MAX, USAGE_COARSE_EVERY, USAGE_PAGES_MAX, USAGE_TIME_MAX, USAGE_WRITE_BYTES,
    },
    fleet_key::FleetKey,
    usage::{OwnUsage, SealedPart, UsageCell as FleetCell, UsageOwner, UsagePart, UsagePeriod},
};
use nearhead_tenants::{
    UnixMillis,
    id::KeyId,
    store::StoreError,
    usage::{
        KeyOwner, KeyUse, KeyUseQuery, OK_LABEL, Resolution, UsageAnswer, UsageCell, UsageGroups,
        UsageOf, UsageQuery, Used,
    },
};

use super::failures::away;
use crate::metrics::RecordRefusals;

/// How far back minutes are read for what other processes used. A process that was away for longer
/// reads when all keys were last used.
const LOOK_BACK_MILLIS: u64 = 60 * 60 * 1_000;

/// Usage of a fleet.
pub(super) struct FleetUsage {
    records: FleetRecords,
    key: FleetKey,
    refusals: RecordRefusals,
    own: OwnUsage,
    /// When hours and days were last written.
    coarse_written: Instant,
    /// When it was last looked for what others used.
    looked: UnixMillis,
    /// Kinds of periods of which it was logged that there is no room for all.
    without_room: BTreeSet<UsagePeriod>,
}

const fn period(resolution: Resolution) -> UsagePeriod {
    match resolution {
        Resolution::Minute => UsagePeriod::Minute,
        Resolution::Hour => UsagePeriod::Hour,
        Resolution::Day => UsagePeriod::Day,
    }
}

fn fleet_cell(cell: &UsageCell) -> FleetCell {
    FleetCell {
        key: cell.key.bytes(),
        owner: cell.owner.map(|owner| UsageOwner {
            tenant: owner.tenant.bytes(),
            chain: owner.chain.map(KeyId::bytes),
        }),
        method: cell.method.clone(),
        outcome: cell.outcome.clone(),
        last: cell.last.0,
        numbers: cell.used.numbers(),
    }
}

fn owner_of(cell: &FleetCell) -> Option<KeyOwner> {
    cell.owner.map(|owner| KeyOwner {
        tenant: owner.tenant.into(),
        chain: owner.chain.map(KeyId::from),
    })
}

/// Whether a question is about a key.
fn is_of(of: &UsageOf, keys: &HashSet<KeyId>, key: KeyId, owner: Option<KeyOwner>) -> bool {
    match of {
        UsageOf::All => true,
        UsageOf::Tenant(tenant) => owner.is_some_and(|owner| owner.tenant == *tenant),
        UsageOf::Keys(_) => keys.contains(&key),
        UsageOf::Chains(_) => {
            let chain = owner.and_then(|owner| owner.chain);
            keys.contains(&chain.unwrap_or(key))
        }
    }
}

fn keys_of(of: &UsageOf) -> HashSet<KeyId> {
    match of {
        UsageOf::All | UsageOf::Tenant(_) => HashSet::new(),
        UsageOf::Keys(keys) | UsageOf::Chains(keys) => keys.iter().copied().collect(),
    }
}

impl FleetUsage {
    /// Usage of a process with this name, which no process had before.
    pub(super) fn new(
        records: FleetRecords,
        key: FleetKey,
        refusals: RecordRefusals,
        process: String,
    ) -> Self {
        Self {
            records,
            key,
            refusals,
            own: OwnUsage::new(process),
            coarse_written: Instant::now(),
            looked: UnixMillis(0),
            without_room: BTreeSet::new(),
        }
    }

    /// Takes what was counted, and writes it unless the store is known to be away. What is taken
    /// is not lost if it cannot be written: it is written later.
    pub(super) fn add(&mut self, cells: &[UsageCell], is_away: bool) -> Result<(), StoreError> {
        // What was just counted is of now. A clock that was ahead of it once does not matter.
        let now = UnixMillis::from(SystemTime::now());
        let latest = cells.iter().map(|cell| cell.last).max();
        let now = latest.map_or(now, |latest| latest.min(now));
        if !self.own.has_room(cells.len()) {
            self.write(false, now)?;
            self.own.forget_minutes();
        }
        if !self.own.has_room(cells.len()) {
            self.write(true, now)?;
            self.own.forget_excess();
        }
        if !self.own.has_room(cells.len()) {
            return Err(StoreError::Away {
                reason: "there is no room for usage until it is written".to_owned(),
            });
        }
        for cell in cells {
            self.own.add(cell.minute.0, &fleet_cell(cell));
        }
        let is_due = self.coarse_written.elapsed() >= USAGE_COARSE_EVERY;
        if !is_away && let Err(error) = self.write(is_due, now) {
            tracing::debug!(%error, "usage is written later");
        }
        self.own.forget_ended(now.0);
        Ok(())
    }

    /// Writes what is not written yet: minutes, and all of it if it is little or `with_coarse`.
    fn write(&mut self, with_coarse: bool, now: UnixMillis) -> Result<(), StoreError> {
        let parts = self.own.unwritten(with_coarse, &self.key);
        let mut rest = parts.as_slice();
        while !rest.is_empty() {
            let (batch, others) = rest.split_at(batch_len(rest));
            self.put(batch, now)?;
            self.own.written(batch);
            rest = others;
        }
        if self.own.is_written() {
            self.coarse_written = Instant::now();
        }
        Ok(())
    }

    /// Writes parts. Says whether there is more to remove that is no longer kept.
    fn put(&mut self, parts: &[SealedPart], now: UnixMillis) -> Result<bool, StoreError> {
        let put = self.records.put_usage(parts, now.0).map_err(away)?;
        for (period, parts) in put.without_room {
            if self.without_room.insert(period) {
                let period = period.name();
                tracing::warn!(
                    period,
                    parts,
                    "the oldest usage is removed from the fleet's store, which has no room for \
                     more"
                );
            }
        }
        Ok(put.is_more)
    }

    /// Writes what is not written yet, and removes some of what is no longer kept.
    pub(super) fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        self.write(true, now)?;
        self.own.forget_ended(now.0);
        self.put(&[], now)
    }

    /// Calls `each` for every cell of the periods that begin in a range, with when they begin. What
    /// nobody of the fleet has sealed is left out and counted.
    fn cells(
        &self,
        period: UsagePeriod,
        (from, to): (u64, u64),
        mut each: impl FnMut(u64, &FleetCell),
    ) -> Result<(), StoreError> {
        for (start, cell) in self.own.cells(period, from, to) {
            each(start, cell);
        }
        let to = to.min(UnixMillis::from(SystemTime::now()).after(USAGE_AHEAD_MAX).0);
        let (begun, mut next, mut seen) = (Instant::now(), None, HashSet::new());
        for _ in 0..USAGE_PAGES_MAX {
            let page = self.records.read_usage(period, (from, to), next.as_ref());
            let page = page.map_err(away)?;
            for (name, bytes) in page.parts {
                let part = match UsagePart::open(&name, &bytes, &self.key) {
                    Ok(part) => part,
                    // It was removed just now.
                    Err(_) if bytes.is_empty() => continue,
                    Err(error) => {
                        self.refusals.count(&error);
                        continue;
                    }
                };
                let is_asked_for = part.period == period && (from..to).contains(&part.start);
                if is_asked_for && !self.own.holds(&part) && seen.insert(name) {
                    part.cells.iter().for_each(|cell| each(part.start, cell));
                }
            }
            next = page.next;
            if next.is_none() {
                return Ok(());
            }
            if begun.elapsed() >= USAGE_TIME_MAX {
                break;
            }
        }
        Err(StoreError::Away {
            reason: "the fleet's store has more usage than is read at once: ask for less time"
                .to_owned(),
        })
    }

    pub(super) fn usage(&self, query: &UsageQuery) -> Result<UsageAnswer, StoreError> {
        let keys = keys_of(&query.of);
        let mut groups = UsageGroups::new(query.rows_max);
        let range = (query.resolution.start(query.from).0, query.to.0);
        self.cells(period(query.resolution), range, |start, cell| {
            let key = KeyId::from(cell.key);
            if is_of(&query.of, &keys, key, owner_of(cell)) {
                let group = query
                    .by
                    .group(UnixMillis(start), key, &cell.method, &cell.outcome);
                groups.add(group, &Used::from_numbers(cell.numbers));
            }
        })?;
        Ok(groups.into_answer())
    }

    pub(super) fn key_use(
        &self,
        query: &KeyUseQuery,
        each: &mut dyn FnMut(KeyUse),
    ) -> Result<(), StoreError> {
        let keys = keys_of(&query.of);
        let range = (query.resolution.start(query.from).0, query.to.0);
        self.cells(period(query.resolution), range, |_, cell| {
            let (key, owner) = (KeyId::from(cell.key), owner_of(cell));
            if is_of(&query.of, &keys, key, owner) {
                let used = Used::from_numbers(cell.numbers);
                each(KeyUse::new(key, owner, *cell.outcome == *OK_LABEL, &used));
            }
        })
    }

    /// When keys were last used.
    pub(super) fn last_used(&self) -> Result<HashMap<KeyId, UnixMillis>, StoreError> {
        let mut last_used = HashMap::new();
        self.cells(UsagePeriod::LastUse, (0, u64::MAX), |_, cell| {
            mark(&mut last_used, cell);
        })?;
        Ok(last_used)
    }

    /// When keys were last used, of those that were used since the last call.
    pub(super) fn used_lately(
        &mut self,
        now: UnixMillis,
    ) -> Result<HashMap<KeyId, UnixMillis>, StoreError> {
        let mut used = HashMap::new();
        if now.0 < self.looked.0 || now.0 - self.looked.0 > LOOK_BACK_MILLIS {
            used = self.last_used()?;
        } else {
            // What is written late is of a minute before.
            let minute = UsagePeriod::Minute;
            let from = minute.start(self.looked.0.saturating_sub(2 * minute.millis()));
            self.cells(minute, (from, u64::MAX), |_, cell| mark(&mut used, cell))?;
        }
        self.looked = now;
        Ok(used)
    }
}

fn mark(last_used: &mut HashMap<KeyId, UnixMillis>, cell: &FleetCell) {
    let last = last_used.entry(cell.key.into()).or_default();
    *last = UnixMillis(cell.last).max(*last);
}

/// How many of these parts are written at once: at least one.
fn batch_len(parts: &[SealedPart]) -> usize {
    let mut bytes = 0;
    let fit = parts.iter().take_while(|part| {
        bytes += part.bytes.len();
        bytes <= USAGE_WRITE_BYTES
    });
    fit.count().clamp(1, parts.len().max(1))
}

impl Drop for FleetUsage {
    /// Writes what is not written yet. The calls are bounded in time, and the first one that fails
    /// is the last.
    fn drop(&mut self) {
        if !self.own.is_written()
            && let Err(error) = self.write(true, SystemTime::now().into())
        {
            tracing::warn!(%error, "the last usage is not written");
        }
    }
}
