//! A node whose blocks are checked before anybody sees them.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    remote::{Answers, Asked, NodeFault, StatedBlock, Verified, VerifiedBody, Verifier},
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

/// The first transaction of an unknown type that a node stated: its fault in words.
///
/// Before a block was verified it may be the chain that is not known here; afterwards it is the node's fault.
pub(super) type UnknownType = Arc<Mutex<Option<String>>>;

/// A block as it was stated, and what was made of it.
struct Answered {
    block: Box<RawValue>,
    ommers: Vec<Box<RawValue>>,
    body: VerifiedBody,
}

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

    async fn receipts_of(&self, stated: &StatedBlock) -> Result<Option<String>, CallError> {
        self.receipts(stated.hash, Some(&stated.transactions)).await
    }

    async fn fetch(&self, ask: Ask) -> Result<Arc<Block>, FetchError> {
        // The block is checked while its receipts are under way: they are asked for as soon as its hash is known.
        let early = async {
            Ok::<_, FetchError>(match ask {
                Ask::Hash { hash, .. } => self.receipts(hash, None).await.ok().flatten(),
                Ask::Number(_) => None,
            })
        };
        let body = async {
            let (block, stated) = self.stated(ask).await?;
            let late = async {
                Ok::<_, FetchError>(match ask {
                    Ask::Hash { .. } => None,
                    Ask::Number(_) => self.receipts_of(&stated).await?,
                })
            };
            let (answered, late) = tokio::try_join!(self.body(ask, block, &stated), late)?;
            Ok((answered, stated, late))
        };
        let ((answered, stated, late), early) = tokio::try_join!(body, early)?;
        let Answered {
            block,
            ommers,
            body,
        } = answered;
        let receipts = match early.or(late) {
            Some(receipts) => receipts,
            None => {
                let receipts = self.receipts_of(&stated).await?;
                receipts.ok_or(CallError::NotFound)?
            }
        };
        let verifier = Arc::clone(&self.verifier);
        let Verified { block, ignored } = on_pool(move || {
            let answers = Answers {
                block: text(&block),
                receipts: receipts.as_bytes(),
                ommers: &texts(&ommers),
            };
            verifier.verify_rest(body, &answers)
        })
        .await
        .map_err(|fault| self.judge(&fault))?;
        if !ignored.is_empty() {
            tracing::debug!(node = %self.client.endpoint(), ?ignored, "members that are not served");
        }
        Ok(block)
    }

    /// A block, and what it states that leads to the rest of it.
    async fn stated(&self, ask: Ask) -> Result<(Box<RawValue>, StatedBlock), FetchError> {
        let json = match ask {
            Ask::Hash { hash, .. } => self.client.block_by_hash(hash).await?,
            Ask::Number(number) => self.client.block_by_number(number).await?,
        };
        on_pool(move || {
            let stated = StatedBlock::read(text(&json))?;
            let (number, hash) = (stated.header.number, stated.hash);
            // A hash says what the number is: what led to the question may have said another.
            if number != ask.number() {
                let asked = format!("block {}", ask.number());
                return Err(NodeFault::AnotherBlock {
                    asked,
                    number,
                    hash,
                });
            }
            Ok((json, stated))
        })
        .await
        .map_err(|fault| self.judge(&fault))
    }

    /// A block and its ommers, checked as far as that goes without receipts.
    async fn body(
        &self,
        ask: Ask,
        block: Box<RawValue>,
        stated: &StatedBlock,
    ) -> Result<Answered, FetchError> {
        let asked = match ask {
            Ask::Hash { hash, .. } => Asked::Hash(hash),
            Ask::Number(number) => Asked::Number(number),
        };
        let mut ommers = Vec::new();
        for index in 0..stated.ommers {
            ommers.push(self.client.uncle(stated.hash, index as u64).await?);
        }
        let verifier = Arc::clone(&self.verifier);
        on_pool(move || {
            let body = verifier.verify_body(asked, text(&block), &texts(&ommers))?;
            Ok(Answered {
                block,
                ommers,
                body,
            })
        })
        .await
        .map_err(|fault| self.judge(&fault))
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
async fn on_pool<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NodeFault> + Send + 'static,
) -> Result<T, NodeFault> {
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

fn texts(jsons: &[Box<RawValue>]) -> Vec<&[u8]> {
    jsons.iter().map(|json| text(json)).collect()
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
