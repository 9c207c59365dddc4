//! Calls that nodes answer: transactions, what waits for a block, and what is passed through.

use actix::{Actor, Addr, Handler, Message, dev::ToEnvelope};
use alloy_primitives::{Address, B256};
use nearhead_actors::{
    admission::FORWARDED_DEPTH_MAX,
    messages::{
        CountPending, FindTransaction, ForwardCall, NodeAnswer, QueryError, Reply, SendTransaction,
        TransactionAt,
    },
    read::{Traced, ask, forward_actor::ForwardActor},
};
use nearhead_chain::{
    encode::value,
    json::{Json, nesting},
    submission::{self, BLOB_TRANSACTION_BYTES_MAX, SubmissionError},
};
use serde_json::value::RawValue;

use crate::{
    limits::FORWARDED_PARAMS_BYTES_MAX,
    metrics::ForwardOutcome,
    rpc::{
        context::{MethodResult, RequestContext},
        error::{QuerySubject, RpcError},
        params::{self, ParamError, Params},
    },
};

/// Checks a transaction, and sends it to the nodes. The hash is computed here.
pub(crate) async fn send_raw_transaction(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let transaction = params.required(transaction)?;
    params.finish()?;
    let transaction = transaction.map_err(refused)?;
    let chain_id = context.snapshot.chain_id();
    let hash = submission::check(&transaction, chain_id).map_err(refused)?;
    let send = SendTransaction {
        budget: context.key.tenant.call_budget.clone(),
        hash,
        transaction,
    };
    let sent = ask_nodes(context, send).await;
    if let Ok(answer) = &sent {
        context.forwarded.set(Some(match answer {
            Ok(()) => ForwardOutcome::Answered,
            Err(_) => ForwardOutcome::Refused,
        }));
    }
    // A node that has it in a block says that its nonce is too low.
    if is_in_a_block(context, hash).await {
        return Ok(value::hash(&hash));
    }
    let answer = sent?;
    // That a node took it is the node's word, as its refusal is.
    context.is_unverified.set(true);
    answer.map_err(RpcError::Node)?;
    Ok(value::hash(&hash))
}

/// The bytes of a transaction, or that they are too many.
fn transaction(
    raw: &RawValue,
) -> Result<Result<alloy_primitives::Bytes, SubmissionError>, ParamError> {
    // Two digits a byte, `0x` and two quotation marks.
    let size = raw.get().len().saturating_sub(4) / 2;
    if size > BLOB_TRANSACTION_BYTES_MAX {
        let limit = BLOB_TRANSACTION_BYTES_MAX;
        return Ok(Err(SubmissionError::TooLarge { size, limit }));
    }
    params::data(raw).map(Ok)
}

fn refused(error: SubmissionError) -> RpcError {
    RpcError::failed(error.to_string())
}

/// Whether a transaction is in a block that is served now, which may be newer than the request.
async fn is_in_a_block(context: &RequestContext<'_>, hash: B256) -> bool {
    let Some(snapshot) = context.readiness.head.load() else {
        return false;
    };
    let find = FindTransaction {
        snapshot,
        at: TransactionAt::Hash(hash),
    };
    matches!(ask(&context.worker.blocks, find).await, Ok(Some(_)))
}

/// The number of an account's transactions, with those that wait for a block, as nodes state it;
/// `None` if none does.
pub(super) async fn pending_count(
    context: &RequestContext<'_>,
    address: Address,
) -> Result<Option<u64>, RpcError> {
    let count = CountPending {
        budget: context.key.tenant.call_budget.clone(),
        address,
    };
    let count = ask_nodes(context, count).await?;
    context.forwarded.set(Some(match count {
        Some(_) => ForwardOutcome::Answered,
        None => ForwardOutcome::Unanswered,
    }));
    Ok(count)
}

