//! The companion methods that need no read actor: each answers with a constant, or with a value of
//! the snapshot or of the dispatcher.

use bytes::Bytes;
use nearhead_chain::{
    call::CallError,
    encode::value,
    json::Json,
    network::GenesisFacts,
    window::{BlockNumberOrTag, WINDOW_BLOCKS},
};

use crate::rpc::{
    context::{MethodResult, RequestContext},
    error::{QuerySubject, RpcError},
    params::Params,
};

pub(crate) async fn accounts(_: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    constant(params, "[]")
}

pub(crate) async fn block_number(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    params.finish()?;
    Ok(value::number(context.snapshot.head().number()))
}

/// The kinds of data in eth_capabilities, as execution-apis names them.
pub(crate) const RESOURCES: [&str; 6] =
    ["state", "tx", "logs", "receipts", "blocks", "stateproofs"];

/// Everything goes back to the same block. Only the genesis is served below it.
pub(crate) async fn capabilities(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    params.finish()?;
    let (head, oldest) = (context.snapshot.head(), context.snapshot.oldest());
    let mut json = format!(
        r#"{{"head":{{"number":"{:#x}","hash":"{}"}}"#,
        head.number(),
        head.hash
    );
    // Fewer are kept where the window has no memory for more.
    let retained = match oldest > 0 && context.snapshot.is_filled() {
        true => context.snapshot.canonical().len(),
        false => WINDOW_BLOCKS,
    };
    for resource in RESOURCES {
        json += &format!(
            r#","{resource}":{{"disabled":false,"oldestBlock":"{oldest:#x}","deleteStrategy":{{"type":"window","retentionBlocks":"{retained:#x}"}}}}"#
        );
    }
    json += "}";
    Ok(Json::from(json.into_bytes()))
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

/// The configurations of forks (EIP-7910), where calls could be run: the rules have to be known.
pub(crate) async fn config(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    params.finish()?;
    let snapshot = &context.snapshot;
    let spec = snapshot.chain().spec.as_ref();
    let spec = spec.ok_or(CallError::OtherRules)?;
    let genesis = snapshot
        .resolve_block(BlockNumberOrTag::Number(0))
        .map_err(|error| RpcError::from_query(error.into(), QuerySubject::Blocks))?;
    let genesis = GenesisFacts {
        hash: genesis.hash,
        timestamp: genesis.header.timestamp,
    };
    let configs = spec.fork_configs(genesis, snapshot.head().header.timestamp);
    Ok(configs.ok_or(CallError::Amsterdam)?)
}

/// The OpenRPC document.
pub(crate) async fn discover(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    params.finish()?;
    Ok(Json::shared(Bytes::clone(context.openrpc)))
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

/// `false`, or an object while the head is stale: a client that asks has to notice that this is not
/// the chain's newest block. No higher block is known, so all three numbers are the head's.
pub(crate) async fn syncing(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    params.finish()?;
    if !context.readiness.is_head_stale(&context.snapshot) {
        return Ok(Json::fixed("false"));
    }
    let head = context.snapshot.head().number();
    let json = format!(
        r#"{{"startingBlock":"{head:#x}","currentBlock":"{head:#x}","highestBlock":"{head:#x}"}}"#
    );
    Ok(Json::from(json.into_bytes()))
}

fn constant(params: Params<'_>, json: &'static str) -> MethodResult {
    params.finish()?;
    Ok(Json::fixed(json))
}
