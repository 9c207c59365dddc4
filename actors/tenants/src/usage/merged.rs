use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    UnixMillis,
    id::{KeyId, TenantId},
    usage::{
        counts::{CellId, METHODS_MAX, TakenCounts},
        query::UsageCell,
        resolution::Resolution,
        used::{Label, SESSION_LABEL, Used},
    },
};

/// How often merged usage is written. The end of a process by force is to lose ten seconds at most:
/// a second until a worker hands its counts over, one until the owner looks for what is due, and
/// one for the write.
pub const FLUSH_INTERVAL: Duration = Duration::from_secs(7);

/// Most cells that await the next flush: one for each of 100,000 keys, in some 20 MB. A store that
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
    /// By minute first, so that the oldest is written first.
    cells: BTreeMap<(UnixMillis, CellId), (UnixMillis, Used)>,
    dropped: u64,
    flushed_at: UnixMillis,
}

impl Merged {
    /// Nothing yet, at `now`.
    #[must_use]
    pub const fn new(labels: Labels, now: UnixMillis) -> Self {
        Self {
            labels,
            cells: BTreeMap::new(),
            dropped: 0,
            flushed_at: now,
        }
    }

    /// Adds what a worker counted. It counts in the minute of `now`.
    pub fn merge(&mut self, taken: &TakenCounts, now: UnixMillis) {
        self.dropped = self.dropped.saturating_add(taken.dropped);
        let minute = Resolution::Minute.start(now);
        for (id, used) in &taken.cells {
            self.add((minute, *id), now, used);
        }
    }

    fn add(&mut self, at: (UnixMillis, CellId), last: UnixMillis, used: &Used) {
        if self.cells.len() >= MERGED_CELLS_MAX && !self.cells.contains_key(&at) {
            let lost = used.requests.saturating_add(used.sessions);
            self.dropped = self
                .dropped
                .saturating_add(lost.saturating_add(used.notifications));
            return;
        }
        let (latest, sum) = self.cells.entry(at).or_default();
        *latest = last.max(*latest);
        sum.add(used);
    }

    /// Whether it is time to write: [`FLUSH_INTERVAL`] after the last flush, or if half of the room
    /// is taken.
    #[must_use]
    pub fn is_due(&self, now: UnixMillis) -> bool {
        let is_time = now >= self.flushed_at.after(FLUSH_INTERVAL) || now < self.flushed_at;
        !self.cells.is_empty() && (is_time || self.cells.len() * 2 >= MERGED_CELLS_MAX)
    }

    /// Requests, sessions and notifications that were not counted because there was no room.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Cells that are not written yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether everything is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Writes by `write`, which adds all cells that it gets or none, at most [`FLUSH_CELLS_MAX`] at
    /// once. What it does not write stays for the next flush.
    ///
    /// # Errors
    /// Those of `write`, which is then not called again.
    pub fn flush<E>(
        &mut self,
        now: UnixMillis,
        tenant_of: impl Fn(KeyId) -> Option<TenantId>,
        mut write: impl FnMut(&[UsageCell]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Even if it fails, so that a full disk is not tried every second.
        self.flushed_at = now;
        while !self.cells.is_empty() {
            let batch = self.cells.iter().take(FLUSH_CELLS_MAX);
            let cell = |(&(minute, id), &(last, used)): (&_, &_)| {
                let (method, outcome) = self.labels.of(id);
                UsageCell {
                    minute,
                    key: id.key,
                    tenant: tenant_of(id.key),
                    method,
                    outcome,
                    last,
                    used,
                }
            };
            let batch: Vec<UsageCell> = batch.map(cell).collect();
            write(&batch)?;
            // The same ones: nothing was added meanwhile.
            for _ in 0..batch.len() {
                self.cells.pop_first();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
