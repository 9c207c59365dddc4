//! The spans of a traced body and of its items.

use std::pin::Pin;

use nearhead_actors::{step, trace};
use nearhead_chain::json::Json;
use tracing::{Instrument, Span, field};

use crate::{
    limits::TRACED_ITEMS_MAX,
    metrics::Outcome,
    rpc::{error::RpcError, registry::Method},
};

/// Records what came: the length of a body, and how many requests it has.
pub(super) fn record_body(bytes: usize, requests: u32) {
    let span = trace::current();
    span.record("bytes_in", bytes);
    if requests > 1 {
        span.record("items", requests);
    }
}

/// The spans of the items of one batch. Those of the first items are made, with what is below them.
#[derive(Default)]
pub(super) struct ItemSpans(usize);

/// The span of one item.
pub(super) struct ItemSpan {
    span: Span,
    is_wanted: bool,
}

impl ItemSpans {
    /// The span of the next item, which is below that of the batch.
    pub(super) fn next(&mut self, method: Option<&Method>) -> ItemSpan {
        self.0 += 1;
        let is_wanted = self.0 <= TRACED_ITEMS_MAX;
        let name = method.map_or("unknown", |method| method.name);
        let span = match is_wanted {
            false => Span::none(),
            true => step!(
                "item",
                otel.name = name,
                otel.status_code = field::Empty,
                rpc.method = name,
                outcome = field::Empty,
                from_block = field::Empty,
                to_block = field::Empty,
            ),
        };
        ItemSpan { span, is_wanted }
    }
}

impl ItemSpan {
    /// Runs the item's call in its span.
    pub(super) async fn of(
        self,
        call: Pin<&mut impl Future<Output = (Result<Json, RpcError>, u64)>>,
    ) -> (Result<Json, RpcError>, u64) {
        let Self { span, is_wanted } = self;
        let call = call.instrument(span.clone());
        let (result, units) = trace::only_if(is_wanted, call).await;
        if !span.is_disabled() {
            let outcome = result
                .as_ref()
                .map_or_else(RpcError::outcome, |_| Outcome::Ok);
            span.record("outcome", outcome.label());
            if outcome == Outcome::Internal {
                span.record("otel.status_code", "ERROR");
            }
        }
        (result, units)
    }
}
