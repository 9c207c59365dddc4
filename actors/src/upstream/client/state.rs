//! The calls about state: proofs, code, and what a block changed.

use alloy_json_rpc::RpcSend;
use alloy_primitives::{Address, B256, U64, U256};
use futures_util::{StreamExt, stream};
use nearhead_chain::{changes::TRACER_OPTIONS, trie::WantedProof};
use serde_json::{Value, value::RawValue};

use super::{
    CallError, JsonAnswer, OptionalMethod, UpstreamClient, answer_bytes, node_span::traced,
};
use crate::upstream::Scheme;

/// Calls of one list that are made at once: they leave turns to other calls.
const CALLS_AT_ONCE: usize = 8;

impl UpstreamClient {
    /// The proof of an account and its slots in the state after this block.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn proof(
        &self,
        address: Address,
        slots: &[U256],
        block: B256,
    ) -> Result<Box<RawValue>, CallError> {
        let bytes_max = answer_bytes::proof(slots.len());
        let params = (address, storage_keys(slots), block);
        let proof = self.call_optional(OptionalMethod::Proof, params, bytes_max);
        proof.await.map(JsonAnswer::into_json)
    }

    /// An account's code in the state after this block.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn code(
        &self,
        address: Address,
        block: B256,
    ) -> Result<Box<RawValue>, CallError> {
        let (method, params) = (OptionalMethod::Code, (address, block));
        let code = self.call_optional(method, params, answer_bytes::CODE);
        code.await.map(JsonAnswer::into_json)
    }

    /// The proofs of several accounts and their slots, in the order of `wanted`: in one request, or
    /// one by one from an upstream that refuses batches.
    ///
    /// # Errors
    /// See [`CallError`]. Each proof may fail by itself.
    pub(crate) async fn proofs(
        &self,
        wanted: &[WantedProof],
        block: B256,
    ) -> Result<Vec<Answered>, CallError> {
        let wanted = wanted.iter();
        let params = wanted.map(|(address, slots)| (*address, storage_keys(slots), block));
        let bytes_max = |(_, slots, _): &(_, Vec<_>, _)| answer_bytes::proof(slots.len());
        let answers = self.several(OptionalMethod::Proof, params.collect(), bytes_max);
        answers.await
    }

    /// The same as [`Self::proofs`] for the code of several accounts.
    ///
    /// # Errors
    /// See [`CallError`]. Each code may fail by itself.
    pub(crate) async fn codes(
        &self,
        accounts: &[Address],
        block: B256,
    ) -> Result<Vec<Answered>, CallError> {
        let params = accounts.iter().map(|address| (*address, block));
        self.several(OptionalMethod::Code, params.collect(), |_| {
            answer_bytes::CODE
        })
        .await
    }

    /// Several calls of one method: in one request, whose answer has the bound of batches, or one
    /// by one, each with an answer of at most `bytes_max` bytes.
    async fn several<P: RpcSend>(
        &self,
        method: OptionalMethod,
        params: Vec<P>,
        bytes_max: impl Fn(&P) -> usize,
    ) -> Result<Vec<Answered>, CallError> {
        let batch = OptionalMethod::Batch;
        if params.len() > 1 && self.takes_batches() {
            let bytes = |answers: &Vec<Answered>| {
                let given = answers.iter().flatten();
                Some(given.map(|answer| answer.get().len()).sum())
            };
            let asked = async {
                let _turn = self.turn().await?;
                let transport = &self.inner.transport;
                transport.batch(self.timeout, method.name(), &params).await
            };
            match traced(self.endpoint(), method.name(), asked, bytes).await {
                Err(error) if error.refuses_batches() => self.record_missing(batch),
                Err(error) => return Err(error),
                Ok(answers) if answers.iter().all(is_unanswered) => self.record_missing(batch),
                Ok(answers) => {
                    let lacks_it =
                        |answer: &Answered| matches!(answer, Err(CallError::UnsupportedMethod));
                    if answers.iter().any(lacks_it) {
                        self.record_missing(method);
                    }
                    return Ok(answers);
                }
            }
        }
        let call = |params: P| {
            let (client, bytes_max) = (self.clone(), bytes_max(&params));
            async move {
                let answer = client.call_optional(method, params, bytes_max).await;
                answer.map(JsonAnswer::into_json)
            }
        };
        let calls: Vec<_> = params.into_iter().map(call).collect();
        let answers = stream::iter(calls).buffered(CALLS_AT_ONCE).collect();
        Ok(answers.await)
    }

    /// Whether several calls are one request. Over WebSocket a batch would be as many messages, and
    /// none of them would have a bound.
    pub(crate) fn takes_batches(&self) -> bool {
        self.inner.endpoint.scheme() == Scheme::Http && !self.lacks(OptionalMethod::Batch)
    }

    /// The accounts and slots that a call reads after this block, as the upstream says
    /// (eth_createAccessList). The parameters are the call and overrides of accounts. An upstream
    /// that does not take them, limits such calls, or is late, is not asked again for a while.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn read_by_call(
        &self,
        call: &Value,
        block: B256,
        overrides: &Value,
    ) -> Result<JsonAnswer, CallError> {
        let (method, params) = (OptionalMethod::CallAccessList, (call, block, overrides));
        let answer = self.call_optional(method, params, answer_bytes::CALL_ACCESS_LIST);
        answer.await.inspect_err(|error| {
            let is_of_no_use = matches!(
                error,
                CallError::RateLimited { .. } | CallError::Timeout(_) | CallError::TooLarge { .. }
            );
            if is_of_no_use || error.is_unsupported() {
                self.record_missing(method);
            }
        })
    }

    /// What each transaction of a block changed, as JSON of the prestate tracer.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn trace(&self, block: B256) -> Result<JsonAnswer, CallError> {
        let options: &RawValue =
            serde_json::from_str(TRACER_OPTIONS).map_err(|error| CallError::malformed(&error))?;
        let params = (block, options);
        self.call_optional(OptionalMethod::Trace, params, answer_bytes::TRACE)
            .await
    }

    /// The access list of this block (EIP-7928), of at most `bytes_max` bytes of JSON.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn access_list(
        &self,
        block: B256,
        bytes_max: usize,
    ) -> Result<JsonAnswer, CallError> {
        let answer = self.call_optional(OptionalMethod::AccessList, (block,), bytes_max);
        answer.await
    }

    /// A witness of the block with this number: nodes of the state before it. `None` from a version
    /// that must not be asked for one.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn witness(&self, number: u64) -> Result<Option<JsonAnswer>, CallError> {
        let version: String = self.read("web3_clientVersion", ()).await?;
        if is_harmed_by_witness(&version) {
            self.record_missing(OptionalMethod::Witness);
            return Ok(None);
        }
        let (method, params) = (OptionalMethod::Witness, (U64::from(number),));
        let witness = self.call_optional(method, params, answer_bytes::WITNESS);
        witness.await.map(Some)
    }
}

