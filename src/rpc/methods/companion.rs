//! What real clients ask before they ask anything else; answered from the view, without a message.

use nearhead_chain::{encode::value, json::Json};

use crate::rpc::{dispatch::View, error::RpcError, params::Params};

type Answered = Result<Json, RpcError>;

pub(crate) async fn accounts(_: &View<'_>, params: Params<'_>) -> Answered {
    constant(params, "[]")
}

pub(crate) async fn block_number(view: &View<'_>, params: Params<'_>) -> Answered {
    params.finish()?;
    Ok(value::number(view.snapshot.head().number()))
}

pub(crate) async fn chain_id(view: &View<'_>, params: Params<'_>) -> Answered {
    params.finish()?;
    Ok(value::number(view.snapshot.chain_id()))
}

pub(crate) async fn client_version(_: &View<'_>, params: Params<'_>) -> Answered {
    constant(
        params,
        concat!("\"nearhead/v", env!("CARGO_PKG_VERSION"), "\""),
    )
}

pub(crate) async fn listening(_: &View<'_>, params: Params<'_>) -> Answered {
    constant(params, "true")
}

pub(crate) async fn network_version(view: &View<'_>, params: Params<'_>) -> Answered {
    params.finish()?;
    Ok(Json::from(
        format!("\"{}\"", view.snapshot.chain_id()).into_bytes(),
    ))
}

pub(crate) async fn syncing(_: &View<'_>, params: Params<'_>) -> Answered {
    constant(params, "false")
}

fn constant(params: Params<'_>, json: &'static str) -> Answered {
    params.finish()?;
    Ok(Json::fixed(json))
}
