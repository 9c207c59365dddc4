//! Storage, accounts, code and their proofs.

use std::{borrow::Cow, sync::Arc};

use actix::{Actor, Handler, Message, dev::ToEnvelope};
use alloy_primitives::{Address, B256, U256};
use nearhead_actors::{
    budget::CallBudget,
    messages::{ProveAccount, ReadAccount, ReadCode, ReadStorage, ReadStorageValues, Reply},
    read::{Traced, ask, proof_actor::ProofActor},
};
use nearhead_chain::{
    encode::{ProofKey, value},
    json::Json,
    window::{BlockId, BlockNumberOrTag, BlockTag},
};
use serde_json::value::RawValue;

use crate::{
    limits::STORAGE_KEYS_MAX,
    rpc::{
        cancel_on_drop::CancelOnDrop,
        context::{MethodResult, RequestContext},
        error::{QuerySubject, RpcError},
        methods::forwarded::pending_count,
        params::{self, LATEST, ParamError, Params},
        price::FORWARDED_KEYS,
    },
};

pub(crate) async fn get_storage_at(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let address = params.required(params::address)?;
    let key = params.required(params::text)?;
    let at = params.optional(LATEST, params::block_id)?;
    params.finish()?;
    context.contracts.addresses([&address])?;
    let slot = params::storage_key(&key)?.slot();
    let snapshot = Arc::clone(&context.snapshot);
    let read = ReadStorage {
        snapshot,
        budget: budget(context),
        at,
        address,
        slot,
    };
    let value = ask_proofs(context, read).await?;
    Ok(value::hash(&B256::from(value)))
}

pub(crate) async fn get_balance(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    let read = account(context, params)?;
    let account = ask_proofs(context, read).await?;
    Ok(value::quantity(
        account.map_or(U256::ZERO, |account| account.balance),
    ))
}

pub(crate) async fn get_transaction_count(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    let read = account(context, params)?;
    let asks_nodes = read.at == PENDING && context.sends_transactions;
    let address = read.address;
    let account = ask_proofs(context, read).await?;
    let ours = account.map_or(0, |account| account.nonce);
    let theirs = match asks_nodes {
        true => {
            let count = pending_count(context, address).await?;
            // Beyond its own read, it is a forwarded call.
            context.keys.set(FORWARDED_KEYS);
            count
        }
        false => None,
    };
    context
        .is_unverified
        .set(context.is_unverified.get() || theirs.is_some());
    Ok(value::number(theirs.unwrap_or(0).max(ours)))
}

pub(crate) async fn get_code(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    let ReadAccount {
        snapshot,
        budget,
        at,
        address,
    } = account(context, params)?;
    let read = ReadCode {
        snapshot,
        budget,
        at,
        address,
    };
    let code = ask_proofs(context, read).await?;
    Ok(value::shared_data(code, context.built_max))
}

fn account(context: &RequestContext<'_>, mut params: Params<'_>) -> Result<ReadAccount, RpcError> {
    let address = params.required(params::address)?;
    let at = params.optional(LATEST, params::block_id)?;
    params.finish()?;
    context.contracts.addresses([&address])?;
    Ok(ReadAccount {
        snapshot: Arc::clone(&context.snapshot),
        budget: budget(context),
        at,
        address,
    })
}

pub(crate) async fn get_proof(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let address = params.required(params::address)?;
    let keys = params.required(|raw| match params::is_null(raw) {
        true => Ok(Vec::new()),
        false => params::array(raw)?.into_iter().map(params::text).collect(),
    })?;
    let at = params.optional(LATEST, params::block_id)?;
    params.finish()?;
    context.contracts.addresses([&address])?;
    if keys.len() > STORAGE_KEYS_MAX {
        return Err(too_many(keys.len(), "keys"));
    }
    context.keys.set(keys.len());
    let keys = keys
        .iter()
        .map(|key| params::storage_key(key))
        .collect::<Result<_, _>>()?;
    let snapshot = Arc::clone(&context.snapshot);
    let cancel = CancelOnDrop::default();
    let prove = ProveAccount {
        snapshot,
        budget: budget(context),
        at,
        address,
        keys,
        built_max: context.built_max,
        cancel: cancel.token(),
    };
    ask_proofs(context, prove).await
}

