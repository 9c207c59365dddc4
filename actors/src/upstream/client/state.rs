//! The calls about state: proofs, code, and what a block changed.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

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
    /// one by one from an upstream that refuses batches. Together they have at most `bytes_max`
    /// bytes.
    ///
    /// # Errors
    /// See [`CallError`]. Each proof may fail by itself. [`CallError::TooLarge`] with `bytes_max`:
    /// they have more bytes together.
    pub(crate) async fn proofs(
        &self,
        wanted: &[WantedProof],
        block: B256,
        bytes_max: usize,
    ) -> Result<Vec<Answered>, CallError> {
        let wanted = wanted.iter();
        let params = wanted.map(|(address, slots)| (*address, storage_keys(slots), block));
        let each_max = |(_, slots, _): &(_, Vec<_>, _)| answer_bytes::proof(slots.len());
        let params = params.collect();
        self.several(OptionalMethod::Proof, params, each_max, bytes_max)
            .await
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
        let (params, each_max) = (params.collect(), |_: &_| answer_bytes::CODE);
        self.several(OptionalMethod::Code, params, each_max, usize::MAX)
            .await
    }

    /// Several calls of one method: in one request, whose answer has the bound of batches, or one
    /// by one, each with an answer of at most `each_max` bytes. Together, the answers have at most
    /// `bytes_max` bytes.
    async fn several<P: RpcSend>(
        &self,
        method: OptionalMethod,
        params: Vec<P>,
        each_max: impl Fn(&P) -> usize,
        bytes_max: usize,
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
                let asked = transport.batch(self.timeout, bytes_max, method.name(), &params);
                asked.await
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
        let room = Arc::new(AtomicUsize::new(bytes_max));
        let call = |params: P| {
            let (client, room) = (self.clone(), Arc::clone(&room));
            let each_max = each_max(&params);
            async move {
                let limit = take(&room, each_max);
                if limit == 0 {
                    return Err(CallError::TooLarge { limit: bytes_max });
                }
                let answer = client.call_optional(method, params, limit).await;
                let length = answer.as_ref().map_or(0, |answer| answer.get().len());
                room.fetch_add(limit.saturating_sub(length), Ordering::Relaxed);
                match answer {
                    Err(CallError::TooLarge { .. }) if limit < each_max => {
                        Err(CallError::TooLarge { limit: bytes_max })
                    }
                    answer => answer.map(JsonAnswer::into_json),
                }
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

    /// What each transaction of a block changed, as JSON of the prestate tracer, in at most
    /// `bytes_max` bytes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn trace(
        &self,
        block: B256,
        bytes_max: usize,
    ) -> Result<JsonAnswer, CallError> {
        let options: &RawValue =
            serde_json::from_str(TRACER_OPTIONS).map_err(|error| CallError::malformed(&error))?;
        let bytes_max = bytes_max.min(answer_bytes::TRACE);
        self.call_twice(OptionalMethod::Trace, (block, options), bytes_max)
            .await
    }

    /// A call that is made again on a new connection if the old one ends: that may have happened
    /// long before. A second end is the answer's: over WebSocket, one that is too large ends the
    /// connection.
    async fn call_twice(
        &self,
        method: OptionalMethod,
        params: impl RpcSend,
        bytes_max: usize,
    ) -> Result<JsonAnswer, CallError> {
        let answer = self.call_optional(method, params.clone(), bytes_max).await;
        match answer {
            Err(CallError::Connection(_)) => self.call_optional(method, params, bytes_max).await,
            answer => answer,
        }
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

    /// A witness of the block with this number, in at most `bytes_max` bytes: nodes of the state
    /// before it. `None` from a version that must not be asked for one.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn witness(
        &self,
        number: u64,
        bytes_max: usize,
    ) -> Result<Option<JsonAnswer>, CallError> {
        let version: String = self.read("web3_clientVersion", ()).await?;
        if is_harmed_by_witness(&version) {
            self.record_missing(OptionalMethod::Witness);
            return Ok(None);
        }
        let (method, params) = (OptionalMethod::Witness, (U64::from(number),));
        let witness = self.call_twice(method, params, bytes_max.min(answer_bytes::WITNESS));
        witness.await.map(Some)
    }
}

/// Takes so many bytes of a room, or what is left, and returns how many.
fn take(room: &AtomicUsize, bytes: usize) -> usize {
    let rest = |left: usize| Some(left.saturating_sub(bytes));
    let left = room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
    // The update never fails.
    left.unwrap_or_else(|left| left).min(bytes)
}

/// Whether this may be a geth that corrupts its database when it is asked for the witness of a
/// block below its head, as 1.16.4 to 1.17.1 do.
fn is_harmed_by_witness(client_version: &str) -> bool {
    let mut parts = client_version.split('/');
    if !parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case("geth"))
    {
        return false;
    }
    // An operator's own name may come first, and may look like a version: each has to be good.
    let mut goodness = parts.filter_map(is_good_geth).peekable();
    goodness.peek().is_none() || goodness.any(|is_good| !is_good)
}

