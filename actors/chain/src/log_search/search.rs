//! Counts the matches of a filter in many blocks.

use std::sync::Arc;

use super::{
    Cancellation, LogFilter, LogPostings, SearchError,
    cancellation::{CancelChecker, UNITS_PER_CHECK},
    filter::{FilterTerms, Query},
    found_logs::{FoundLogs, Matches},
    postings::Field,
};
use crate::block::Block;

/// Counts the matches in `blocks` (ascending); [`FoundLogs::into_json`] gives the JSON array.
///
/// A block costs one look-up per term of the filter, or per distinct address or topic of the block
/// if those are fewer. A filter of one condition (two values count as one, as a pair) then costs
/// only its matches. With several conditions, every log that meets the rarest one is examined.
/// Memory is bounded by `limit`.
///
/// # Errors
/// [`SearchError::TooMany`] for more than `limit` matches, before any match is looked up in the
/// JSON; [`SearchError::Cancelled`].
pub fn search(
    blocks: &[Arc<Block>],
    filter: &LogFilter,
    limit: usize,
    cancel: &Cancellation,
) -> Result<FoundLogs, SearchError> {
    let mut checker = CancelChecker::begin(cancel)?;
    let mut matches = Matches::default();
    if let Some(terms) = FilterTerms::new(filter, &mut checker)? {
        let query = Query::new(&terms);
        let mut matcher = Matcher::new(&query, limit);
        for (index, block) in blocks.iter().enumerate() {
            let postings = &block.postings;
            if !matcher.add_matches(postings, &mut matches.positions, &mut checker)? {
                let fits_to = index.checked_sub(1).map(|last| blocks[last].number());
                return Err(SearchError::TooMany { limit, fits_to });
            }
            matches.end_block(index);
        }
    }
    FoundLogs::new(|index| (&*blocks[index], false), &matches, &mut checker)
}

/// A block that a reader has to learn of.
#[derive(Clone, Debug)]
pub struct ChangedBlock {
    /// The block.
    pub block: Arc<Block>,
    /// Whether it was reverted, so that its logs are removed.
    pub is_reverted: bool,
}

/// Matching logs of changed blocks, and how many of the blocks were searched.
#[derive(Debug)]
pub struct FoundChanges {
    /// The logs, in the order of the blocks. Those of a reverted block have `removed: true` and
    /// come newest first.
    pub logs: FoundLogs,
    /// The number of blocks that have all their matches in `logs`.
    pub blocks: usize,
}

/// Finds the matches in changed blocks, in their order, as [`search`] does. It stops before the
/// block by which there would be more than `limit` matches, but never at the first one that has
/// any: a reader that goes on where this stopped comes to the end.
///
/// # Errors
/// [`SearchError::Cancelled`].
pub fn search_changes(
    changes: &[ChangedBlock],
    filter: &LogFilter,
    limit: usize,
    cancel: &Cancellation,
) -> Result<FoundChanges, SearchError> {
    let mut checker = CancelChecker::begin(cancel)?;
    let mut matches = Matches::default();
    let mut blocks = changes.len();
    if let Some(terms) = FilterTerms::new(filter, &mut checker)? {
        let query = Query::new(&terms);
        let mut matcher = Matcher::new(&query, limit);
        for (index, change) in changes.iter().enumerate() {
            matcher.limit = match matches.len() {
                0 => usize::MAX,
                _ => limit,
            };
            let postings = &change.block.postings;
            if !matcher.add_matches(postings, &mut matches.positions, &mut checker)? {
                matches.undo_block();
                blocks = index;
                break;
            }
            matches.end_block(index);
        }
    }
    let block = |index: usize| {
        let change: &ChangedBlock = &changes[index];
        (&*change.block, change.is_reverted)
    };
    let logs = FoundLogs::new(block, &matches, &mut checker)?;
    Ok(FoundChanges { logs, blocks })
}

/// One filter, for searches of single blocks.
#[derive(Debug)]
pub struct BlockSearch(Option<FilterTerms>);

impl BlockSearch {
    /// Hashes the filter's terms.
    #[must_use]
    pub fn new(filter: &LogFilter) -> Self {
        let never = Cancellation::default();
        let terms = CancelChecker::begin(&never)
            .and_then(|mut checker| FilterTerms::new(filter, &mut checker));
        // Never an error: nothing cancels this token.
        Self(terms.ok().flatten())
    }

    /// Positions of a block's matching logs, ascending.
    #[must_use]
    pub fn positions(&self, postings: &LogPostings) -> Vec<u32> {
        let mut positions = Vec::new();
        if let Some(terms) = &self.0 {
            let query = Query::new(terms);
            let never = Cancellation::default();
            // Never an error: nothing cancels this token, and there is no limit.
            let _ = CancelChecker::begin(&never).and_then(|mut checker| {
                Matcher::new(&query, usize::MAX).add_matches(postings, &mut positions, &mut checker)
            });
        }
        positions
    }
}

