//! eth_getLogs.

use std::{sync::Arc, time::Instant};

use nearhead_actors::{
    messages::{FindLogs, LogRange},
    read::ask,
    trace,
};
use nearhead_chain::json::Json;

use crate::{
    limits::LOGS_MAX,
    rpc::{
        cancel_on_drop::CancelOnDrop,
        context::{MethodResult, RequestContext},
        error::{QuerySubject, RpcError},
        log_query::{self, LogQuery},
        params::Params,
    },
};

pub(crate) async fn get_logs(context: &RequestContext<'_>, mut params: Params<'_>) -> MethodResult {
    let deadline = Instant::now() + context.logs_deadline;
    let query = params.required(LogQuery::read)?;
    params.finish()?;
    context.contracts.filter(&query.filter)?;
    find_logs(context, query, deadline).await
}

/// The logs that match, whose contracts were checked.
pub(super) async fn find_logs(
    context: &RequestContext<'_>,
    LogQuery { blocks, filter }: LogQuery,
    deadline: Instant,
) -> MethodResult {
    let Some(range) = blocks.resolve(&context.snapshot)? else {
        return Ok(Json::fixed("[]"));
    };
    log_query::check_value_count(&filter)?;
    if let LogRange::Numbers { from, to } = range {
        let span = trace::current();
        span.record("from_block", from);
        span.record("to_block", to);
    }
    let cancel = CancelOnDrop::default();
    let find = FindLogs {
        snapshot: Arc::clone(&context.snapshot),
        range,
        filter,
        limit: LOGS_MAX,
        share: context.key.tenant.call_budget.share(),
        deadline,
        cancel: cancel.token(),
    };
    ask(&context.worker.logs, find)
        .await
        .map_err(|error| RpcError::from_query(error, QuerySubject::Logs))
}