pub(crate) async fn get_storage_values(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let keys = params.required(keys_by_address)?;
    let at: BlockId = params.optional(LATEST, params::block_id)?;
    params.finish()?;
    if keys.is_empty() {
        return Err(RpcError::InvalidParams("empty request".into()));
    }
    let count = keys.iter().map(|(_, keys)| keys.len()).sum();
    if count > STORAGE_KEYS_MAX {
        return Err(too_many(count, "slots"));
    }
    if keys.len() > STORAGE_KEYS_MAX {
        return Err(too_many(keys.len(), "accounts"));
    }
    context
        .contracts
        .addresses(keys.iter().map(|(address, _)| address))?;
    context.keys.set(count);
    let slots = keys.iter().map(|(address, keys)| {
        let slots = keys
            .iter()
            .map(|key| params::storage_key(key).map(ProofKey::slot));
        Ok((*address, slots.collect::<Result<_, _>>()?))
    });
    let slots: Vec<(Address, Vec<U256>)> = slots.collect::<Result<_, RpcError>>()?;
    let snapshot = Arc::clone(&context.snapshot);
    let cancel = CancelOnDrop::default();
    let read = ReadStorageValues {
        snapshot,
        budget: budget(context),
        at,
        slots: slots.clone(),
        cancel: cancel.token(),
    };
    let values = ask_proofs(context, read).await?;
    Ok(values_by_address(&slots, &values))
}

/// Accounts, each with its storage keys as the client wrote them.
type KeysByAddress<'a> = Vec<(Address, Vec<Cow<'a, str>>)>;

/// Parses `{address: [key, …], …}`; the last of several equal addresses counts.
fn keys_by_address(raw: &RawValue) -> Result<KeysByAddress<'_>, ParamError> {
    let mut keys = Vec::new();
    let mut first_error = None;
    params::each_member(raw, |name, value| {
        let entry = params::address_text(name).and_then(|address| {
            let texts = params::array(value)?.into_iter().map(params::text);
            Ok((address, texts.collect::<Result<Vec<_>, _>>()?))
        });
        match entry {
            Ok(entry) => keys.push(entry),
            Err(error) => first_error = first_error.take().or(Some(error)),
        }
    })?;
    if let Some(error) = first_error {
        return Err(error);
    }
    // The sort is stable: of equal addresses, the one written last comes last.
    keys.sort_by_key(|(address, _)| *address);
    keys.reverse();
    keys.dedup_by_key(|(address, _)| *address);
    keys.reverse();
    Ok(keys)
}

/// Writes `{"address":["value", …], …}`.
fn values_by_address(slots: &[(Address, Vec<U256>)], values: &[Vec<U256>]) -> Json {
    let mut out = String::from("{");
    for (position, ((address, _), values)) in slots.iter().zip(values).enumerate() {
        let separator = if position == 0 { "" } else { "," };
        let values: Vec<String> = values
            .iter()
            .map(|value| format!("\"{}\"", B256::from(*value)))
            .collect();
        out.push_str(&format!(
            "{separator}\"{address:#x}\":[{}]",
            values.join(",")
        ));
    }
    out.push('}');
    Json::from(out.into_bytes())
}

fn too_many(count: usize, what: &str) -> RpcError {
    RpcError::InvalidParams(
        format!("too many {what}: {count} (want at most {STORAGE_KEYS_MAX})").into(),
    )
}

/// The block parameter that asks for what waits too.
const PENDING: BlockId = BlockId::Number(BlockNumberOrTag::Tag(BlockTag::Pending));

/// What the request may cause at upstreams.
fn budget(context: &RequestContext<'_>) -> CallBudget {
    context.key.tenant.call_budget.clone()
}

/// Sends a message to the worker's proof actor.
async fn ask_proofs<M, T>(context: &RequestContext<'_>, message: M) -> Result<T, RpcError>
where
    ProofActor: Handler<Traced<M>>,
    <ProofActor as Actor>::Context: ToEnvelope<ProofActor, Traced<M>>,
    M: Message<Result = Reply<T>> + Send + 'static,
    T: Send + 'static,
{
    let oldest = context.snapshot.oldest();
    ask(&context.worker.proofs, message)
        .await
        .map_err(|error| RpcError::from_query(error, QuerySubject::State { oldest }))
}
