//! What transactions have paid, and what the next ones are likely to pay.

use nearhead_chain::{
    encode::value,
    fees::{FeeHistory, PERCENTILES_MAX, next_base_fee},
    json::Json,
};
use serde_json::value::RawValue;

use crate::rpc::{
    context::{MethodResult, RequestContext},
    error::{QuerySubject, RpcError},
    params::{self, ParamError, Params},
};

/// The base fee of the next block; null before London.
pub(crate) async fn base_fee(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    params.finish()?;
    let base_fee = next_base_fee(&context.snapshot)?;
    Ok(base_fee.map_or(Json::NULL, value::number))
}

/// The price of blob gas at the head.
pub(crate) async fn blob_base_fee(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    params.finish()?;
    let price = context.snapshot.head().fees.blob_gas_price()?;
    Ok(price.map_or(Json::NULL, value::wide))
}

/// The suggested priority fee and the head's base fee, as one price.
pub(crate) async fn gas_price(context: &RequestContext<'_>, params: Params<'_>) -> MethodResult {
    params.finish()?;
    let base_fee = context.snapshot.head().header.base_fee_per_gas;
    let tip = context.snapshot.suggested_tip();
    Ok(value::wide(
        tip.saturating_add(base_fee.unwrap_or_default().into()),
    ))
}

pub(crate) async fn max_priority_fee_per_gas(
    context: &RequestContext<'_>,
    params: Params<'_>,
) -> MethodResult {
    params.finish()?;
    Ok(value::wide(context.snapshot.suggested_tip()))
}

pub(crate) async fn fee_history(
    context: &RequestContext<'_>,
    mut params: Params<'_>,
) -> MethodResult {
    let count = params.required(params::quantity)?;
    let newest = params.required(params::block_number_or_tag)?;
    let percentiles = params.required(percentiles)?;
    params.finish()?;
    let newest = context
        .snapshot
        .resolve(newest)
        .map_err(|error| RpcError::from_query(error.into(), QuerySubject::Blocks))?;
    let history = FeeHistory::new(&context.snapshot, newest.number(), count)?;
    Ok(history.json(&percentiles))
}

/// Numbers from 0 to 100 that ascend.
fn percentiles(raw: &RawValue) -> Result<Vec<f64>, ParamError> {
    let items = params::array(raw)?;
    if items.len() > PERCENTILES_MAX {
        return Err(format!("want at most {PERCENTILES_MAX} percentiles").into());
    }
    let mut percentiles = Vec::with_capacity(items.len());
    for item in items {
        let percentile: f64 =
            serde_json::from_str(item.get()).map_err(|_| "want numbers as percentiles")?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err("want percentiles from 0 to 100".into());
        }
        if percentiles.last().is_some_and(|last| *last >= percentile) {
            return Err("want percentiles that ascend".into());
        }
        percentiles.push(percentile);
    }
    Ok(percentiles)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn percentiles_ascend_and_are_few() {
        let most: Vec<String> = (0..=PERCENTILES_MAX).map(|at| format!("{at}e-1")).collect();
        let read = |json: String| percentiles(&RawValue::from_string(json).unwrap());
        assert_eq!(read("[0, 2.5, 1e2]".to_owned()).unwrap(), [0.0, 2.5, 100.0]);
        assert_eq!(
            read(format!("[{}]", most[1..].join(","))).map(|read| read.len()),
            Ok(PERCENTILES_MAX)
        );
        for (json, reason) in [
            ("[50,50]".to_owned(), "want percentiles that ascend"),
            ("[50,25]".to_owned(), "want percentiles that ascend"),
            ("[1e999]".to_owned(), "want numbers as percentiles"),
            (
                format!("[{}]", most.join(",")),
                "want at most 100 percentiles",
            ),
        ] {
            assert_eq!(read(json).unwrap_err(), reason);
        }
    }
}
