//! Calls to a node in the trace of the request that they are for.

use tracing::{Instrument, field};

use super::CallError;
use crate::{step, trace, upstream::Endpoint};

/// Makes a call in a span of its own, which shows the node as the log does. `bytes` is the length
/// of the answer; `None` if that is the node's own error. The span begins with the wait for a turn.
pub(super) async fn traced<T>(
    endpoint: &Endpoint,
    method: &'static str,
    call: impl Future<Output = Result<T, CallError>>,
    bytes: impl FnOnce(&T) -> Option<usize>,
) -> Result<T, CallError> {
    let parent = trace::current();
    if parent.is_disabled() {
        return call.await;
    }
    let span = step!(
        below parent,
        "node",
        otel.name = method,
        otel.kind = "client",
        otel.status_code = field::Empty,
        rpc.method = method,
        node = %endpoint,
        outcome = field::Empty,
        bytes_in = field::Empty,
    );
    let answer = call.instrument(span.clone()).await;
    match &answer {
        Ok(answer) => {
            let bytes = bytes(answer);
            span.record("outcome", if bytes.is_some() { "ok" } else { "rpc" });
            span.record("bytes_in", bytes);
        }
        Err(error) => {
            span.record("outcome", error.label());
            span.record("otel.status_code", "ERROR");
        }
    }
    answer
}
