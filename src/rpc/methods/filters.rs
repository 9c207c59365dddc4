//! Filters: eth_newFilter, eth_newBlockFilter, eth_getFilterChanges, eth_getFilterLogs and
//! eth_uninstallFilter.

use std::{sync::Arc, time::Instant};

use nearhead_actors::{
    messages::{FindLogChanges, LogChanges},
    read::ask,
};
use nearhead_chain::{
    json::Json,
    log_search::{ChangedBlock, LogFilter},
    window::{Cursor, CursorStep, Snapshot},
};

use super::logs::find_logs;
use crate::{
    access::TooManyFilters,
    filters::{Advance, Filter, FilterError, FilterId, FilterKind, InstallError, Place},
    limits::LOGS_MAX,
    rpc::{
        cancel_on_drop::CancelOnDrop,
        context::{MethodResult, RequestContext},
        error::{QuerySubject, RpcError},
        log_query::{self, LogBlocks, LogQuery},
        params::{self, Params},
    },
};

/// `[filter]`; the id of a filter that begins after the head.
pub(crate) async fn new_filter(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let LogQuery { blocks, filter } = params.required(LogQuery::read)?;
    params.finish()?;
    context.contracts.filter(&filter)?;
    blocks.check_filter()?;
    log_query::check_value_count(&filter)?;
    let filter = Arc::new(filter);
    install(context, FilterKind::Logs { blocks, filter }).await
}

/// `[]`; the id of a filter that begins after the head.
pub(crate) async fn new_block_filter(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    params.finish()?;
    install(context, FilterKind::Blocks).await
}

/// `[id]`; whether there was such a filter.
pub(crate) async fn uninstall_filter(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let id = params.required(params::text)?;
    params.finish()?;
    let was_there = match FilterId::parse(&id) {
        Some(id) => {
            let removed = context.filters.remove(id, context.key, Instant::now());
            removed.await?
        }
        None => false,
    };
    Ok(Json::fixed(if was_there { "true" } else { "false" }))
}

/// `[id]`; what eth_getLogs answers to the filter now. The filter stays where it is.
pub(crate) async fn get_filter_logs(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    let deadline = Instant::now() + context.logs_deadline;
    let (filter, _) = find(context, params).await?;
    match &filter.kind {
        FilterKind::Blocks => Err(FilterError::OfBlocks.into()),
        FilterKind::Logs { blocks, filter } => {
            let query = LogQuery {
                blocks: *blocks,
                filter: LogFilter::clone(filter),
            };
            find_logs(context, query, deadline).await
        }
    }
}

/// `[id]`; what has changed since the last answer. The filter moves once the answer is made, so
/// that an error loses nothing. Of two answers that are made at the same time, one has it all.
pub(crate) async fn get_filter_changes(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    let deadline = Instant::now() + context.logs_deadline;
    let (filter, mut place) = find(context, params).await?;
    let snapshot = &*context.snapshot;
    loop {
        if place.is_beyond(snapshot) {
            return Ok(Json::fixed("[]"));
        }
        let Ok(path) = place.cursor.path(snapshot) else {
            let head = Cursor::after(snapshot.head());
            if let Some(advance) = Advance::make(&filter, &place, head, snapshot).await? {
                // The error is not an answer that a client asks for again.
                advance.keep();
                return Err(behind(&place, snapshot).into());
            }
            place = place_again(context, &filter, deadline).await?;
            continue;
        };
        if path.is_empty() {
            return Ok(Json::fixed("[]"));
        }
        let (json, to) = match &filter.kind {
            FilterKind::Blocks => (hashes(&path), Cursor::after(snapshot.head())),
            FilterKind::Logs { blocks, filter } => {
                changed_logs(context, &place, &path, (blocks, filter), deadline).await?
            }
        };
        if let Some(advance) = Advance::make(&filter, &place, to, snapshot).await? {
            context.advances.push(advance);
            return Ok(json);
        }
        // Another answer was faster: this one has what came after it.
        place = place_again(context, &filter, deadline).await?;
    }
}

