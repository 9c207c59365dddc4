//! An upstream whose blocks are verified before they are passed on.

use std::{sync::Arc, time::Duration};

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    remote::{
        BlockAnswers, RequestedBlock, StatedBlock, StatedHeader, StatedReceipts, UpstreamFault,
        Verified, VerifiedBody, Verifier,
    },
};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::{task, try_join};

use super::{
    client::{CallError, HeadClaim, Heads, ReceiptsAnswer, Tag, UpstreamClient, answer_bytes},
    follow::{FetchError, Upstream},
    health::Fault,
    plan::Ask,
};
use crate::{head::Head, saved::SavedBlocks};

/// One upstream, with the verifier of its answers.
#[derive(Clone)]
pub(super) struct VerifiedUpstream {
    /// The client for calls about heads.
    pub(super) heads: UpstreamClient,
    /// The client for blocks and receipts.
    pub(super) blocks: UpstreamClient,
    pub(super) verifier: Arc<Verifier>,
    pub(super) unknown_transaction: UnknownTransaction,
    /// The served head, whose gas limit bounds the next blocks.
    pub(super) head: Head,
    /// The blocks of an earlier process. The upstream is asked only for others.
    pub(super) saved: Option<Arc<SavedBlocks>>,
}

/// The message of the first check that failed because of a transaction of an unknown type.
///
/// Before the first verified block, this may mean that the chain is not supported; after it, the
/// upstream is at fault.
pub(super) type UnknownTransaction = Arc<Mutex<Option<String>>>;

/// A block as stated, and its verified body.
struct AnsweredBlock {
    json: Box<RawValue>,
    ommers: Vec<Box<RawValue>>,
    body: VerifiedBody,
}

/// A block's receipts as stated, and as parsed.
struct AnsweredReceipts {
    json: String,
    stated: StatedReceipts,
}

impl VerifiedUpstream {
    /// The longest block, and the longest list of its receipts, in bytes.
    fn block_bytes_max(&self) -> usize {
        let served = self.head.load();
        answer_bytes::block(served.map(|served| served.head().header.gas_limit))
    }

    /// The block that is asked for, if an earlier process has saved it.
    ///
    /// By number it is a guess, as an upstream's answer is: the follower compares its hash with the
    /// one that its child names.
    async fn restore(&self, ask: Ask) -> Option<Arc<Block>> {
        let saved = self.saved.as_ref()?;
        let hash = match ask {
            Ask::Hash { hash, .. } => hash,
            Ask::Number(number) => saved.hash_at(number)?,
        };
        let block = saved.block(&hash).await?;
        (block.number() == ask.number()).then_some(block)
    }

