//! Calls of contracts.

use std::{sync::Arc, time::Instant};

use nearhead_actors::{
    messages::{CallKind, Called, RunCall},
    read::ask,
};
use nearhead_chain::{
    call::{BlockOverrides, Call, CallRequest, GasMeter, GasPrice, StateOverrides},
    encode::value,
};

use crate::rpc::{
    call_params,
    cancel_on_drop::CancelOnDrop,
    context::{MethodResult, RequestContext},
    error::{QuerySubject, RpcError},
    params::{self, LATEST, Params},
};

/// What a call would return.
pub(crate) async fn call(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    answer(context, params, CallKind::Output).await
}

/// The gas with which a call succeeds.
pub(crate) async fn estimate_gas(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    answer(context, params, CallKind::Gas).await
}

/// The accounts and slots that a call reads.
pub(crate) async fn create_access_list(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    answer(context, params, CallKind::AccessList).await
}

/// Runs a call on the state after a block, and writes what is wanted of it.
async fn answer(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
    kind: CallKind,
) -> MethodResult {
    let call_params::Request { request, chain_id } = params.required(call_params::request)?;
    let at = params.optional(LATEST, params::block_id)?;
    let accounts = params.optional(StateOverrides::new(), call_params::accounts)?;
    let block = match kind {
        CallKind::Output | CallKind::Gas => {
            params.optional(BlockOverrides::default(), call_params::block)?
        }
        CallKind::AccessList => BlockOverrides::default(),
    };
    params.finish()?;
    check_chain(context, chain_id)?;
    check_contracts(context, &request, &accounts)?;
    let (cancel, gas) = (CancelOnDrop::default(), GasMeter::default());
    let call = RunCall {
        snapshot: Arc::clone(&context.snapshot),
        budget: context.key.tenant.call_budget.clone(),
        at,
        call: Call {
            request,
            accounts,
            block,
            gas_max: context.calls.gas_max,
        },
        kind,
        gas: gas.clone(),
        deadline: Instant::now() + context.calls.timeout,
        cancel: cancel.token(),
    };
    let oldest = context.snapshot.oldest();
    let reply = ask(&context.worker.calls, call).await;
    context.gas.set(gas.used());
    let called =
        reply.map_err(|error| RpcError::from_query(error, QuerySubject::State { oldest }))?;
    Ok(match called? {
        Called::Output(bytes) => value::shared_data(bytes, context.built_max),
        Called::Gas(gas) => value::number(gas),
        Called::AccessList(list) => list.json(),
    })
}

fn check_chain(context: &RequestContext<'_>, chain_id: Option<u64>) -> Result<(), RpcError> {
    let ours = context.snapshot.chain_id();
    match chain_id.filter(|chain_id| *chain_id != ours) {
        Some(theirs) => Err(RpcError::failed(format!(
            "chainId does not match node's (have={theirs}, want={ours})"
        ))),
        None => Ok(()),
    }
}

/// With a list of contracts, a call is of one of them, as they are in the state: any other one
/// could read all contracts. Who pays is listed too, because errors say what it has.
fn check_contracts(
    context: &RequestContext<'_>,
    request: &CallRequest,
    accounts: &StateOverrides,
) -> Result<(), RpcError> {
    let pays = !request.value.is_zero() || request.price != GasPrice::Free;
    let from = pays.then_some(&request.from);
    match &request.to {
        Some(to) if accounts.is_empty() && request.authorizations.is_none() => {
            context.contracts.addresses([to].into_iter().chain(from))
        }
        _ => context.contracts.all_contracts(),
    }
}
