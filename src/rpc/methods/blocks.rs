//! Blocks, transactions, receipts and uncles. An unknown one is null; a block below the window is
//! an error.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_actors::{
    messages::{
        BlockAt, CountTransactions, CountUncles, FindAccessList, FindBlock, FindBlockReceipts,
        FindReceipt, FindTransaction, FindUncle, QueryError, Reply, TransactionAt,
    },
    read::ask,
};
use nearhead_chain::{
    encode::value,
    json::Json,
    window::{BlockId, BlockNumberOrTag, BlockTag, ResolveError},
};
use serde_json::value::RawValue;

use crate::rpc::{
    context::{MethodResult, RequestContext},
    error::{QuerySubject, RpcError},
    params::{self, ParamError, Params},
};

pub(crate) async fn get_block_by_hash(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let at = params.required(by_hash)?;
    let full = params.required(params::boolean)?;
    params.finish()?;
    find_block(context, at, full).await
}

pub(crate) async fn get_block_by_number(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let at = params.required(by_number)?;
    let full = params.required(params::boolean)?;
    params.finish()?;
    find_block(context, at, full).await
}

async fn find_block(context: &RequestContext<'_>, at: BlockAt, full: bool) -> MethodResult {
    if is_pending(at) {
        return Ok(Json::NULL);
    }
    let snapshot = Arc::clone(&context.snapshot);
    found(ask(&context.worker.blocks, FindBlock { snapshot, at, full }).await)
}

pub(crate) async fn get_transaction_by_hash(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let at = TransactionAt::Hash(params.required(params::hash)?);
    params.finish()?;
    find_transaction(context, at).await
}

pub(crate) async fn get_transaction_by_block_hash_and_index(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let (at, index) = block_and_index(&mut params, by_hash)?;
    params.finish()?;
    find_transaction(context, TransactionAt::Index(at, index)).await
}

pub(crate) async fn get_transaction_by_block_number_and_index(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let (at, index) = block_and_index(&mut params, by_number)?;
    params.finish()?;
    if is_pending(at) {
        return Ok(Json::NULL);
    }
    find_transaction(context, TransactionAt::Index(at, index)).await
}

async fn find_transaction(context: &RequestContext<'_>, at: TransactionAt) -> MethodResult {
    let snapshot = Arc::clone(&context.snapshot);
    found(ask(&context.worker.blocks, FindTransaction { snapshot, at }).await)
}

pub(crate) async fn get_transaction_receipt(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let transaction: B256 = params.required(params::hash)?;
    params.finish()?;
    let snapshot = Arc::clone(&context.snapshot);
    found(
        ask(
            &context.worker.blocks,
            FindReceipt {
                snapshot,
                transaction,
            },
        )
        .await,
    )
}

pub(crate) async fn get_block_receipts(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    let Some(at) = only_block(context, params)? else {
        return Ok(Json::NULL);
    };
    let snapshot = Arc::clone(&context.snapshot);
    found(ask(&context.worker.blocks, FindBlockReceipts { snapshot, at }).await)
}

pub(crate) async fn get_block_access_list(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    let Some(at) = only_block(context, params)? else {
        return Ok(Json::NULL);
    };
    let find = FindAccessList {
        snapshot: Arc::clone(&context.snapshot),
        budget: context.key.tenant.call_budget.clone(),
        at,
    };
    found(ask(&context.worker.blocks, find).await)
}

pub(crate) async fn get_uncle_by_block_hash_and_index(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let (at, index) = block_and_index(&mut params, by_hash)?;
    params.finish()?;
    find_uncle(context, at, index).await
}

pub(crate) async fn get_uncle_by_block_number_and_index(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let (at, index) = block_and_index(&mut params, by_number)?;
    params.finish()?;
    find_uncle(context, at, index).await
}

async fn find_uncle(context: &RequestContext<'_>, at: BlockAt, index: u64) -> MethodResult {
    if is_pending(at) {
        return Ok(Json::NULL);
    }
    let snapshot = Arc::clone(&context.snapshot);
    found(
        ask(
            &context.worker.blocks,
            FindUncle {
                snapshot,
                at,
                index,
            },
        )
        .await,
    )
}

pub(crate) async fn get_block_transaction_count_by_hash(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let at = params.required(by_hash)?;
    params.finish()?;
    count_transactions(context, at).await
}

pub(crate) async fn get_block_transaction_count_by_number(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let at = params.required(by_number)?;
    params.finish()?;
    count_transactions(context, at).await
}

async fn count_transactions(context: &RequestContext<'_>, at: BlockAt) -> MethodResult {
    if is_pending(at) {
        return Ok(Json::NULL);
    }
    let snapshot = Arc::clone(&context.snapshot);
    let count = ask(&context.worker.blocks, CountTransactions { snapshot, at }).await;
    found(count.map(|count| count.map(value::number)))
}

pub(crate) async fn get_uncle_count_by_block_hash(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let at = params.required(by_hash)?;
    params.finish()?;
    count_uncles(context, at).await
}

pub(crate) async fn get_uncle_count_by_block_number(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let at = params.required(by_number)?;
    params.finish()?;
    count_uncles(context, at).await
}

async fn count_uncles(context: &RequestContext<'_>, at: BlockAt) -> MethodResult {
    if is_pending(at) {
        return Ok(Json::NULL);
    }
    let snapshot = Arc::clone(&context.snapshot);
    let count = ask(&context.worker.blocks, CountUncles { snapshot, at }).await;
    found(count.map(|count| count.map(value::number)))
}

/// The block of the only parameter, which may insist on a canonical one (EIP-1898); `None` for the
/// pending one.
fn only_block(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> Result<Option<BlockAt>, RpcError> {
    let id = params.required(params::block_id)?;
    params.finish()?;
    let at = match id {
        BlockId::Number(number) => BlockAt::Number(number),
        BlockId::Hash {
            hash,
            require_canonical,
        } => {
            let block = context.snapshot.by_hash(&hash);
            if require_canonical && block.is_some_and(|block| !context.snapshot.is_canonical(block))
            {
                return Err(RpcError::NotCanonical);
            }
            BlockAt::Hash(hash)
        }
    };
    Ok((!is_pending(at)).then_some(at))
}

fn by_hash(raw: &RawValue) -> Result<BlockAt, ParamError> {
    params::hash(raw).map(BlockAt::Hash)
}

fn by_number(raw: &RawValue) -> Result<BlockAt, ParamError> {
    params::block_number_or_tag(raw).map(BlockAt::Number)
}

/// The parameters `[block, index]`.
fn block_and_index<'a>(
    params: &mut Params<'a>,
    block: impl FnOnce(&'a RawValue) -> Result<BlockAt, ParamError>,
) -> Result<(BlockAt, u64), RpcError> {
    Ok((params.required(block)?, params.required(params::quantity)?))
}

/// Whether this is the pending block, which is never served.
const fn is_pending(at: BlockAt) -> bool {
    matches!(
        at,
        BlockAt::Number(BlockNumberOrTag::Tag(BlockTag::Pending))
    )
}

/// The answer, with null for a number above the head and for an unknown hash.
fn found(reply: Reply<Option<Json>>) -> MethodResult {
    match reply {
        Ok(Some(json)) => Ok(json),
        Ok(None)
        | Err(QueryError::Resolve(ResolveError::AboveHead { .. } | ResolveError::UnknownHash)) => {
            Ok(Json::NULL)
        }
        Err(error) => Err(RpcError::from_query(error, QuerySubject::Blocks)),
    }
}
