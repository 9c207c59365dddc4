//! Calls of contracts.

use std::{sync::Arc, time::Instant};

use nearhead_actors::{
    messages::{CallTask, Called, RunCall},
    read::ask,
};
use nearhead_chain::{
    call::{BlockOverrides, Call, CallRequest, GasMeter, GasPrice, Simulation, StateOverrides},
    encode::value,
    window::BlockId,
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
    answer(context, params, CallTask::Output).await
}

/// The gas with which a call succeeds.
pub(crate) async fn estimate_gas(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    answer(context, params, CallTask::Gas).await
}

/// The accounts and slots that a call reads.
pub(crate) async fn create_access_list(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let (at, call) = call_and_accounts(context, &mut params)?;
    params.finish()?;
    run(context, at, CallTask::AccessList(call)).await
}

/// Blocks of calls.
pub(crate) async fn simulate(context: &RequestContext<'_>, mut params: Params<'_>) -> MethodResult {
    let asked = params.required(call_params::simulation)?;
    let at = params.optional(LATEST, params::block_id)?;
    params.finish()?;
    for chain_id in asked.chain_ids {
        check_chain(context, Some(chain_id))?;
    }
    let simulation = Simulation {
        gas_max: context.calls.gas_max,
        ..asked.simulation
    };
    run(context, at, CallTask::Blocks(simulation)).await
}

/// Runs a call with all that it may override.
async fn answer(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
    task: fn(Call) -> CallTask,
) -> MethodResult {
    let (at, mut call) = call_and_accounts(context, &mut params)?;
    call.block = params.optional(BlockOverrides::default(), call_params::block)?;
    params.finish()?;
    run(context, at, task(call)).await
}

/// Reads a call, the block after which it runs, and the accounts that it overrides.
fn call_and_accounts(
    context: &RequestContext<'_>,
    params: &mut Params<'_>,
) -> Result<(BlockId, Call), RpcError> {
    let call_params::Request { request, chain_id } = params.required(call_params::request)?;
    let at = params.optional(LATEST, params::block_id)?;
    let accounts = params.optional(StateOverrides::new(), call_params::accounts)?;
    check_chain(context, chain_id)?;
    check_contracts(context, &request, &accounts)?;
    let call = Call {
        request,
        accounts,
        block: BlockOverrides::default(),
        gas_max: context.calls.gas_max,
    };
    Ok((at, call))
}

/// Runs a task on the state after a block, and writes what is wanted of it.
async fn run(context: &RequestContext<'_>, at: BlockId, task: CallTask) -> MethodResult {
    let (cancel, gas) = (CancelOnDrop::default(), GasMeter::default());
    let call = RunCall {
        snapshot: Arc::clone(&context.snapshot),
        budget: context.key.tenant.call_budget.clone(),
        at,
        task,
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
        Called::Output(bytes) => value::own_data(bytes, context.built_max),
        Called::Gas(gas) => value::number(gas),
        Called::AccessList(list) => list.json(),
        Called::Blocks(json) => json,
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
