//! Blocks and their contents, by number, hash or index. Each handler is one look-up in the
//! snapshot of its message; an access list that is not held is fetched.

use std::{ops::ControlFlow, pin::pin, sync::Arc};

use actix::{Actor, Context, Handler, Supervised};
use alloy_primitives::B256;
use bytes::Bytes;
use nearhead_chain::{
    block::Block,
    json::Json,
    window::{ResolveError, Snapshot},
};

use super::{now_or_later::NowOrLater, resources::ReadResources, traced::handle_traced};
use crate::{
    admission::{MAILBOX_CAPACITY, Panics},
    messages::{
        BlockAt, CountTransactions, CountUncles, FindAccessList, FindBlock, FindBlockReceipts,
        FindReceipt, FindTransaction, FindUncle, QueryError, Reply, TransactionAt,
    },
    upstream::{BlockRef, ListRef},
};

/// Answers from the JSON of blocks, and with their access lists; one on every worker's arbiter.
#[derive(Debug)]
pub struct BlockStoreActor {
    resources: ReadResources,
}

impl BlockStoreActor {
    pub(crate) const fn new(resources: ReadResources) -> Self {
        Self { resources }
    }

    pub(crate) const fn panics(&self) -> &Panics {
        self.resources.admission.panics()
    }
}

impl Actor for BlockStoreActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl Supervised for BlockStoreActor {}

handle_traced! {
    BlockStoreActor:
    FindBlock,
    FindTransaction,
    FindReceipt,
    FindBlockReceipts,
    FindAccessList,
    FindUncle,
    CountTransactions,
    CountUncles,
}

impl Handler<FindBlock> for BlockStoreActor {
    type Result = Reply<Option<Json>>;

    fn handle(&mut self, find: FindBlock, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            let block = match find.at {
                // The genesis may be below the window; graph-node reads it when it starts.
                BlockAt::Number(number) => find.snapshot.resolve_block(number)?,
                at @ BlockAt::Hash(_) => block_at(&find.snapshot, at)?,
            };
            let json = match find.full {
                true => block.json().block(true),
                false => block.json_without_senders().block_with_hashes(),
            };
            Ok(Some(Json::shared(json)))
        })
    }
}

impl Handler<FindTransaction> for BlockStoreActor {
    type Result = Reply<Option<Json>>;

    fn handle(&mut self, find: FindTransaction, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            let json = match find.at {
                TransactionAt::Hash(hash) => {
                    let (block, index) = transaction(&find.snapshot, &hash)?;
                    block.json().transaction(index)
                }
                TransactionAt::Index(at, index) => {
                    let block = block_at(&find.snapshot, at)?;
                    item(index, |index| block.json().transaction(index))
                }
            };
            Ok(json.map(Json::shared))
        })
    }
}

impl Handler<FindReceipt> for BlockStoreActor {
    type Result = Reply<Option<Json>>;

    fn handle(&mut self, find: FindReceipt, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            let (block, index) = transaction(&find.snapshot, &find.transaction)?;
            Ok(block.json().receipt(index).map(Json::shared))
        })
    }
}

impl Handler<FindBlockReceipts> for BlockStoreActor {
    type Result = Reply<Option<Json>>;

    fn handle(&mut self, find: FindBlockReceipts, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            let block = block_at(&find.snapshot, find.at)?;
            Ok(Some(Json::shared(block.json().receipts())))
        })
    }
}

impl Handler<FindAccessList> for BlockStoreActor {
    type Result = NowOrLater<Option<Json>>;

    fn handle(&mut self, find: FindAccessList, ctx: &mut Context<Self>) -> Self::Result {
        let found = self.panics().guard(ctx, || {
            let block = block_at(&find.snapshot, find.at)?;
            let number = block.number();
            let list = ListRef::of(block).ok_or(QueryError::NoAccessList { number })?;
            let source = self.resources.state.as_ref();
            let source = source.ok_or(QueryError::StateUnavailable)?;
            if let Some(json) = source.held_access_list(&list.hash) {
                return Ok(ControlFlow::Break(json));
            }
            let block = BlockRef::of(block).ok_or(QueryError::NoState { number })?;
            Ok(ControlFlow::Continue((source.clone(), block, list)))
        });
        // Lists are held for as long as there is room, and not as long as the window: a reply may
        // be all that holds one.
        let (source, block, list) = match found {
            Ok(ControlFlow::Continue(missing)) => missing,
            Ok(ControlFlow::Break(json)) => return NowOrLater::Now(Ok(Some(Json::own(json)))),
            Err(error) => return NowOrLater::Now(Err(error)),
        };
        let admission = self.resources.admission.clone();
        NowOrLater::later(async move {
            let json = pin!(source.access_list(&admission.remote, &find.budget, &block, list));
            let json = admission.panics().catch_async(json).await;
            let json = json.unwrap_or(Err(QueryError::Panicked))?;
            Ok(Some(Json::own(json)))
        })
    }
}

impl Handler<FindUncle> for BlockStoreActor {
    type Result = Reply<Option<Json>>;

    fn handle(&mut self, find: FindUncle, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            let block = block_at(&find.snapshot, find.at)?;
            let json = block.json_without_senders();
            Ok(item(find.index, |index| json.uncle(index)).map(Json::shared))
        })
    }
}

impl Handler<CountTransactions> for BlockStoreActor {
    type Result = Reply<Option<u64>>;

    fn handle(&mut self, count: CountTransactions, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            let block = block_at(&count.snapshot, count.at)?;
            Ok(Some(block.transaction_hashes.len() as u64))
        })
    }
}

impl Handler<CountUncles> for BlockStoreActor {
    type Result = Reply<Option<u64>>;

    fn handle(&mut self, count: CountUncles, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            let block = block_at(&count.snapshot, count.at)?;
            Ok(Some(block.json_without_senders().uncle_count() as u64))
        })
    }
}

/// The block with this hash or number.
fn block_at(snapshot: &Snapshot, at: BlockAt) -> Result<&Arc<Block>, ResolveError> {
    match at {
        BlockAt::Hash(hash) => snapshot.by_hash(&hash).ok_or_else(|| snapshot.not_found()),
        BlockAt::Number(number) => snapshot.resolve(number),
    }
}

/// The block of a transaction, and its index.
fn transaction<'a>(
    snapshot: &'a Snapshot,
    hash: &B256,
) -> Result<(&'a Arc<Block>, usize), ResolveError> {
    snapshot
        .transaction(hash)
        .ok_or_else(|| snapshot.not_found())
}

/// The item at an index, which may be out of range.
fn item(index: u64, get: impl FnOnce(usize) -> Option<Bytes>) -> Option<Bytes> {
    get(usize::try_from(index).ok()?)
}
