//! How calls end that are forwarded to nodes.

use super::Metrics;

/// How a forwarded call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardOutcome {
    /// A node answered with a result.
    Answered,
    /// A node answered with an error.
    Refused,
    /// No node answered, or none has the method.
    Unanswered,
    /// No node made the call, because permits, a budget or the nodes' limits (HTTP 429 or 503) did
    /// not allow it.
    NotAdmitted,
}

impl ForwardOutcome {
    const fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
            Self::NotAdmitted => "not_admitted",
        }
    }
}

impl Metrics {
    /// Counts a forwarded call of this method.
    pub(crate) fn forwarded(&self, method: &'static str, outcome: ForwardOutcome) {
        let labels = [method, outcome.label()];
        self.forwarded_calls.with_label_values(&labels).inc();
    }
}
