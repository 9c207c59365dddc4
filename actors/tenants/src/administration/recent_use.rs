use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    UnixMillis,
    id::KeyId,
    usage::{KeyUse, OK_LABEL, Resolution, UsageCell},
};

const HOUR: Resolution = Resolution::Hour;

/// What a key used in the last 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Last24h {
    /// Requests.
    pub requests: u64,
    /// Those that were not answered with a result.
    pub errors: u64,
    /// Units.
    pub units: u64,
}

impl Last24h {
    pub(super) fn add(&mut self, used: &KeyUse) {
        self.requests = self.requests.saturating_add(used.requests);
        self.errors = self.errors.saturating_add(used.errors);
        self.units = self.units.saturating_add(used.units);
    }
}

/// What all keys used in the last 24 hours. To read this takes seconds if there is much usage, so
/// that it is read an hour at a time while others have their turn, and then follows what is added.
/// It is read again when an hour is over.
#[derive(Debug, Default)]
pub(super) struct RecentUse {
    whole: Option<Sums>,
    /// What takes its place when it is whole.
    partial: Option<Sums>,
}

/// The sums of hours.
#[derive(Debug)]
struct Sums {
    /// The first hour.
    from: UnixMillis,
    /// Hours that begin here or later are not in them yet. The end of time if they are whole.
    to: UnixMillis,
    used: HashMap<KeyId, Last24h>,
}

/// The hour in which the last 24 hours begin.
fn first_hour(now: UnixMillis) -> UnixMillis {
    HOUR.start(now.before(Resolution::Day.period()))
}

impl Sums {
    /// Those of no hours yet.
    fn begin(from: UnixMillis) -> Self {
        Self {
            from,
            to: from,
            used: HashMap::new(),
        }
    }

    fn add_cell(&mut self, cell: &UsageCell) {
        let hour = HOUR.start(cell.minute);
        if hour >= self.from && hour < self.to {
            let is_ok = *cell.outcome == *OK_LABEL;
            self.add(&KeyUse::new(cell.key, cell.owner, is_ok, &cell.used));
        }
    }

    fn add(&mut self, used: &KeyUse) {
        self.used.entry(used.key).or_default().add(used);
    }
}

impl RecentUse {
    /// What keys used, if it is known as of this hour or the one before.
    pub(super) fn known(&self, now: UnixMillis) -> Option<&HashMap<KeyId, Last24h>> {
        let newest = first_hour(now);
        let whole = self.whole.as_ref()?;
        let is_recent = whole.from <= newest && whole.from.after(HOUR.period()) >= newest;
        is_recent.then_some(&whole.used)
    }

    /// Whether there is more to read.
    pub(super) const fn is_partial(&self) -> bool {
        self.partial.is_some()
    }

    /// Follows what is added.
    pub(super) fn add(&mut self, cells: &[UsageCell]) {
        for sums in [&mut self.whole, &mut self.partial].into_iter().flatten() {
            cells.iter().for_each(|cell| sums.add_cell(cell));
        }
    }

    /// The hour that is to be read next; `None` if everything is known.
    pub(super) fn next(&mut self, now: UnixMillis) -> Option<UnixMillis> {
        let from = first_hour(now);
        if self.whole.as_ref().is_some_and(|whole| whole.from == from) {
            self.partial = None;
            return None;
        }
        let partial = self.partial.take().filter(|partial| partial.from == from);
        let partial = partial.unwrap_or_else(|| Sums::begin(from));
        Some(self.partial.insert(partial).to)
    }

    /// Adds what was read of the next hour.
    pub(super) fn add_read(&mut self, used: &KeyUse) {
        if let Some(partial) = &mut self.partial {
            partial.add(used);
        }
    }

    /// The next hour was read.
    pub(super) fn end_hour(&mut self, hour: UnixMillis, now: UnixMillis) {
        let Some(partial) = &mut self.partial else {
            return;
        };
        partial.to = hour.after(HOUR.period());
        if partial.to > now {
            partial.to = UnixMillis(u64::MAX);
            self.whole = self.partial.take();
        }
    }

    /// The next hour was not read to its end: all are to be read again.
    pub(super) fn start_over(&mut self) {
        self.partial = None;
    }
}
