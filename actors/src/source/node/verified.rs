//! A node whose blocks are checked before anybody sees them.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    remote::{Answer, Answers, Asked, NodeFault, StatedBlock, Verified, Verifier},
};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::task;

use super::{
    client::{CallError, HeadClaim, Heads, NodeClient, ReceiptsAnswer, Tag},
    follow::{FetchError, Peer},
    plan::Ask,
};

/// One node, and what its answers are checked by.
#[derive(Clone)]
pub(super) struct VerifiedNode {
    client: NodeClient,
    verifier: Arc<Verifier>,
    unknown: UnknownType,
}

/// What a node said of one block.
struct Said {
    block: Box<RawValue>,
    receipts: Option<String>,
    ommers: Vec<Box<RawValue>>,
}

/// The first transaction of an unknown type that a node stated: its fault in words.
///
/// Before a block was verified it may be the chain that is not known here; afterwards it is the node's fault.
pub(super) type UnknownType = Arc<Mutex<Option<String>>>;

impl VerifiedNode {
    pub(super) const fn new(
        client: NodeClient,
        verifier: Arc<Verifier>,
        unknown: UnknownType,
    ) -> Self {
        Self {
            client,
            verifier,
            unknown,
        }
    }

    /// A block's receipts; those of a block whose transactions are not known yet only as one list.
    async fn receipts(
        &self,
        hash: B256,
        transactions: Option<&[B256]>,
    ) -> Result<Option<String>, CallError> {
        let known = transactions.unwrap_or_default();
        Ok(match self.client.block_receipts(hash, known).await? {
            ReceiptsAnswer::Whole(list) => Some(String::from(Box::<str>::from(list))),
            ReceiptsAnswer::Single(list) => transactions.map(|_| {
                let items: Vec<&str> = list.iter().map(|receipt| receipt.get()).collect();
                format!("[{}]", items.join(","))
            }),
        })
    }

    async fn fetch(&self, ask: Ask) -> Result<Arc<Block>, FetchError> {
        let (block, receipts) = match ask {
            // Two questions at once: a new head is not to wait for two answers in turn.
            Ask::Hash { hash, .. } => {
                let (block, receipts) =
                    tokio::join!(self.client.block_by_hash(hash), self.receipts(hash, None));
                (block?, receipts.ok().flatten())
            }
            Ask::Number(number) => (self.client.block_by_number(number).await?, None),
        };
        let mut said = Said {
            block,
            receipts,
            ommers: Vec::new(),
        };
        if said.receipts.is_some() {
            // That is all of a block without ommers, as all are now.
            let outcome;
            (said, outcome) = self.verify(ask, said).await;
            let answer = Answer::Ommer(0);
            if !matches!(&outcome, Err(NodeFault::Count { answer: found, .. }) if *found == answer)
            {
                return self.take(ask, outcome);
            }
        }
        let said = self.complete(said).await?;
        let (_, outcome) = self.verify(ask, said).await;
        self.take(ask, outcome)
    }

    /// Asks for what belongs to the block and is not there yet.
    async fn complete(&self, said: Said) -> Result<Said, FetchError> {
        let (mut said, stated) = on_pool(move || {
            let stated = StatedBlock::read(text(&said.block));
            (said, stated)
        })
        .await;
        let stated = stated.map_err(|fault| self.judge(&fault))?;
        if said.receipts.is_none() {
            let receipts = self.receipts(stated.hash, Some(&stated.transactions));
            said.receipts = Some(receipts.await?.ok_or(CallError::NotFound)?);
        }
        for index in 0..stated.ommers {
            let ommer = self.client.uncle(stated.hash, index as u64);
            said.ommers.push(ommer.await?);
        }
        Ok(said)
    }

    async fn verify(&self, ask: Ask, said: Said) -> (Said, Result<Verified, NodeFault>) {
        let verifier = Arc::clone(&self.verifier);
        on_pool(move || {
            let ommers: Vec<&[u8]> = said.ommers.iter().map(|ommer| text(ommer)).collect();
            let answers = Answers {
                block: text(&said.block),
                receipts: said.receipts.as_deref().unwrap_or_default().as_bytes(),
                ommers: &ommers,
            };
            let asked = match ask {
                Ask::Hash { hash, .. } => Asked::Hash(hash),
                Ask::Number(number) => Asked::Number(number),
            };
            let outcome = verifier.verify(asked, &answers);
            (said, outcome)
        })
        .await
    }

    fn take(
        &self,
        ask: Ask,
        outcome: Result<Verified, NodeFault>,
    ) -> Result<Arc<Block>, FetchError> {
        let Verified { block, ignored } = outcome.map_err(|fault| self.judge(&fault))?;
        // A hash says what the number is: what led to the question may have said another.
        if block.number() != ask.number() {
            return Err(self.judge(&NodeFault::AnotherBlock {
                asked: format!("block {}", ask.number()),
                number: block.number(),
                hash: block.hash,
            }));
        }
        if !ignored.is_empty() {
            tracing::debug!(node = %self.client.endpoint(), ?ignored, "members that are not served");
        }
        Ok(block)
    }

    fn judge(&self, fault: &NodeFault) -> FetchError {
        match fault {
            NodeFault::Absent { .. } => return CallError::NotFound.into(),
            NodeFault::TransactionType { .. } => {
                let mut unknown = self.unknown.lock();
                unknown.get_or_insert_with(|| fault.to_string());
            }
            _ => {}
        }
        FetchError::BadBlock {
            reason: fault.reason(),
            why: fault.to_string().into(),
        }
    }
}

/// Does what takes a core for milliseconds beside the task that follows.
async fn on_pool<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends: nobody waits for the answer.
            Err(_) => std::future::pending().await,
        },
    }
}

fn text(json: &RawValue) -> &[u8] {
    json.get().as_bytes()
}

impl Peer for VerifiedNode {
    type Heads = Heads;

    fn name(&self) -> String {
        self.client.endpoint().to_string()
    }

    async fn chain_id(&self) -> Result<u64, CallError> {
        self.client.chain_id().await
    }

    async fn genesis(&self) -> Result<B256, CallError> {
        self.client.genesis().await
    }

    async fn is_syncing(&self) -> Result<bool, CallError> {
        self.client.is_syncing().await
    }

    async fn head(&self, tag: Tag) -> Result<HeadClaim, CallError> {
        self.client.head(tag).await
    }

    async fn heads(&self) -> Result<Heads, CallError> {
        self.client.subscribe_heads().await
    }

    async fn block(&self, ask: Ask) -> Result<Arc<Block>, FetchError> {
        self.fetch(ask).await
    }
}
