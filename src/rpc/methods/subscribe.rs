//! eth_subscribe and eth_unsubscribe, which need a session.

use std::rc::Rc;

use alloy_primitives::B256;
use nearhead_chain::{json::Json, log_search::LogFilter};
use serde_json::value::RawValue;

use crate::rpc::{
    context::{MethodResult, RequestContext},
    error::RpcError,
    log_query::{self, LogQuery},
    params::{self, ParamError, Params},
    request_session::{RequestSession, SubscriptionKind},
};

/// The member that names the block to resume after.
const SINCE: &str = "since";

/// `["newHeads"]`, `["logs", filter]` or `["reorgs"]`, then optionally `{"since": hash}`. Some
/// clients name blocks in the filter; they are ignored, as other servers do.
pub(crate) async fn subscribe(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let name = params.required(params::text)?;
    let kind = match &*name {
        "newHeads" => SubscriptionKind::NewHeads,
        "reorgs" => SubscriptionKind::Reorgs,
        "logs" => {
            let filter = params.optional(LogFilter::default(), filter)?;
            log_query::check_value_count(&filter)?;
            SubscriptionKind::Logs(Rc::new(filter))
        }
        _ => {
            let error = "no such subscription, there are newHeads, logs and reorgs";
            return Err(RpcError::InvalidParams(error.into()));
        }
    };
    let has_filter = matches!(kind, SubscriptionKind::Logs(_));
    let mut since = params.optional(None, since)?;
    if !has_filter && since.is_none() {
        // Without a filter, `since` may be the second parameter, or the third as for logs.
        since = params.optional(None, self::since)?;
    }
    params.finish()?;
    match &kind {
        SubscriptionKind::Logs(filter) => context.contracts.filter(filter)?,
        SubscriptionKind::NewHeads | SubscriptionKind::Reorgs => context.contracts.names_none(),
    }
    let id = session(context)?.subscribe(kind, since, &context.snapshot)?;
    Ok(Json::from(format!("\"{id}\"").into_bytes()))
}

/// `[id]`; true, or an error if there is no such subscription.
pub(crate) async fn unsubscribe(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let id = params.required(params::text)?;
    params.finish()?;
    if !session(context)?.unsubscribe(&id) {
        return Err(RpcError::SubscriptionNotFound);
    }
    Ok(Json::fixed("true"))
}

fn session<'a>(context: &RequestContext<'a>) -> Result<&'a dyn RequestSession, RpcError> {
    context.session.ok_or(RpcError::NotificationsUnsupported)
}

/// A filter object. `since` in it is an error: ignoring it would silently skip blocks.
fn filter(raw: &RawValue) -> Result<LogFilter, ParamError> {
    let [since] = params::members(raw, [SINCE])?;
    if since.is_some() {
        return Err("since stands in an object of its own after the filter".into());
    }
    LogQuery::read(raw).map(|query| query.filter)
}

/// `{"since": hash}`; null and `{}` count as absent. Any other member is an error: ignoring a
/// misspelt one would silently skip blocks.
fn since(raw: &RawValue) -> Result<Option<B256>, ParamError> {
    let mut is_known = true;
    params::each_member(raw, |name, _| is_known &= name == SINCE)?;
    if !is_known {
        return Err("unknown option, there is since".into());
    }
    let [since] = params::members(raw, [SINCE])?;
    since.map(params::hash).transpose()
}