/// Passes a call to a node, and its answer to the client.
pub(crate) async fn pass_through(
    context: &RequestContext<'_>,
    method: &'static str,
    params: Option<&RawValue>,
) -> MethodResult {
    let call = ForwardCall {
        budget: context.key.tenant.call_budget.clone(),
        method,
        params: passed_params(params)?.into(),
    };
    let answer = ask_nodes(context, call).await?;
    // Also that no node has the method is what they say.
    context.is_unverified.set(true);
    let (outcome, result) = match answer {
        NodeAnswer::Result(json) => (ForwardOutcome::Answered, Ok(Json::from(json))),
        NodeAnswer::Error(error) => (ForwardOutcome::Refused, Err(RpcError::Node(error))),
        NodeAnswer::Unsupported => (
            ForwardOutcome::Unanswered,
            Err(RpcError::method_not_found(method)),
        ),
    };
    context.forwarded.set(Some(outcome));
    result
}

/// The parameters that are passed to a node: a JSON array, of bounded size and depth.
fn passed_params(params: Option<&RawValue>) -> Result<&str, RpcError> {
    let text = match params.map(RawValue::get) {
        None | Some("null") => "[]",
        Some(text) if text.starts_with('[') => text,
        Some(_) => return Err(RpcError::NonArrayArguments),
    };
    if text.len() > FORWARDED_PARAMS_BYTES_MAX {
        let most = FORWARDED_PARAMS_BYTES_MAX;
        let reason = format!("too large for a forwarded call (want at most {most} bytes)");
        return Err(RpcError::InvalidParams(reason.into()));
    }
    if nesting(text.as_bytes()) > FORWARDED_DEPTH_MAX {
        let reason = "nested too deep for a forwarded call";
        return Err(RpcError::InvalidParams(reason.into()));
    }
    Ok(text)
}

/// Sends a message to the worker's forward actor. A call that fails is counted here.
async fn ask_nodes<M, T>(context: &RequestContext<'_>, message: M) -> Result<T, RpcError>
where
    ForwardActor: Handler<Traced<M>>,
    <ForwardActor as Actor>::Context: ToEnvelope<ForwardActor, Traced<M>>,
    M: Message<Result = Reply<T>> + Send + 'static,
    T: Send + 'static,
{
    let actor: Option<&Addr<ForwardActor>> = context.worker.forwarded.as_ref();
    let reply = match actor {
        Some(actor) => ask(actor, message).await,
        // Only a source that follows nodes forwards, and the start checks that.
        None => Err(QueryError::Unavailable),
    };
    reply.map_err(|error| {
        context.forwarded.set(Some(match &error {
            QueryError::NoNodeAnswered => ForwardOutcome::Unanswered,
            _ => ForwardOutcome::NotAdmitted,
        }));
        RpcError::from_query(error, QuerySubject::Blocks)
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_an_array_of_bounded_size_and_depth() {
        let raw = |text: String| RawValue::from_string(text).unwrap();
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let long = |bytes: usize| format!("[\"{}\"]", "x".repeat(bytes - 4));
        assert_eq!(passed_params(None), Ok("[]"));
        for (text, expected) in [
            ("null".to_owned(), true),
            ("[]".to_owned(), true),
            (r#"[{"to":"0x"},[1, 2]]"#.to_owned(), true),
            ("{}".to_owned(), false),
            (r#"{"a":[]}"#.to_owned(), false),
            ("\"[]\"".to_owned(), false),
            ("7".to_owned(), false),
            (nested(FORWARDED_DEPTH_MAX), true),
            (nested(FORWARDED_DEPTH_MAX + 1), false),
            (long(FORWARDED_PARAMS_BYTES_MAX), true),
            (long(FORWARDED_PARAMS_BYTES_MAX + 1), false),
        ] {
            let raw = raw(text.clone());
            let found = passed_params(Some(&raw));
            let case = &text[..text.len().min(80)];
            assert_eq!(found.is_ok(), expected, "{case}");
            let passed = if text == "null" { "[]" } else { &text };
            assert!(found.is_err() || found == Ok(passed), "{case}");
        }
    }
}
