//! eth_getLogs: a filter object, resolved, and one message.

use std::{sync::Arc, time::Instant};

use nearhead_actors::{messages::FindLogs, wiring::ask};
use nearhead_chain::{json::Json, log_search::LogFilter};

use crate::{
    limits::{FILTER_VALUES_MAX, LOGS_MAX},
    rpc::{
        cancel_on_drop::CancelOnDrop, dispatch::RequestContext, error::RpcError,
        log_query::LogQuery, params::Params,
    },
};

pub(crate) async fn get_logs(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> Result<Json, RpcError> {
    let deadline = Instant::now() + context.logs_deadline;
    let LogQuery { blocks, filter } = params.required(LogQuery::read)?;
    params.finish()?;
    let Some(range) = blocks.resolve(&context.snapshot)? else {
        return Ok(Json::fixed("[]"));
    };
    check_filter(&filter)?;
    let cancel = CancelOnDrop::default();
    let find = FindLogs {
        snapshot: Arc::clone(&context.snapshot),
        range,
        filter,
        limit: LOGS_MAX,
        deadline,
        cancel: cancel.token(),
    };
    ask(&context.worker.logs, find)
        .await
        .map_err(RpcError::of_logs)
}

/// Refuses a filter of more values than may be looked for at once.
pub(super) fn check_filter(filter: &LogFilter) -> Result<(), RpcError> {
    if filter.value_count() > FILTER_VALUES_MAX {
        let why = format!("query exceeds {FILTER_VALUES_MAX} parameters");
        return Err(RpcError::InvalidParams(why.into()));
    }
    Ok(())
}
