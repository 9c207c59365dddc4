//! The companion methods that need no read actor: each answers with a constant, or with a value of
//! the snapshot.

use nearhead_chain::{encode::value, json::Json};

use crate::rpc::{
    context::{MethodResult, RequestContext},
    params::Params,
};

pub(crate) async fn accounts(_: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    constant(params, "[]")
}

pub(crate) async fn block_number(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    params.finish()?;
    Ok(value::number(context.snapshot.head().number()))
}

pub(crate) async fn chain_id(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    params.finish()?;
    Ok(value::number(context.snapshot.chain_id()))
}

pub(crate) async fn client_version(_: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    constant(
        params,
        concat!("\"nearhead/v", env!("CARGO_PKG_VERSION"), "\""),
    )
}

pub(crate) async fn listening(_: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    constant(params, "true")
}

pub(crate) async fn network_version(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    params.finish()?;
    Ok(Json::from(
        format!("\"{}\"", context.snapshot.chain_id()).into_bytes(),
    ))
}

pub(crate) async fn syncing(_: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    constant(params, "false")
}

fn constant(params: Params<'_>, json: &'static str) -> MethodResult {
    params.finish()?;
    Ok(Json::fixed(json))
}
