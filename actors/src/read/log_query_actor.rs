//! Logs that match a filter: counted from the index, gathered as the answer is sent.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Actor, Context, Handler, Supervised};
use nearhead_chain::{
    block::Block,
    json::Json,
    log_search::{self, Cancellation, FoundLogs, LogFilter, SearchError},
    window::{ResolveError, Snapshot},
};

use super::{
    now_or_later::NowOrLater,
    pool::{Pool, PoolQuery},
    resources::ReadResources,
    traced::handle_traced,
};
use crate::{
    admission::{Entry, LOOKUP_NANOS, MAILBOX_CAPACITY, Panics},
    messages::{FindLogChanges, FindLogs, LogChanges, LogRange, QueryError, Reply},
    share::Share,
};

/// Look-ups in the index on the worker's thread: at some 50 ns each, 0.1 ms at most.
const WORKER_LOOKUPS_MAX: usize = 2_048;

/// Logs in the range of a query that is counted on the worker's thread, if its filter has several
/// conditions. If none of them is rare, half of the logs may have to be checked: at some 5 ns each,
/// 2.5 ms at most.
const WORKER_CANDIDATES_MAX: usize = 1 << 20;

/// Answers log queries; one on every worker's arbiter. A large query moves to the pool.
#[derive(Debug)]
pub struct LogQueryActor {
    resources: ReadResources,
}

impl LogQueryActor {
    pub(crate) const fn new(resources: ReadResources) -> Self {
        Self { resources }
    }

    pub(crate) const fn panics(&self) -> &Panics {
        self.resources.admission.panics()
    }

    /// Answers a query here, or has the pool answer it.
    fn answer<Q: LogQuery>(&self, query: Q, ctx: &mut Context<Self>) -> NowOrLater<Q::Output> {
        let outcome = self.panics().guard(ctx, || match pool_work(&query)? {
            Some(work) => Ok(Err(work)),
            None => query.find().map(Ok),
        });
        match outcome {
            Ok(Ok(found)) => NowOrLater::Now(Ok(found)),
            Ok(Err(work)) => {
                NowOrLater::later(find_on_pool(self.resources.pool.clone(), query, work))
            }
            Err(error) => NowOrLater::Now(Err(error)),
        }
    }
}

/// A query that searches the logs of blocks.
trait LogQuery: PoolQuery + Sized {
    /// The blocks that it searches.
    fn blocks(&self) -> Reply<impl ExactSizeIterator<Item = &Block> + Clone>;

    /// What it searches for.
    fn filter(&self) -> &LogFilter;

    /// Counts the matches.
    fn find(&self) -> Reply<Self::Output>;

    /// When it is cancelled.
    fn deadline(&self) -> Instant;

    /// Whose query it is.
    fn share(&self) -> Share;
}

/// The time that a query takes, if that is too much for a worker.
fn pool_work<Q: LogQuery>(query: &Q) -> Reply<Option<Duration>> {
    check_alive(query)?;
    let mut blocks = query.blocks()?;
    let lookups = count_work(blocks.clone(), query.filter());
    let nanos = lookups.saturating_mul(LOOKUP_NANOS) as u64;
    // To make the JSON of blocks is too much as well.
    let is_too_much = lookups > WORKER_LOOKUPS_MAX || !blocks.all(Block::has_json_without_senders);
    Ok(is_too_much.then(|| Duration::from_nanos(nanos)))
}

impl Actor for LogQueryActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl Supervised for LogQueryActor {}

handle_traced!(LogQueryActor: FindLogs, FindLogChanges);

impl Handler<FindLogs> for LogQueryActor {
    type Result = NowOrLater<Json>;

    fn handle(&mut self, find: FindLogs, ctx: &mut Context<Self>) -> Self::Result {
        self.answer(find, ctx)
    }
}

impl Handler<FindLogChanges> for LogQueryActor {
    type Result = NowOrLater<LogChanges>;

    fn handle(&mut self, find: FindLogChanges, ctx: &mut Context<Self>) -> Self::Result {
        self.answer(find, ctx)
    }
}

/// Hands the query to the pool and cancels it at its deadline, whether it is queued or running: a
/// thread that searches does not watch the clock.
async fn find_on_pool<Q: LogQuery>(pool: Pool, query: Q, work: Duration) -> Reply<Q::Output> {
    let cancel = query.cancellation().clone();
    let deadline = query.deadline().into();
    let share = query.share();
    let reply = pool.run(query, share, work, Entry::New);
    tokio::time::timeout_at(deadline, reply)
        .await
        .unwrap_or_else(|_| {
            cancel.cancel();
            Err(QueryError::Timeout)
        })
}