/// Whether this is the version of a geth that is known to be good: forks count in other ways.
/// `None` if it is no version.
fn is_good_geth(part: &str) -> Option<bool> {
    let mut words = part.strip_prefix('v')?.split(['.', '-', '+']);
    let mut next = || words.next()?.parse().ok();
    let numbers: [u32; 3] = [next()?, next()?, next()?];
    // Between 1.17.1 and 1.17.2, a development build has the number of the latter.
    let is_before = numbers == [1, 17, 2] && words.next() == Some("unstable");
    Some(!is_before && ([1, 17, 2]..[1, 100, 0]).contains(&numbers))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(client_versions: &[&str], is_harmed: bool) {
        for version in client_versions {
            assert_eq!(is_harmed_by_witness(version), is_harmed, "{version}");
        }
    }

    #[test]
    fn an_old_geth_is_known_by_its_version() {
        let old = [
            "Geth/v1.16.3-stable-d818a9af/linux-amd64/go1.25.1",
            "Geth/v1.16.4-stable-41714b49/linux-amd64/go1.25.1",
            "Geth/v1.16.9-unstable-0a2b3c4d-20260101/linux-amd64/go1.25.1",
            "Geth/v1.17.0-stable/linux-amd64/go1.25.1",
            "Geth/v1.17.1-stable/linux-amd64/go1.25.1",
            "Geth/v1.17.1",
            "geth/v1.17.1-stable/linux-amd64/go1.25.1",
            "Geth/v1.17.2-unstable-0a2b3c4d-20260301/linux-amd64/go1.25.1",
        ];
        check(&old, true);
        let good = [
            "Geth/v1.17.2-stable-0a2b3c4d/linux-amd64/go1.26.0",
            "Geth/v1.17.2",
            "Geth/v1.17.3-unstable-0a2b3c4d-20260401/linux-amd64/go1.26.0",
            "Geth/v1.17.10-stable/linux-amd64/go1.26.0",
            "Geth/v1.18.0+build/linux-amd64/go1.26.0",
        ];
        check(&good, false);
        // With an operator's own name, which may be anything.
        let named_old = [
            "Geth/mine/v1.17.1-stable/linux-amd64/go1.25.1",
            "Geth/v2/v1.16.4-stable/linux-amd64/go1.25.1",
            "Geth/v1.17.2/v1.17.1-stable/linux-amd64/go1.25.1",
            "Geth/v1.17.1/v1.17.2-stable/linux-amd64/go1.25.1",
        ];
        check(&named_old, true);
        check(&["Geth/mine/v1.17.2-stable/linux-amd64/go1.26.0"], false);
    }

    #[test]
    fn what_counts_in_another_way_is_taken_for_an_old_geth() {
        let unknown = [
            "Geth",
            "Geth/",
            "Geth/mine/linux-amd64/go1.25.1",
            "Geth/v1.17/linux-amd64/go1.25.1",
            "Geth/1.17.2-stable/linux-amd64/go1.25.1",
            // op-geth and BSC.
            "Geth/v1.101603.5-stable/linux-amd64/go1.24.0",
            "Geth/v1.6.4-stable/linux-amd64/go1.24.0",
            "Geth/v2.17.2-stable/linux-amd64/go1.24.0",
        ];
        check(&unknown, true);
        let others = [
            "reth/v2.3.0-8e3b5e6/x86_64-unknown-linux-gnu",
            "Nethermind/v1.38.0+abc/linux-x64/dotnet10.0.0",
            "erigon/3.1.0/linux-amd64/go1.25.1",
            "besu/v25.7.0/linux-x86_64/openjdk-java-21",
            "anvil/v1.7.1",
            "",
        ];
        check(&others, false);
    }
}
