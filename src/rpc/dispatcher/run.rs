//! One call, from its permit to its result.

use nearhead_actors::step;
use nearhead_tenants::allowlists::ListKind;
use tracing::Instrument;

use nearhead_chain::json::Json;

use crate::rpc::{
    context::RequestContext,
    envelope::Call,
    error::{QuerySubject, RpcError},
    params::Params,
    registry::Method,
};

pub(super) async fn run(
    context: &RequestContext<'_>,
    method: &Method,
    call: &Call<'_>,
) -> Result<Json, RpcError> {
    if !context.key.record.settings.allow.allow_method(method.name) {
        return Err(RpcError::NotListed(ListKind::Methods));
    }
    context.contracts.begin(method.contracts)?;
    let params = Params::new(call.params)?;
    let _permit = context
        .worker
        .admit(method.class, context.key.tenant.call_budget.share())
        .instrument(step!("admission"))
        .await
        .map_err(|error| RpcError::from_query(error, QuerySubject::Blocks))?;
    let result = method.run(context, params, call.params).await?;
    if !context.contracts.is_done() {
        tracing::error!(
            method = method.name,
            "the handler did not check the contracts"
        );
        return Err(RpcError::Internal);
    }
    Ok(result)
}