impl PoolQuery for FindLogs {
    type Output = Json;

    fn cancellation(&self) -> &Cancellation {
        &self.cancel
    }

    fn run(&self) -> Reply<Json> {
        check_alive(self)?;
        self.find()
    }
}

impl LogQuery for FindLogs {
    fn blocks(&self) -> Reply<impl ExactSizeIterator<Item = &Block> + Clone> {
        let blocks = blocks_of(&self.snapshot, self.range)?;
        Ok(blocks.iter().map(|block| &**block))
    }

    fn filter(&self) -> &LogFilter {
        &self.filter
    }

    fn find(&self) -> Reply<Json> {
        let blocks = blocks_of(&self.snapshot, self.range)?;
        log_search::search(blocks, &self.filter, self.limit, &self.cancel)
            .map(FoundLogs::into_json)
            .map_err(|error| query_error(error, self, blocks))
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn share(&self) -> Share {
        self.share
    }
}

impl PoolQuery for FindLogChanges {
    type Output = LogChanges;

    fn cancellation(&self) -> &Cancellation {
        &self.cancel
    }

    fn run(&self) -> Reply<LogChanges> {
        check_alive(self)?;
        self.find()
    }
}

impl LogQuery for FindLogChanges {
    fn blocks(&self) -> Reply<impl ExactSizeIterator<Item = &Block> + Clone> {
        Ok(self.changes.iter().map(|change| &*change.block))
    }

    fn filter(&self) -> &LogFilter {
        &self.filter
    }

    fn find(&self) -> Reply<LogChanges> {
        log_search::search_changes(&self.changes, &self.filter, self.limit, &self.cancel)
            .map(|found| LogChanges {
                logs: found.logs.into_json(),
                blocks: found.blocks,
            })
            .map_err(|_| cancelled(self.deadline))
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn share(&self) -> Share {
        self.share
    }
}

fn check_alive<Q: LogQuery>(query: &Q) -> Reply<()> {
    if Instant::now() >= query.deadline() {
        return Err(QueryError::Timeout);
    }
    if query.cancellation().is_cancelled() {
        return Err(QueryError::Cancelled);
    }
    Ok(())
}

fn blocks_of(snapshot: &Snapshot, range: LogRange) -> Reply<&[Arc<Block>]> {
    match range {
        LogRange::Hash(hash) => {
            let block = snapshot.by_hash(&hash).ok_or(ResolveError::UnknownHash)?;
            Ok(std::slice::from_ref(block))
        }
        LogRange::Numbers { from, to } => Ok(snapshot.range(from, to)),
    }
}

fn query_error(error: SearchError, find: &FindLogs, blocks: &[Arc<Block>]) -> QueryError {
    match error {
        SearchError::TooMany { limit, fits_to } => QueryError::TooManyLogs {
            from: blocks.first().map_or(0, |block| block.number()),
            fits_to,
            limit,
        },
        SearchError::Cancelled => cancelled(find.deadline),
    }
}

/// The error of a query that was cancelled: at its deadline, or because its client went away.
fn cancelled(deadline: Instant) -> QueryError {
    match Instant::now() >= deadline {
        true => QueryError::Timeout,
        false => QueryError::Cancelled,
    }
}

/// The most work that counting takes, in look-ups: one for each value of the filter in each block.
/// If several conditions must hold, the logs with the rarest are checked as well. A wildcard at the
/// last topic position is a condition too: the log must have a topic there.
fn count_work<'a>(blocks: impl ExactSizeIterator<Item = &'a Block>, filter: &LogFilter) -> usize {
    let conditions =
        std::iter::once(filter.addresses.len()).chain(filter.topics.iter().map(Vec::len));
    let (mut values, mut count) = (0, 0);
    for condition in conditions.filter(|values| *values > 0) {
        values += condition;
        count += 1;
    }
    let lookups = blocks.len().saturating_mul(values);
    count += usize::from(filter.topics.last().is_some_and(Vec::is_empty));
    if count < 2 {
        return lookups;
    }
    let logs: usize = blocks.map(|block| block.log_count()).sum();
    lookups.saturating_add(logs / (WORKER_CANDIDATES_MAX / WORKER_LOOKUPS_MAX))
}

#[cfg(all(test, feature = "all-tests"))]
mod tests;
