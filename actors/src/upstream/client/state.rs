//! The calls about state: proofs, code, and what a block changed.

use alloy_json_rpc::RpcSend;
use alloy_primitives::{Address, B256, U64};
use futures_util::{StreamExt, TryStreamExt, stream};
use nearhead_chain::changes::TRACER_OPTIONS;
use serde_json::{Value, value::RawValue};

use super::{CallError, JsonAnswer, OptionalMethod, UpstreamClient, answer_bytes};
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
        slots: &[B256],
        block: B256,
    ) -> Result<Box<RawValue>, CallError> {
        let bytes_max = answer_bytes::proof(slots.len());
        let params = (address, slots, block);
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
    /// See [`CallError`]. If one proof fails, all fail.
    pub(crate) async fn proofs(
        &self,
        wanted: &[(Address, Vec<B256>)],
        block: B256,
    ) -> Result<Vec<Box<RawValue>>, CallError> {
        let wanted = wanted.iter().cloned();
        let params = wanted.map(|(address, slots)| (address, slots, block));
        self.several(OptionalMethod::Proof, params.collect(), |(_, slots, _)| {
            answer_bytes::proof(slots.len())
        })
        .await
    }

    /// The same as [`Self::proofs`] for the code of several accounts.
    ///
    /// # Errors
    /// See [`CallError`]. If one code fails, all fail.
    pub(crate) async fn codes(
        &self,
        accounts: &[Address],
        block: B256,
    ) -> Result<Vec<Box<RawValue>>, CallError> {
        let params = accounts.iter().map(|address| (*address, block));
        self.several(OptionalMethod::Code, params.collect(), |_| {
            answer_bytes::CODE
        })
        .await
    }

    /// Several calls of one method, in one request or one by one. One of these has an answer of at
    /// most `bytes_max` bytes.
    async fn several<P: RpcSend>(
        &self,
        method: OptionalMethod,
        params: Vec<P>,
        bytes_max: impl Fn(&P) -> usize,
    ) -> Result<Vec<Box<RawValue>>, CallError> {
        let batch = OptionalMethod::Batch;
        let is_http = self.inner.endpoint.scheme() == Scheme::Http;
        if is_http && params.len() > 1 && !self.lacks(batch) {
            let _turn = self.turn().await?;
            let transport = &self.inner.transport;
            let answers = transport.batch(self.timeout, method.name(), &params).await;
            match answers {
                Err(error) if error.refuses_batches() => self.record_missing(batch),
                Err(error) => return Err(error),
                Ok(answers) if answers.iter().all(is_unanswered) => self.record_missing(batch),
                Ok(answers) => return answers.into_iter().collect(),
            }
        }
        // Over WebSocket a batch would be as many messages, and none of them would have a bound.
        let call = |params: P| {
            let (client, bytes_max) = (self.clone(), bytes_max(&params));
            async move {
                let answer = client.call_optional(method, params, bytes_max).await;
                answer.map(JsonAnswer::into_json)
            }
        };
        let calls: Vec<_> = params.into_iter().map(call).collect();
        stream::iter(calls)
            .buffered(CALLS_AT_ONCE)
            .try_collect()
            .await
    }

    /// The accounts and slots that a call reads after this block, as the upstream says
    /// (eth_createAccessList). The parameters are the call and overrides of accounts.
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
        answer.await
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

/// Whether an upstream that answered one object to a batch left this call without an answer.
fn is_unanswered(answer: &Result<Box<RawValue>, CallError>) -> bool {
    let error = answer.as_ref().err();
    error.is_some_and(|error| matches!(error, CallError::Malformed(_) | CallError::Connection(_)))
}
