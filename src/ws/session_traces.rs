//! The traces of a session's requests.

use tracing::Span;

use crate::{
    access::Tenant,
    metrics::Outcome,
    rpc::Answer,
    traces::{RequestEnd, RequestTrace, TraceParent, TracedRequest, Traces},
};

/// The traces of one session. What its handshake said of the client's trace holds for each request.
pub(crate) struct SessionTraces {
    traces: Traces,
    parent: Option<TraceParent>,
}

impl SessionTraces {
    /// `parent` reads the handshake; it is asked if any request is traced.
    pub(crate) fn new(traces: &Traces, parent: impl FnOnce() -> Option<TraceParent>) -> Self {
        Self {
            traces: traces.clone(),
            parent: traces.is_on().then(parent).flatten(),
        }
    }

    /// Decides whether the next request is traced.
    pub(super) fn begin(&self, tenant: &Tenant) -> SessionRequestTrace {
        SessionRequestTrace {
            trace: self.traces.begin(&TracedRequest {
                parent: self.parent,
                log_span: &Span::none(),
                protocol: "websocket",
                tenant: &tenant.name,
            }),
            is_answered: false,
        }
    }
}

/// The trace of one request of a session.
pub(super) struct SessionRequestTrace {
    trace: RequestTrace,
    is_answered: bool,
}

impl SessionRequestTrace {
    pub(super) const fn span(&self) -> &Span {
        self.trace.span()
    }

    /// Records the answer.
    pub(super) fn answered(&mut self, answer: &Answer) {
        self.is_answered = true;
        self.trace.end(&RequestEnd {
            method: answer.method,
            outcome: Some(answer.outcome.label()),
            is_failure: answer.outcome == Outcome::Internal,
            status: None,
            bytes_out: answer.json.as_ref().map(|json| json.len() as u64),
        });
    }
}

impl Drop for SessionRequestTrace {
    fn drop(&mut self) {
        if !self.is_answered {
            self.trace.end(&RequestEnd {
                method: "session",
                outcome: None,
                is_failure: false,
                status: None,
                bytes_out: None,
            });
        }
    }
}
