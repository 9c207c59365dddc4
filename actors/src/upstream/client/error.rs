//! Why a call failed.

use std::{error::Error, fmt::Write, time::Duration};

use alloy_json_rpc::{ErrorPayload, RpcError};
use alloy_transport::{TransportError, TransportErrorKind};

use super::error_code::{Meaning, meaning};

/// Why a call failed. No message contains a URL or a header; an upstream's own text is shortened
/// and printable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// As many calls as may run at once are in progress, and none ended in time. This is not the
    /// upstream's fault.
    #[error("too many calls to this node are in progress")]
    Busy,
    /// No answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// There is no connection, or it ended before the answer was complete.
    #[error("connection: {0}")]
    Connection(Box<str>),
    /// The upstream limits our rate.
    #[error("rate limited")]
    RateLimited {
        /// How long to wait, if it says so; an hour at most.
        retry_after: Option<Duration>,
    },
    /// The upstream, or a proxy before it, refused the HTTP request.
    #[error("refused with HTTP status {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The upstream does not have the method.
    #[error("the node does not have the method")]
    UnsupportedMethod,
    /// The upstream has no such block, transaction or ommer.
    #[error("not found")]
    NotFound,
    /// The answer is not what the method returns.
    #[error("malformed answer: {0}")]
    Malformed(Box<str>),
    /// The answer is longer than an honest one can be.
    #[error("answer of more than {limit} bytes")]
    TooLarge {
        /// The bound in bytes.
        limit: usize,
    },
    /// The upstream answered with another JSON-RPC error.
    #[error("error {code}: {message}")]
    Rpc {
        /// Its code.
        code: i64,
        /// Its message.
        message: Box<str>,
    },
}

/// Why the client of an upstream cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// TLS cannot be set up; the system may have no certificates.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// HTTP cannot be set up.
    #[error("cannot set up HTTP: {0}")]
    Http(reqwest::Error),
}

/// Largest number of characters of an upstream's text that a log line shows.
const TEXT_CHARS_MAX: usize = 200;

/// Longest wait that is granted to an upstream: one that asks for a day is tried again after an
/// hour.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

impl CallError {
    /// The labels of all kinds.
    pub(in crate::upstream) const LABELS: [&'static str; 10] = [
        "busy",
        "timeout",
        "connection",
        "rate_limited",
        "refused",
        "unsupported_method",
        "not_found",
        "malformed",
        "too_large",
        "rpc",
    ];

    /// The kind's label, which has no text of the upstream.
    pub(in crate::upstream) const fn label(&self) -> &'static str {
        let at = match self {
            Self::Busy => 0,
            Self::Timeout(_) => 1,
            Self::Connection(_) => 2,
            Self::RateLimited { .. } => 3,
            Self::Refused { .. } => 4,
            Self::UnsupportedMethod => 5,
            Self::NotFound => 6,
            Self::Malformed(_) => 7,
            Self::TooLarge { .. } => 8,
            Self::Rpc { .. } => 9,
        };
        Self::LABELS[at]
    }
}

impl CallError {
    /// Whether the upstream cannot answer this method with such parameters at all.
    pub(super) fn is_unsupported(&self) -> bool {
        match self {
            Self::UnsupportedMethod => true,
            Self::Rpc { code, .. } => meaning(*code) == Meaning::BadParams,
            _ => false,
        }
    }

    /// Whether the upstream may refuse a batch for being one.
    pub(super) const fn refuses_batches(&self) -> bool {
        matches!(self, Self::Refused { status: 400..500 })
    }

    pub(super) fn connection(error: &dyn Error) -> Self {
        Self::Connection(with_sources(error))
    }

    pub(crate) fn malformed(error: &dyn Error) -> Self {
        Self::Malformed(with_sources(error))
    }

    /// The error for an HTTP status other than success.
    pub(super) fn from_status(status: u16, retry_after: Option<Duration>) -> Self {
        match (status, retry_after) {
            (429, _) | (503, Some(_)) => Self::RateLimited {
                retry_after: retry_after.map(|wait| wait.min(RETRY_AFTER_MAX)),
            },
            _ => Self::Refused { status },
        }
    }

    /// Wraps the error, to pass it through alloy's crates to the caller.
    pub(super) fn into_transport(self) -> TransportError {
        TransportErrorKind::custom(self)
    }

    /// The error behind one of alloy's.
    pub(super) fn from_transport(error: TransportError) -> Self {
        match error {
            RpcError::ErrorResp(payload) => Self::from_payload(&payload),
            RpcError::NullResp => Self::NotFound,
            RpcError::DeserError { err, .. } => Self::malformed(&err),
            RpcError::Transport(TransportErrorKind::Custom(error)) => {
                match error.downcast::<Self>() {
                    Ok(own) => *own,
                    Err(error) => Self::malformed(error.as_ref()),
                }
            }
            RpcError::Transport(error) => Self::connection(&error),
            // The request cannot be serialized: a defect of this program.
            error => Self::malformed(&error),
        }
    }

    fn from_payload<T>(payload: &ErrorPayload<T>) -> Self {
        match meaning(payload.code) {
            Meaning::UnsupportedMethod => Self::UnsupportedMethod,
            Meaning::NotFound => Self::NotFound,
            Meaning::RateLimited => Self::RateLimited { retry_after: None },
            Meaning::BadParams | Meaning::Other => Self::Rpc {
                code: payload.code,
                message: printable(&payload.message, TEXT_CHARS_MAX),
            },
        }
    }
}

/// An upstream's text, shortened to so many characters, and without control characters.
pub(crate) fn printable(text: &str, chars_max: usize) -> Box<str> {
    let chars = text
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char });
    chars.take(chars_max).collect::<String>().into()
}

/// An error followed by its causes, each if it adds something.
fn with_sources(error: &dyn Error) -> Box<str> {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {cause}");
        }
        source = error.source();
    }
    printable(&text, TEXT_CHARS_MAX)
}
