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

/// Counts the matches in `blocks` (ascending); [`FoundLogs::into_json`] then is the JSON array.
///
/// A block costs one look-up for each term of the filter, or for each address or topic that it has
/// where those are fewer. Filters of one condition, an address and a topic at any position being
/// one, then cost what matches and no more. Where several conditions must hold, every log that
/// fulfils the rarest of them is looked at. Memory is bounded by `limit`.
///
/// # Errors
/// [`SearchError::TooMany`] for more than `limit` matches, before any of them is looked up in the
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
    FoundLogs::new(blocks, &matches, &mut checker)
}

/// One filter, looked for in single blocks.
#[derive(Debug)]
pub struct BlockSearch(Option<FilterTerms>);

impl BlockSearch {
    /// Prepares to look for what matches.
    #[must_use]
    pub fn new(filter: &LogFilter) -> Self {
        let never = Cancellation::default();
        let terms = CancelChecker::begin(&never)
            .and_then(|mut checker| FilterTerms::new(filter, &mut checker));
        // No error: nobody cancels.
        Self(terms.ok().flatten())
    }

    /// Positions of the logs of a block that match, ascending.
    #[must_use]
    pub fn positions(&self, postings: &LogPostings) -> Vec<u32> {
        let mut positions = Vec::new();
        if let Some(terms) = &self.0 {
            let query = Query::new(terms);
            let never = Cancellation::default();
            // No error: nobody cancels, and there is no limit.
            let _ = CancelChecker::begin(&never).and_then(|mut checker| {
                Matcher::new(&query, usize::MAX).add_matches(postings, &mut positions, &mut checker)
            });
        }
        positions
    }
}

/// Matches one query against one block after the other; its buffers are used again.
struct Matcher<'a> {
    query: &'a Query<'a>,
    limit: usize,
    /// Keys that the present block has of each group, group by group.
    keys: Vec<u32>,
    /// Conditions of the present block.
    conditions: Vec<Condition>,
}

/// What a log of the present block must have in one field.
#[derive(Clone, Copy, Debug)]
struct Condition {
    field: Field,
    /// Where the keys stand that will do; `None` if any will.
    keys: Option<(usize, usize)>,
    /// Number of logs that have one.
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

    /// Adds the positions of a block's matches; `false` as soon as all together would be more than
    /// the limit.
    fn add_matches(
        &mut self,
        postings: &LogPostings,
        positions: &mut Vec<u32>,
        checker: &mut CancelChecker<'_>,
    ) -> Result<bool, SearchError> {
        if !self.find_conditions(postings, checker)? {
            return Ok(true);
        }
        let room = self.limit - positions.len();
        let Some(rarest) = (0..self.conditions.len()).min_by_key(|at| self.conditions[*at].logs)
        else {
            if postings.len() <= room {
                checker.count(postings.len())?;
                positions.extend(0..postings.len() as u32);
            }
            return Ok(postings.len() <= room);
        };
        let rarest = self.conditions.swap_remove(rarest);
        // Lists of one field are disjoint: nothing but their lengths has to be known.
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
                    positions.extend(candidates.iter().filter(|at| self.fulfils(postings, **at)));
                }
                if positions.len() > self.limit {
                    return Ok(false);
                }
            }
        }
        if lists > 1 || rarest.keys.is_none() {
            // Stable: it merges runs that are ascending already.
            positions[first..].sort();
        }
        Ok(true)
    }

    /// Looks the query up in a block; `false` where one of its conditions cannot be fulfilled
    /// there.
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

    /// The lists of the logs that fulfil a condition.
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

    /// Whether the log at `position` fulfils all conditions.
    fn fulfils(&self, postings: &LogPostings, position: u32) -> bool {
        self.conditions.iter().all(|condition| {
            let key = postings.key_of(position, condition.field);
            key.is_some_and(|key| {
                let keys = condition.keys.map(|(start, end)| &self.keys[start..end]);
                keys.is_none_or(|keys| keys.binary_search(&key).is_ok())
            })
        })
    }
}