    async fn fetch(&self, ask: Ask) -> Result<Arc<Block>, FetchError> {
        if let Some(block) = self.restore(ask).await {
            return Ok(block);
        }
        // Block and receipts are fetched concurrently, and each is parsed and checked while the
        // other is in progress. A fault in the receipts counts only once the body is verified. The
        // receipts are requested first: the body takes longer to check, and a geth that is short of
        // cores answers the newest request first.
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
            // Ask again, now that the transactions are known: the receipts come one by one, or in
            // one list if the upstream has the block by now.
            Ok(None) | Err(FetchError::Call(CallError::NotFound | CallError::Rpc { .. })) => {
                let transactions = block.body.transaction_hashes();
                let receipts = self.receipts(block.body.hash(), Some(&transactions));
                receipts.await?.ok_or(CallError::NotFound)?
            }
            Err(error) => return Err(error),
        };
        let verifier = Arc::clone(&self.verifier);
        let Verified { block, ignored } = self
            .on_verifier_thread(move || {
                let answers = BlockAnswers {
                    block: text(&block.json),
                    receipts: receipts.json.as_bytes(),
                    ommers: &texts(&block.ommers),
                };
                verifier.verify_receipts(block.body, receipts.stated, &answers)
            })
            .await?;
        if !ignored.is_empty() {
            tracing::debug!(node = %self.blocks.endpoint(), ?ignored, "members that are not served");
        }
        Ok(block)
    }

    /// A block's receipts. `None` if the upstream gives them only one by one and `transactions` is
    /// `None`.
    async fn receipts(
        &self,
        hash: B256,
        transactions: Option<&[B256]>,
    ) -> Result<Option<AnsweredReceipts>, FetchError> {
        let known = transactions.unwrap_or_default();
        let answer = self
            .blocks
            .block_receipts(hash, known, self.block_bytes_max());
        let answer = match answer.await? {
            ReceiptsAnswer::Single(_) if transactions.is_none() => return Ok(None),
            answer => answer,
        };
        let read = move || {
            let json = match answer {
                ReceiptsAnswer::Whole(list) => String::from(Box::<str>::from(list.into_json())),
                ReceiptsAnswer::Single(list) => {
                    let items: Vec<&str> = list.iter().map(|receipt| receipt.get()).collect();
                    format!("[{}]", items.join(","))
                }
            };
            let stated = StatedReceipts::read(json.as_bytes())?;
            Ok(AnsweredReceipts { json, stated })
        };
        self.on_verifier_thread(read).await.map(Some)
    }

    /// A block as JSON, and parsed.
    async fn stated(&self, ask: Ask) -> Result<(Box<RawValue>, StatedBlock), FetchError> {
        let bytes_max = self.block_bytes_max();
        let answer = match ask {
            Ask::Hash { hash, .. } => self.blocks.block_by_hash(hash, bytes_max).await?,
            Ask::Number(number) => self.blocks.block_by_number(number, bytes_max).await?,
        };
        self.on_verifier_thread(move || {
            let stated = StatedBlock::read(text(&answer))?;
            let number = stated.header().number;
            // The hash determines the number, but the claim that led here may have stated another.
            if number != ask.number() {
                return Err(UpstreamFault::AnotherBlock {
                    asked: format!("block {}", ask.number()),
                    number,
                    hash: stated.hash(),
                });
            }
            Ok((answer.into_json(), stated))
        })
        .await
    }

    async fn fetch_header(&self, number: u64, hash: B256) -> Result<StatedHeader, FetchError> {
        if let Some(block) = self.restore(Ask::Hash { number, hash }).await {
            return Ok(StatedHeader::from(&*block));
        }
        let json = self.blocks.header_by_hash(hash).await?;
        self.on_verifier_thread(move || {
            let stated = StatedHeader::read(text(&json))?;
            let found = (stated.header().number, stated.hash());
            if found != (number, hash) {
                return Err(UpstreamFault::AnotherBlock {
                    asked: format!("block {number} {hash}"),
                    number: found.0,
                    hash: found.1,
                });
            }
            Ok(stated)
        })
        .await
    }

    /// A block with its ommers, verified as far as possible without receipts.
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
        for index in 0..stated.ommer_count() {
            ommers.push(self.blocks.uncle(stated.hash(), index as u64).await?);
        }
        let verifier = Arc::clone(&self.verifier);
        self.on_verifier_thread(move || {
            let body = verifier.verify_body(asked, stated, &texts(&ommers))?;
            Ok(AnsweredBlock { json, ommers, body })
        })
        .await
    }

    /// Runs work that keeps a core busy for milliseconds, on a thread other than the follower's.
    async fn on_verifier_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, UpstreamFault> + Send + 'static,
    ) -> Result<T, FetchError> {
        match task::spawn_blocking(work).await {
            Ok(done) => done.map_err(|fault| self.fetch_error(&fault)),
            // A defect of this program, which no answer may turn into the end of the process.
            Err(error) if error.is_panic() => {
                let node = self.blocks.endpoint();
                tracing::error!(%node, "a check of a node's answer panicked");
                Err(FetchError::BadBlock {
                    reason: Fault::Unchecked.label(),
                    error: "a check panicked".into(),
                })
            }
            // The runtime has ended: nothing waits for the answer.
            Err(_) => std::future::pending().await,
        }
    }

    /// The error for a failed check. Remembers the first transaction of an unknown type.
    fn fetch_error(&self, fault: &UpstreamFault) -> FetchError {
        match fault {
            UpstreamFault::Absent { .. } => return CallError::NotFound.into(),
            UpstreamFault::TransactionType { .. } => {
                let mut reason = self.unknown_transaction.lock();
                reason.get_or_insert_with(|| fault.to_string());
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

    fn within(&self, longest: Duration) -> Self {
        Self {
            heads: self.heads.within(longest),
            ..self.clone()
        }
    }

    fn reconnect(&self) {
        self.blocks.reconnect();
    }

    fn name(&self) -> String {
        self.heads.endpoint().to_string()
    }

    async fn chain_id(&self) -> Result<u64, CallError> {
        self.heads.chain_id().await
    }

    async fn hash_at(&self, number: u64) -> Result<Option<B256>, CallError> {
        self.heads.hash_at(number).await
    }

    async fn is_syncing(&self) -> Result<bool, CallError> {
        self.heads.is_syncing().await
    }

    async fn head(&self, tag: Tag) -> Result<HeadClaim, CallError> {
        self.heads.head(tag).await
    }

    async fn heads(&self) -> Result<Heads, CallError> {
        self.heads.subscribe_heads().await
    }

    async fn block(&self, ask: Ask) -> Result<Arc<Block>, FetchError> {
        self.fetch(ask).await
    }

    async fn header(&self, number: u64, hash: B256) -> Result<StatedHeader, FetchError> {
        self.fetch_header(number, hash).await
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use nearhead_chain::{encode::EncodeOptions, network::FeeRules, trie::NodeStore};

    use super::*;
    use crate::upstream::client::CallLimits;

    #[tokio::test]
    async fn a_check_that_panics_is_a_check_that_fails() {
        let limits = CallLimits {
            concurrency: 1,
            timeout: Duration::from_secs(1),
            answer_bytes_max: 1,
        };
        let client = UpstreamClient::new("http://127.0.0.1:1".parse().unwrap(), limits).unwrap();
        let rules = FeeRules::of_chain(1);
        let verifier = Verifier::new(1, rules, EncodeOptions::default(), NodeStore::bounded(1));
        let upstream = VerifiedUpstream {
            heads: client.clone(),
            blocks: client,
            verifier: Arc::new(verifier),
            unknown_transaction: UnknownTransaction::default(),
            head: Head::default(),
            saved: None,
        };
        let checked = upstream.on_verifier_thread(|| -> Result<(), _> { panic!("a defect") });
        let error = FetchError::BadBlock {
            reason: "unchecked",
            error: "a check panicked".into(),
        };
        assert_eq!(checked.await, Err(error));
    }
}