/// Matches one query against one block after another, with the same buffers.
struct Matcher<'a> {
    query: &'a Query<'a>,
    limit: usize,
    /// Keys of the current block for each group, group by group.
    keys: Vec<u32>,
    /// Conditions in the current block.
    conditions: Vec<Condition>,
}

/// What a matching log of the current block has in one field.
#[derive(Clone, Copy, Debug)]
struct Condition {
    field: Field,
    /// Range in [`Matcher::keys`] of the keys that suffice; `None` if any key of the field does.
    keys: Option<(usize, usize)>,
    /// Number of logs that meet the condition.
    logs: usize,
}

impl<'a> Matcher<'a> {
    fn new(query: &'a Query<'a>, limit: usize) -> Self {
        let (keys, conditions) = (Vec::new(), Vec::new());
        Self {
            query,
            limit,
            keys,
            conditions,
        }
    }

    /// Adds the positions of a block's matches; `false` as soon as the total would exceed the
    /// limit.
    fn add_matches(
        &mut self,
        postings: &LogPostings,
        positions: &mut Vec<u32>,
        checker: &mut CancelChecker<'_>,
    ) -> Result<bool, SearchError> {
        if !self.find_conditions(postings, checker)? {
            return Ok(true);
        }
        let room = self.limit.saturating_sub(positions.len());
        let Some(rarest) = (0..self.conditions.len()).min_by_key(|at| self.conditions[*at].logs)
        else {
            if postings.len() <= room {
                checker.count(postings.len())?;
                positions.extend(0..postings.len() as u32);
            }
            return Ok(postings.len() <= room);
        };
        let rarest = self.conditions.swap_remove(rarest);
        // The lists of one field are disjoint, so their lengths give the exact count.
        let is_exact = self.conditions.is_empty();
        if is_exact && rarest.logs > room {
            return Ok(false);
        }
        let first = positions.len();
        let mut lists = 0;
        for list in self.lists(postings, rarest) {
            lists += 1;
            for candidates in list.chunks(UNITS_PER_CHECK) {
                checker.count(candidates.len())?;
                if is_exact {
                    positions.extend_from_slice(candidates);
                } else {
                    positions.extend(
                        candidates
                            .iter()
                            .filter(|at| self.meets_all(postings, **at)),
                    );
                }
                if positions.len() > self.limit {
                    return Ok(false);
                }
            }
        }
        if lists > 1 || rarest.keys.is_none() {
            // The stable sort merges runs that are already ascending.
            positions[first..].sort();
        }
        Ok(true)
    }

    /// Looks the query up in a block; `false` if the block cannot meet one of its conditions.
    fn find_conditions(
        &mut self,
        postings: &LogPostings,
        checker: &mut CancelChecker<'_>,
    ) -> Result<bool, SearchError> {
        self.keys.clear();
        self.conditions.clear();
        for group in &self.query.groups {
            let start = self.keys.len();
            group.find(postings, &mut self.keys, checker)?;
            let keys = &mut self.keys[start..];
            if keys.is_empty() {
                return Ok(false);
            }
            keys.sort_unstable();
            let logs = keys
                .iter()
                .map(|key| postings.positions(*key..*key + 1).len());
            self.conditions.push(Condition {
                field: group.field,
                logs: logs.sum(),
                keys: Some((start, self.keys.len())),
            });
        }
        if let Some(field) = self.query.present {
            let logs = postings.positions(postings.keys(field)).len();
            self.conditions.push(Condition {
                field,
                keys: None,
                logs,
            });
            return Ok(logs > 0);
        }
        Ok(true)
    }

    /// The lists of the logs that meet a condition.
    fn lists<'b>(
        &'b self,
        postings: &'b LogPostings,
        condition: Condition,
    ) -> impl Iterator<Item = &'b [u32]> {
        let (some, all) = match condition.keys {
            Some((start, end)) => (&self.keys[start..end], None),
            None => (&[][..], Some(postings.keys(condition.field))),
        };
        let one_each = some.iter().map(|key| *key..*key + 1);
        one_each.chain(all).map(|keys| postings.positions(keys))
    }

    /// Whether the log at `position` meets all conditions.
    fn meets_all(&self, postings: &LogPostings, position: u32) -> bool {
        self.conditions.iter().all(|condition| {
            let key = postings.key_of(position, condition.field);
            key.is_some_and(|key| {
                let keys = condition.keys.map(|(start, end)| &self.keys[start..end]);
                keys.is_none_or(|keys| keys.binary_search(&key).is_ok())
            })
        })
    }
}
