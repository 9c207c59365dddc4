//! Blocks, headers, receipts and transactions as consensus encodes them.

use std::sync::Arc;

use nearhead_actors::{
    messages::{EncodeRaw, QueryError},
    read::ask,
};
use nearhead_chain::{block::Block, encode::value, json::Json, raw::RawItem, window::ResolveError};

use crate::rpc::{
    cancel_on_drop::CancelOnDrop,
    context::{MethodResult, RequestContext},
    error::{QuerySubject, RpcError},
    params::{self, Params},
    price::RAW_ITEMS_OF_KEY,
};

/// A block in RLP.
pub(crate) async fn get_block(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    let block = block(context, params)?;
    count(context, block.transaction_hashes.len());
    encode(context, RawItem::Block(block)).await
}

/// A header in RLP.
pub(crate) async fn get_header(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    let block = block(context, params)?;
    Ok(value::raw_header(&block.header))
}

/// The EIP-2718 encodings of a block's receipts.
pub(crate) async fn get_receipts(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    let block = block(context, params)?;
    count(context, block.transaction_hashes.len() + block.log_count());
    encode(context, RawItem::Receipts(block)).await
}

/// The EIP-2718 encoding of a transaction; empty if it is unknown, as in geth.
pub(crate) async fn get_transaction(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let hash = params.required(params::hash)?;
    params.finish()?;
    match context.snapshot.transaction(&hash) {
        Some((block, index)) => {
            let block = Arc::clone(block);
            encode(context, RawItem::Transaction(block, index)).await
        }
        None => match context.snapshot.not_found() {
            ResolveError::UnknownHash => Ok(Json::fixed(r#""0x""#)),
            error => Err(refused(error.into())),
        },
    }
}

/// The block of the only parameter.
fn block(context: &RequestContext<'_>, mut params: Params<'_>) -> Result<Arc<Block>, RpcError> {
    let at = params.required(params::block_number_or_tag)?;
    params.finish()?;
    let block = context.snapshot.resolve_block(at);
    block.cloned().map_err(|error| refused(error.into()))
}

/// Counts so many transactions, receipts and logs for the price: each is read from its JSON.
fn count(context: &RequestContext<'_>, items: usize) {
    context.keys.set(items.div_ceil(RAW_ITEMS_OF_KEY));
}

async fn encode(context: &RequestContext<'_>, item: RawItem) -> MethodResult {
    let cancel = CancelOnDrop::default();
    let encode = EncodeRaw {
        item,
        built_max: context.built_max,
        share: context.key.tenant.call_budget.share(),
        cancel: cancel.token(),
    };
    ask(&context.worker.raw, encode).await.map_err(refused)
}

fn refused(error: QueryError) -> RpcError {
    RpcError::from_query(error, QuerySubject::Blocks)
}
