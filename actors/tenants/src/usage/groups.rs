use std::collections::BTreeMap;

use super::{GroupBy, Label, UsageAnswer, UsageRow, Used};
use crate::{UnixMillis, id::KeyId};

/// What the rows of an answer are sorted by. What they are not grouped by is `None`.
pub type UsageGroup = (
    Option<UnixMillis>,
    Option<KeyId>,
    Option<Label>,
    Option<Label>,
);

impl GroupBy {
    /// The group of a sum.
    #[must_use]
    pub fn group(self, at: UnixMillis, key: KeyId, method: &Label, outcome: &Label) -> UsageGroup {
        (
            self.time.then_some(at),
            self.key.then_some(key),
            self.method.then(|| Label::clone(method)),
            self.outcome.then(|| Label::clone(outcome)),
        )
    }
}

/// Sums by group: an answer that is read in parts.
#[derive(Clone, Debug)]
pub struct UsageGroups {
    sums: BTreeMap<UsageGroup, Used>,
    rows_max: usize,
    is_truncated: bool,
}

impl UsageGroups {
    /// Nothing yet, for an answer of at most so many rows.
    #[must_use]
    pub const fn new(rows_max: usize) -> Self {
        Self {
            sums: BTreeMap::new(),
            rows_max,
            is_truncated: false,
        }
    }

    /// Adds to the sum of a group.
    pub fn add(&mut self, group: UsageGroup, used: &Used) {
        self.sums.entry(group).or_default().add(used);
        // Those that go are behind as many others, so that nothing later brings them back.
        if self.sums.len() > self.rows_max {
            self.sums.pop_last();
            self.is_truncated = true;
        }
    }

    /// Adds an answer about other periods.
    pub fn extend(&mut self, answer: UsageAnswer) {
        self.is_truncated |= answer.is_truncated;
        for row in answer.rows {
            let group = (row.at, row.key, row.method, row.outcome);
            self.add(group, &row.used);
        }
    }

    /// Whether there are more groups than an answer may have.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// The answer, in the order of its groups.
    #[must_use]
    pub fn into_answer(self) -> UsageAnswer {
        let rows = self.sums.into_iter();
        let rows = rows.map(|((at, key, method, outcome), used)| UsageRow {
            at,
            key,
            method,
            outcome,
            used,
        });
        UsageAnswer {
            rows: rows.collect(),
            is_truncated: self.is_truncated,
        }
    }
}
