//! Why a call has no answer.

use std::{error::Error, fmt::Write, time::Duration};

use alloy_json_rpc::{ErrorPayload, RpcError};
use alloy_transport::{TransportError, TransportErrorKind};

use super::code::{Meaning, meaning};

/// Why a call has no answer. None of it repeats a URL or a header; what an upstream wrote is cut short
/// and printable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// As many calls as there may be are under way, and none of them ended in time: not this upstream's
    /// fault.
    #[error("too many calls to this node are under way")]
    Busy,
    /// No answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// No connection, or it ended before the answer did.
    #[error("connection: {0}")]
    Connection(Box<str>),
    /// The upstream asks to be asked less.
    #[error("rate limited")]
    RateLimited {
        /// How long it wants to be left alone, if it said so; an hour at most.
        retry_after: Option<Duration>,
    },
    /// The upstream, or whoever stands before it, refused the request as HTTP.
    #[error("refused with HTTP status {status}")]
    Refused {
        /// HTTP's number.
        status: u16,
    },
    /// The upstream does not have the method.
    #[error("the node does not have the method")]
    MethodMissing,
    /// The upstream has no such block, transaction or uncle.
    #[error("not found")]
    NotFound,
    /// The answer is not what the method answers.
    #[error("malformed answer: {0}")]
    Malformed(Box<str>),
    /// The answer is longer than any honest one.
    #[error("answer of more than {limit} bytes")]
    TooLarge {
        /// The bound in bytes.
        limit: usize,
    },
    /// The upstream has another reason.
    #[error("error {code}: {message}")]
    Rpc {
        /// Its number.
        code: i64,
        /// Its text.
        message: Box<str>,
    },
}

/// Longest text of an upstream, in characters, that is kept for a log line.
const TEXT_CHARS_MAX: usize = 200;

/// Longest wait that an upstream may ask for: who is rate limited for a day is asked again within the
/// day.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

#[cfg(test)]
impl CallError {
    /// Names of all kinds, for the tables of tests.
    pub(in crate::upstream) const LABELS: [&'static str; 10] = [
        "busy",
        "timeout",
        "connection",
        "rate_limited",
        "refused",
        "method_missing",
        "not_found",
        "malformed",
        "too_large",
        "rpc",
    ];

    /// The kind's name.
    pub(in crate::upstream) const fn label(&self) -> &'static str {
        let at = match self {
            Self::Busy => 0,
            Self::Timeout(_) => 1,
            Self::Connection(_) => 2,
            Self::RateLimited { .. } => 3,
            Self::Refused { .. } => 4,
            Self::MethodMissing => 5,
            Self::NotFound => 6,
            Self::Malformed(_) => 7,
            Self::TooLarge { .. } => 8,
            Self::Rpc { .. } => 9,
        };
        Self::LABELS[at]
    }
}

impl CallError {
    /// Whether the upstream cannot answer the method in the form that was asked for, however often it
    /// is asked.
    pub(super) fn lacks_method(&self) -> bool {
        match self {
            Self::MethodMissing => true,
            Self::Rpc { code, .. } => meaning(*code) == Meaning::BadParams,
            _ => false,
        }
    }

    pub(super) fn connection(error: &dyn Error) -> Self {
        Self::Connection(with_sources(error))
    }

    pub(super) fn malformed(error: &dyn Error) -> Self {
        Self::Malformed(with_sources(error))
    }

    /// What an HTTP status other than success says.
    pub(super) fn of_status(status: u16, retry_after: Option<Duration>) -> Self {
        match (status, retry_after) {
            (429, _) | (503, Some(_)) => Self::RateLimited {
                retry_after: retry_after.map(|wait| wait.min(RETRY_AFTER_MAX)),
            },
            _ => Self::Refused { status },
        }
    }

    /// Carries the error through the crates between a transport and its caller.
    pub(super) fn into_transport(self) -> TransportError {
        TransportErrorKind::custom(self)
    }

    /// What alloy's crates make of a failure.
    pub(super) fn of_transport(error: TransportError) -> Self {
        match error {
            RpcError::ErrorResp(payload) => Self::of_payload(&payload),
            RpcError::NullResp => Self::NotFound,
            RpcError::DeserError { err, .. } => Self::malformed(&err),
            RpcError::Transport(TransportErrorKind::Custom(error)) => {
                match error.downcast::<Self>() {
                    Ok(own) => *own,
                    Err(error) => Self::malformed(error.as_ref()),
                }
            }
            RpcError::Transport(error) => Self::connection(&error),
            // Whatever cannot be sent: a defect here.
            error => Self::malformed(&error),
        }
    }

    fn of_payload<T>(payload: &ErrorPayload<T>) -> Self {
        match meaning(payload.code) {
            Meaning::MethodMissing => Self::MethodMissing,
            Meaning::NotFound => Self::NotFound,
            Meaning::RateLimited => Self::RateLimited { retry_after: None },
            Meaning::BadParams | Meaning::Other => Self::Rpc {
                code: payload.code,
                message: printable(&payload.message),
            },
        }
    }
}

/// An upstream's text as it may stand in a log line.
fn printable(text: &str) -> Box<str> {
    let chars = text
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char });
    chars.take(TEXT_CHARS_MAX).collect::<String>().into()
}

/// An error with what caused it, where that says more.
fn with_sources(error: &dyn Error) -> Box<str> {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            // Writing to a string does not fail.
            let _ = write!(text, ": {cause}");
        }
        source = error.source();
    }
    printable(&text)
}
