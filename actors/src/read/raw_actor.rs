//! Blocks, receipts and transactions in RLP, encoded from the JSON of blocks.

use std::time::Duration;

use actix::{Actor, Context, Handler, Supervised};
use nearhead_chain::{json::Json, log_search::Cancellation};

use super::{
    now_or_later::NowOrLater, pool::PoolQuery, resources::ReadResources, traced::handle_traced,
};
use crate::{
    admission::{Entry, MAILBOX_CAPACITY, Panics, RAW_BYTE_NANOS},
    messages::{EncodeRaw, Reply},
};

/// Bytes of JSON of a transaction or a receipt that is read on the worker's thread: 0.4 ms at
/// most, where it is nothing but empty logs.
const WORKER_ITEM_BYTES_MAX: usize = 64 << 10;

/// Encodes what consensus encodes; one on every worker's arbiter.
///
/// A worker makes a large answer part by part as it is sent, which takes it as long as one item
/// does. What has an item that would keep it for too long is made whole by the pool.
#[derive(Debug)]
pub struct RawActor {
    resources: ReadResources,
}

impl RawActor {
    pub(crate) const fn new(resources: ReadResources) -> Self {
        Self { resources }
    }

    pub(crate) const fn panics(&self) -> &Panics {
        self.resources.admission.panics()
    }
}

impl Actor for RawActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl Supervised for RawActor {}

handle_traced!(RawActor: EncodeRaw);

impl Handler<EncodeRaw> for RawActor {
    type Result = NowOrLater<Json>;

    fn handle(&mut self, encode: EncodeRaw, ctx: &mut Context<Self>) -> Self::Result {
        let (all, largest) = encode.item.read_bytes();
        if largest <= WORKER_ITEM_BYTES_MAX {
            let built = || Ok(encode.item.json(encode.built_max)?);
            return NowOrLater::Now(self.panics().guard(ctx, built));
        }
        let pool = self.resources.pool.clone();
        let work = Duration::from_nanos(all.saturating_mul(RAW_BYTE_NANOS) as u64);
        let share = encode.share;
        NowOrLater::later(async move { pool.run(encode, share, work, Entry::New).await })
    }
}

impl PoolQuery for EncodeRaw {
    type Output = Json;

    fn cancellation(&self) -> &Cancellation {
        &self.cancel
    }

    fn run(&self) -> Reply<Json> {
        Ok(self.item.json(usize::MAX)?)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use alloy_primitives::{Address, Log};
    use nearhead_chain::{raw::RawItem, test_block::TestBlock};

    use super::*;
    use crate::{
        messages::QueryError,
        read::{Worker, ask},
        share::Share,
    };

    /// A receipt with so many logs is read on the worker's thread, or by the pool if it is large.
    #[actix::test]
    async fn large_items_are_read_by_the_pool() {
        let resources = ReadResources::start(1, 1 << 20, None).unwrap();
        let worker = Worker::start(&resources);
        let taken = || {
            resources
                .queues()
                .map(|queue| queue.taken)
                .iter()
                .sum::<u64>()
        };
        for (logs, by_pool) in [(0, 0), (10, 0), (1_000, 2)] {
            let log = Log::new_unchecked(Address::ZERO, Vec::new(), vec![7; 100].into());
            let block = TestBlock {
                salt: 0,
                transactions: vec![(1, vec![log; logs])],
            };
            let block = block.genesis();
            let before = taken();
            for built_max in [0, usize::MAX] {
                let item = RawItem::Receipts(Arc::clone(&block));
                let expected = item.json(usize::MAX).unwrap().into_bytes();
                let encode = EncodeRaw {
                    item,
                    built_max,
                    share: Share::default(),
                    cancel: Cancellation::default(),
                };
                let found = ask(&worker.raw, encode).await.unwrap();
                assert_eq!(found.into_bytes(), expected, "{logs} logs");
            }
            assert_eq!(taken() - before, by_pool, "{logs} logs");
            let absent = EncodeRaw {
                item: RawItem::Transaction(block, 1),
                built_max: 0,
                share: Share::default(),
                cancel: Cancellation::default(),
            };
            let refused = ask(&worker.raw, absent).await;
            assert!(matches!(refused, Err(QueryError::Raw(_))), "{refused:?}");
        }
    }
}