/// Where a filter is that another answer has moved.
async fn place_again(
    context: &RequestContext<'_>,
    filter: &Filter,
    deadline: Instant,
) -> Result<Place, RpcError> {
    if Instant::now() >= deadline {
        return Err(RpcError::QueryTimeout);
    }
    let place = context.filters.place(filter).await?;
    Ok(place.ok_or(FilterError::NotFound)?)
}

/// The error for a filter whose place leads nowhere.
fn behind(place: &Place, snapshot: &Snapshot) -> FilterError {
    FilterError::Behind {
        from: place
            .cursor
            .number()
            .saturating_add(1)
            .min(snapshot.oldest()),
        to: snapshot.head().number(),
    }
}

/// The hashes of blocks that were applied.
fn hashes(path: &[CursorStep]) -> Json {
    let applied = path.iter().filter_map(|step| match step {
        CursorStep::Apply(block) => Some(format!("\"{}\"", block.hash)),
        CursorStep::Revert(_) => None,
    });
    let applied: Vec<_> = applied.collect();
    Json::from(format!("[{}]", applied.join(",")).into_bytes())
}

/// The logs of these steps, or of as many of them as one answer may have, and where they end.
async fn changed_logs(
    context: &RequestContext<'_>,
    place: &Place,
    path: &[CursorStep],
    (blocks, filter): (&LogBlocks, &Arc<LogFilter>),
    deadline: Instant,
) -> Result<(Json, Cursor), RpcError> {
    let wanted = |at: &usize| blocks.has(path[*at].block());
    let wanted: Vec<usize> = (0..path.len()).filter(wanted).collect();
    let changes = wanted.iter().map(|at| ChangedBlock {
        block: Arc::clone(path[*at].block()),
        is_reverted: matches!(path[*at], CursorStep::Revert(_)),
    });
    let cancel = CancelOnDrop::default();
    let find = FindLogChanges {
        changes: changes.collect(),
        filter: Arc::clone(filter),
        limit: LOGS_MAX,
        share: context.key.tenant.call_budget.share(),
        deadline,
        cancel: cancel.token(),
    };
    let LogChanges { logs, blocks } = ask(&context.worker.logs, find)
        .await
        .map_err(|error| RpcError::from_query(error, QuerySubject::Logs))?;
    // All steps before the first block that is left over.
    let taken = wanted.get(blocks).copied().unwrap_or(path.len());
    let last = path[..taken].last();
    Ok((logs, last.map_or(place.cursor, CursorStep::end)))
}

/// The filter that the parameters name, which the key may read, and its place.
async fn find(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> Result<(Arc<Filter>, Place), RpcError> {
    let id = params.required(params::text)?;
    params.finish()?;
    let id = FilterId::parse(&id).ok_or(FilterError::NotFound)?;
    let found = context.filters.ask(id, context.key, Instant::now()).await?;
    let (filter, place) = found.ok_or(FilterError::NotFound)?;
    match &filter.kind {
        FilterKind::Blocks => context.contracts.names_none(),
        // The key may have been narrowed since the filter was made.
        FilterKind::Logs { filter, .. } => context.contracts.filter(filter)?,
    }
    Ok((filter, place))
}

async fn install(context: &RequestContext<'_>, kind: FilterKind) -> MethodResult {
    let made = context
        .filters
        .make(kind, context.key, &context.snapshot, Instant::now());
    let id = made.await.map_err(|error| match error {
        InstallError::NoId
        | InstallError::Away
        | InstallError::TooMany(TooManyFilters::OfService) => RpcError::Unavailable,
        InstallError::TooMany(TooManyFilters::OfTenant { most }) => {
            FilterError::TooMany { most }.into()
        }
        InstallError::TooMany(TooManyFilters::ValuesOfTenant { most }) => {
            FilterError::TooManyValues { most }.into()
        }
    })?;
    Ok(Json::from(format!("\"{id}\"").into_bytes()))
}
