use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use crate::{
    UnixMillis,
    id::KeyId,
    usage::{
        counted::Counted,
        counts::{CellId, METHODS_MAX, TakenCounts},
        query::{KeyOwner, UsageCell},
        resolution::Resolution,
        used::{Label, SESSION_LABEL},
    },
};

/// How often merged usage is written. The end of a process by force is to lose ten seconds at most:
/// a quarter of a second until a worker hands its counts over, a second until the owner looks for
/// what is due, and one for the write.
pub const FLUSH_INTERVAL: Duration = Duration::from_secs(7);

/// Most cells that await the next flush: one for each of 100,000 keys, in some 18 MB. A store that
/// cannot be written fills them, and what then has no room is dropped, and counted.
pub const MERGED_CELLS_MAX: usize = 131_072;

/// Most cells of one transaction: it takes a tenth of a second, for which commands wait.
pub const FLUSH_CELLS_MAX: usize = 8_192;

/// What stands for an index that has no name.
const UNNAMED: &str = "other";

/// The names of methods and outcomes by index.
///
/// The store has names, because the next version of this program may have other indexes.
#[derive(Clone, Debug)]
pub struct Labels {
    methods: Box<[Label]>,
    outcomes: Box<[Label]>,
    session: Label,
    unnamed: Label,
}

impl Labels {
    /// Of these methods and outcomes. What is above the bound gets no name of its own.
    pub fn new<'a>(
        methods: impl IntoIterator<Item = &'a str>,
        outcomes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let outcomes_max = usize::from(u8::MAX);
        Self {
            methods: methods
                .into_iter()
                .take(METHODS_MAX)
                .map(Arc::from)
                .collect(),
            outcomes: outcomes
                .into_iter()
                .take(outcomes_max)
                .map(Arc::from)
                .collect(),
            session: SESSION_LABEL.into(),
            unnamed: UNNAMED.into(),
        }
    }

    fn of(&self, id: CellId) -> (Label, Label) {
        if id == CellId::session(id.key) {
            return (self.session.clone(), self.session.clone());
        }
        let method = self.methods.get(usize::from(id.method));
        let outcome = self.outcomes.get(usize::from(id.outcome));
        let or_unnamed = |label: Option<&Label>| label.unwrap_or(&self.unnamed).clone();
        (or_unnamed(method), or_unnamed(outcome))
    }
}

/// The counts of all workers that are not written yet.
#[derive(Debug)]
pub struct Merged {
    labels: Labels,
    /// By minute, so that the oldest is written first. None is empty.
    minutes: BTreeMap<UnixMillis, BTreeMap<CellId, Cell>>,
    len: usize,
    dropped: u64,
    flushed_at: UnixMillis,
}

/// What was counted in one minute.
#[derive(Debug, Default)]
struct Cell {
    counted: Counted,
    /// When the last of it was, in milliseconds since the minute began.
    last: u32,
}

impl Merged {
    /// Nothing yet, at `now`.
    #[must_use]
    pub const fn new(labels: Labels, now: UnixMillis) -> Self {
        Self {
            labels,
            minutes: BTreeMap::new(),
            len: 0,
            dropped: 0,
            flushed_at: now,
        }
    }

    /// Adds what a worker counted. It counts in the minute of `now`.
    pub fn merge(&mut self, taken: &TakenCounts, now: UnixMillis) {
        self.dropped = self.dropped.saturating_add(taken.dropped);
        let minute = Resolution::Minute.start(now);
        // Less than a minute.
        let last = (now.0 - minute.0) as u32;
        let cells = self.minutes.entry(minute).or_default();
        for (id, counted) in &taken.cells {
            let is_full = self.len >= MERGED_CELLS_MAX;
            let cell = match cells.entry(*id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(_) if is_full => {
                    self.dropped = self.dropped.saturating_add(counted.events());
                    continue;
                }
                Entry::Vacant(free) => {
                    self.len += 1;
                    free.insert(Cell::default())
                }
            };
            cell.last = last.max(cell.last);
            cell.counted.add(counted);
        }
        if cells.is_empty() {
            self.minutes.remove(&minute);
        }
    }

    /// Whether it is time to write: [`FLUSH_INTERVAL`] after the last flush, or if half of the room
    /// is taken.
    #[must_use]
    pub fn is_due(&self, now: UnixMillis) -> bool {
        let is_time = now >= self.flushed_at.after(FLUSH_INTERVAL) || now < self.flushed_at;
        self.len > 0 && (is_time || self.len * 2 >= MERGED_CELLS_MAX)
    }

    /// Requests, sessions and notifications that were not counted because there was no room.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Cells that are not written yet.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether everything is written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes by `write`, which adds all cells that it gets or none, at most [`FLUSH_CELLS_MAX`] at
    /// once. What it does not write stays for the next flush.
    ///
    /// # Errors
    /// Those of `write`, which is then not called again.
    pub fn flush<E>(
        &mut self,
        now: UnixMillis,
        owner_of: impl Fn(KeyId) -> Option<KeyOwner>,
        mut write: impl FnMut(&[UsageCell]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Even if it fails, so that a full disk is not tried every second.
        self.flushed_at = now;
        let mut batch = Vec::with_capacity(self.len.min(FLUSH_CELLS_MAX));
        while let Some(mut oldest) = self.minutes.first_entry() {
            let minute = *oldest.key();
            let cells = oldest.get().iter().take(FLUSH_CELLS_MAX);
            batch.clear();
            batch.extend(cells.map(|(id, cell)| {
                let (method, outcome) = self.labels.of(*id);
                UsageCell {
                    minute,
                    key: id.key,
                    owner: owner_of(id.key),
                    method,
                    outcome,
                    last: UnixMillis(minute.0 + u64::from(cell.last)),
                    used: cell.counted.used(),
                }
            }));
            write(&batch)?;
            // The same ones: nothing was added meanwhile.
            let cells = oldest.get_mut();
            for _ in 0..batch.len() {
                cells.pop_first();
            }
            self.len -= batch.len();
            if cells.is_empty() {
                oldest.remove();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
