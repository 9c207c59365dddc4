//! An upstream whose blocks are checked before anybody sees them.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    remote::{
        BlockAnswers, RequestedBlock, StatedBlock, StatedReceipts, UpstreamFault, Verified,
        VerifiedBody, Verifier,
    },
};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::{task, try_join};

use super::{
    client::{CallError, HeadClaim, Heads, ReceiptsAnswer, Tag, UpstreamClient},
    follow::{FetchError, Upstream},
    plan::Ask,
};

/// One upstream, and what its answers are checked by.
#[derive(Clone)]
pub(super) struct VerifiedUpstream {
    client: UpstreamClient,
    verifier: Arc<Verifier>,
    unknown: UnknownType,
}

/// The first transaction of an unknown type that an upstream stated: its fault in words.
///
/// Before a block was verified it may be the chain that is not known here, if no other upstream says
/// otherwise; afterwards it is the upstream's fault.
pub(super) type UnknownType = Arc<Mutex<Option<String>>>;

/// A block as it was stated, and what was made of it.
struct AnsweredBlock {
    json: Box<RawValue>,
    ommers: Vec<Box<RawValue>>,
    body: VerifiedBody,
}

/// A block's receipts as they were stated, and what was read of them.
struct AnsweredReceipts {
    json: String,
    stated: StatedReceipts,
}

impl VerifiedUpstream {
    pub(super) const fn new(
        client: UpstreamClient,
        verifier: Arc<Verifier>,
        unknown: UnknownType,
    ) -> Self {
        Self {
            client,
            verifier,
            unknown,
        }
    }

    async fn fetch(&self, ask: Ask) -> Result<Arc<Block>, FetchError> {
        // Each is read, and checked as far as that goes, while the other is under way. What is
        // wrong with receipts waits until the block was found to be right. They are asked for
        // first, since the block takes longer to check: a geth without a core for each answers the
        // newest question first.
        let listed = |hash| async move { Ok(self.receipts(hash, None).await) };
        let (receipts, block) = match ask {
            Ask::Hash { hash, .. } => {
                let block = async { self.body(ask, self.stated(ask).await?).await };
                try_join!(listed(hash), block)?
            }
            Ask::Number(_) => {
                let block = self.stated(ask).await?;
                try_join!(listed(block.1.hash()), self.body(ask, block))?
            }
        };
        let receipts = match receipts {
            Ok(Some(receipts)) => receipts,
            // One by one; or once more, from an upstream that has the block by now.
            Ok(None) | Err(FetchError::Call(CallError::NotFound | CallError::Rpc { .. })) => {
                let transactions = block.body.transaction_hashes();
                let receipts = self.receipts(block.body.hash(), Some(&transactions));
                receipts.await?.ok_or(CallError::NotFound)?
            }
            Err(error) => return Err(error),
        };
        let verifier = Arc::clone(&self.verifier);
        let Verified { block, ignored } = self
            .on_pool(move || {
                let answers = BlockAnswers {
                    block: text(&block.json),
                    receipts: receipts.json.as_bytes(),
                    ommers: &texts(&block.ommers),
                };
                verifier.verify_receipts(block.body, receipts.stated, &answers)
            })
            .await?;
        if !ignored.is_empty() {
            tracing::debug!(node = %self.client.endpoint(), ?ignored, "members that are not served");
        }
        Ok(block)
    }

    /// A block's receipts; those of a block whose transactions are not known yet only as one list.
    async fn receipts(
        &self,
        hash: B256,
        transactions: Option<&[B256]>,
    ) -> Result<Option<AnsweredReceipts>, FetchError> {
        let known = transactions.unwrap_or_default();
        let json = match self.client.block_receipts(hash, known).await? {
            ReceiptsAnswer::Whole(list) => String::from(Box::<str>::from(list)),
            ReceiptsAnswer::Single(_) if transactions.is_none() => return Ok(None),
            ReceiptsAnswer::Single(list) => {
                let items: Vec<&str> = list.iter().map(|receipt| receipt.get()).collect();
                format!("[{}]", items.join(","))
            }
        };
        let read = move || {
            let stated = StatedReceipts::read(json.as_bytes())?;
            Ok(AnsweredReceipts { json, stated })
        };
        self.on_pool(read).await.map(Some)
    }

    /// A block, and what it states.
    async fn stated(&self, ask: Ask) -> Result<(Box<RawValue>, StatedBlock), FetchError> {
        let json = match ask {
            Ask::Hash { hash, .. } => self.client.block_by_hash(hash).await?,
            Ask::Number(number) => self.client.block_by_number(number).await?,
        };
        self.on_pool(move || {
            let stated = StatedBlock::read(text(&json))?;
            let number = stated.header().number;
            // A hash says what the number is: what led to the question may have said another.
            if number != ask.number() {
                return Err(UpstreamFault::AnotherBlock {
                    asked: format!("block {}", ask.number()),
                    number,
                    hash: stated.hash(),
                });
            }
            Ok((json, stated))
        })
        .await
    }

    /// A block and its ommers, checked as far as that goes without receipts.
    async fn body(
        &self,
        ask: Ask,
        (json, stated): (Box<RawValue>, StatedBlock),
    ) -> Result<AnsweredBlock, FetchError> {
        let asked = match ask {
            Ask::Hash { hash, .. } => RequestedBlock::Hash(hash),
            Ask::Number(number) => RequestedBlock::Number(number),
        };
        let mut ommers = Vec::new();
        for index in 0..stated.ommers() {
            ommers.push(self.client.uncle(stated.hash(), index as u64).await?);
        }
        let verifier = Arc::clone(&self.verifier);
        self.on_pool(move || {
            let body = verifier.verify_body(asked, stated, &texts(&ommers))?;
            Ok(AnsweredBlock { json, ommers, body })
        })
        .await
    }

    /// Does what takes a core for milliseconds beside the task that follows.
    async fn on_pool<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, UpstreamFault> + Send + 'static,
    ) -> Result<T, FetchError> {
        match task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|fault| self.judge(&fault)),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends: nobody waits for the answer.
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn judge(&self, fault: &UpstreamFault) -> FetchError {
        match fault {
            UpstreamFault::Absent { .. } => return CallError::NotFound.into(),
            UpstreamFault::TransactionType { .. } => {
                let mut unknown = self.unknown.lock();
                unknown.get_or_insert_with(|| fault.to_string());
            }
            _ => {}
        }
        FetchError::BadBlock {
            reason: fault.reason(),
            error: fault.to_string().into(),
        }
    }
}

fn text(json: &RawValue) -> &[u8] {
    json.get().as_bytes()
}

fn texts(jsons: &[Box<RawValue>]) -> Vec<&[u8]> {
    jsons.iter().map(|json| text(json)).collect()
}

impl Upstream for VerifiedUpstream {
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