/// Whether this may be a geth that corrupts its database when it is asked for the witness of a
/// block below its head, as 1.16.4 to 1.17.1 do.
fn is_harmed_by_witness(client_version: &str) -> bool {
    let Some(version) = client_version.strip_prefix("Geth/") else {
        return false;
    };
    let numbers_of = |part: &str| {
        let numbers = part.strip_prefix('v')?.split(['.', '-', '+']);
        let mut numbers = numbers.map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some([next()?, next()?, next()?])
    };
    // An operator's own name may come first.
    let numbers: Option<[u32; 3]> = version.split('/').find_map(numbers_of);
    // Only versions that are known to be good: forks of geth count in other ways.
    numbers.is_none_or(|numbers| !([1, 17, 2]..[1, 100, 0]).contains(&numbers))
}

/// Slots as parameters of eth_getProof. All 32 bytes: some upstreams refuse shorter keys.
fn storage_keys(slots: &[U256]) -> Vec<B256> {
    slots.iter().copied().map(B256::from).collect()
}

/// The answer to one of several calls.
pub(crate) type Answered = Result<Box<RawValue>, CallError>;

/// Whether an upstream that answered one object to a batch left this call without an answer.
fn is_unanswered(answer: &Answered) -> bool {
    let error = answer.as_ref().err();
    error.is_some_and(|error| matches!(error, CallError::Malformed(_) | CallError::Connection(_)))
}
