//! eth_subscribe and eth_unsubscribe, on connections that can be told things.

use alloy_primitives::B256;
use nearhead_actors::messages::Weighed;
use nearhead_chain::json::Json;
use serde_json::value::RawValue;

use crate::rpc::{
    dispatch::View,
    error::RpcError,
    log_query::LogQuery,
    methods::logs::check_filter,
    params::{self, Params, Why},
    subscriber::{Subscriber, Topic},
};

/// `["newHeads"]`, `["logs", filter]`, `["reorgs"]`; then, if wanted, `{"since": hash}`.
pub(crate) async fn subscribe(
    view: &View<'_>,
    mut params: Params<'_>,
) -> Result<Weighed, RpcError> {
    let kind = params.required(params::text)?;
    let topic = match &*kind {
        "newHeads" => Topic::NewHeads,
        "reorgs" => Topic::Reorgs,
        "logs" => {
            let filter = params.optional(None, |raw| LogQuery::read(raw).map(Some))?;
            let filter = filter.map(|query| query.filter).unwrap_or_default();
            check_filter(&filter)?;
            Topic::Logs(filter)
        }
        _ => {
            let why = "no such subscription, there are newHeads, logs and reorgs";
            return Err(RpcError::InvalidParams(why.into()));
        }
    };
    let has_filter = matches!(topic, Topic::Logs(_));
    let mut since = params.optional(None, since)?;
    if !has_filter && since.is_none() {
        // In the second place, where a filter would be, or in the third, where it is for logs.
        since = params.optional(None, self::since)?;
    }
    params.finish()?;
    let id = subscriber(view)?.subscribe(topic, since)?;
    Ok(Json::from(format!("\"{id}\"").into_bytes()).into())
}

/// `[id]`; whether there was such a subscription.
pub(crate) async fn unsubscribe(
    view: &View<'_>,
    mut params: Params<'_>,
) -> Result<Weighed, RpcError> {
    let id = params.required(params::text)?;
    params.finish()?;
    if !subscriber(view)?.unsubscribe(&id) {
        return Err(RpcError::SubscriptionNotFound);
    }
    Ok(Json::from(b"true".to_vec()).into())
}

fn subscriber<'a>(view: &View<'a>) -> Result<&'a dyn Subscriber, RpcError> {
    view.subscriber.ok_or(RpcError::NotificationsUnsupported)
}

/// `{"since": hash}`; null and `{}` are as absent.
fn since(raw: &RawValue) -> Result<Option<B256>, Why> {
    let [since] = params::members(raw, ["since"])?;
    since.map(params::hash).transpose()
}
