//! What a request can be told instead of a result: the only numeric codes in the tree.

use std::{borrow::Cow, fmt::Write as _};

use alloy_primitives::B256;
use nearhead_actors::messages::QueryError;
use nearhead_chain::{
    json::Truncated,
    window::{ResolveError, Snapshot},
};

use crate::{access::Exceeded, metrics::Outcome};

/// Longest part of a client's own text that an error repeats, in bytes: enough to recognise it by.
const ECHO_MAX: usize = 256;

/// An error as the client sees it. Internal detail is logged where it happens, never carried here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcError {
    /// The body is not JSON in UTF-8.
    Parse,
    /// Not a request object of JSON-RPC 2.0.
    InvalidRequest,
    /// An HTTP request that carries no JSON-RPC: its path, verb, type, size or pace is wrong.
    InvalidHttp(&'static str),
    /// A batch without items.
    EmptyBatch,
    /// A batch of more items than may be asked at once.
    BatchTooLarge,
    /// No method of this name is served here.
    MethodNotFound(Box<str>),
    /// `params` is neither absent, null nor an array.
    NonArrayArguments,
    /// More parameters than the method has.
    TooManyArguments {
        /// How many it has.
        most: usize,
    },
    /// A required parameter is missing.
    MissingArgument {
        /// Its position, from 0.
        index: usize,
    },
    /// A parameter cannot be read.
    InvalidArgument {
        /// Its position, from 0.
        index: usize,
        /// What is wrong with it.
        why: Cow<'static, str>,
    },
    /// The parameters can be read, but not be answered.
    InvalidParams(Cow<'static, str>),
    /// State was asked for above the head. alloy's clients retry on these exact words.
    HeaderNotFound,
    /// No held block has the hash whose state was asked for.
    HeaderForHashNotFound,
    /// The block was replaced, and the request insists on a canonical one (EIP-1898).
    NotCanonical,
    /// State was asked for below the window.
    HistoricalState {
        /// The block that was asked for.
        block: u64,
        /// The oldest block that is served.
        oldest: u64,
    },
    /// None of the configured nodes gives what is missing of the state that was asked for.
    StateUnavailable,
    /// Blocks were asked for below the window (EIP-4444).
    PrunedHistory,
    /// safe or finalized is not known.
    UnknownBlockTag,
    /// No held block has the hash whose logs were asked for.
    UnknownLogsBlock,
    /// More logs match than may be returned.
    TooManyLogs {
        /// First block of the query.
        from: u64,
        /// Last block of the largest range from `from` that fits, if any does.
        to: Option<u64>,
        /// How many may be returned.
        limit: usize,
    },
    /// The query took too long.
    QueryTimeout,
    /// The replies of a batch are larger than may be sent at once.
    ResponseTooLarge,
    /// The tenant asks too often.
    RateExceeded(Exceeded),
    /// Subscriptions were asked for where nothing can be told.
    NotificationsUnsupported,
    /// The session has no subscription of this id.
    SubscriptionNotFound,
    /// The session has as many subscriptions as it may have.
    TooManySubscriptions {
        /// How many that is.
        most: usize,
    },
    /// The session's subscriptions have as many addresses and topics in all as they may have.
    TooManyFilterValues {
        /// How many that is.
        most: usize,
    },
    /// What happened since a block is not held any more: a subscription cannot go on from it.
    ResumeLost {
        /// Number of the oldest block that is held.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// The key is missing, unknown or revoked; which of them is not told.
    InvalidProjectId,
    /// Admission was refused, or there is no block yet: come back.
    Unavailable,
    /// A defect of this program.
    Internal,
}

impl From<Truncated> for RpcError {
    fn from(_: Truncated) -> Self {
        tracing::error!("{Truncated}");
        Self::Internal
    }
}

impl RpcError {
    /// What is said of a request that is larger than
    /// [`BODY_BYTES_MAX`](crate::limits::BODY_BYTES_MAX).
    pub(crate) const BODY_TOO_LARGE: Self =
        Self::InvalidHttp("request body too large, send at most 5 MiB");
}

impl RpcError {
    /// The number on the wire.
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            // https://www.jsonrpc.org/specification#error_object
            Self::Parse => -32700,
            // https://www.jsonrpc.org/specification#error_object; geth has empty and oversized
            // batches here too
            Self::InvalidRequest | Self::InvalidHttp(_) => -32600,
            Self::EmptyBatch | Self::BatchTooLarge => -32600,
            // https://www.jsonrpc.org/specification#error_object; ethers 6 and web3.py match its
            // words
            Self::MethodNotFound(_) => -32601,
            // https://github.com/ethereum/go-ethereum/blob/v1.17.4/rpc/subscription.go:
            // notifications not supported
            Self::NotificationsUnsupported => -32601,
            // https://www.jsonrpc.org/specification#error_object; never with `data`, Hive's
            // rpc-compat rejects it
            Self::NonArrayArguments
            | Self::TooManyArguments { .. }
            | Self::MissingArgument { .. }
            | Self::InvalidArgument { .. }
            | Self::InvalidParams(_) => -32602,
            // https://www.jsonrpc.org/specification#error_object
            Self::Internal => -32603,
            // https://github.com/ethereum/go-ethereum/blob/v1.17.4/eth/api_backend.go: errors
            // without a code of their own
            Self::HeaderNotFound
            | Self::HeaderForHashNotFound
            | Self::NotCanonical
            | Self::HistoricalState { .. }
            | Self::StateUnavailable
            | Self::SubscriptionNotFound
            | Self::TooManySubscriptions { .. }
            | Self::TooManyFilterValues { .. }
            | Self::UnknownLogsBlock => -32000,
            // https://eips.ethereum.org/EIPS/eip-1474#error-codes: resource unavailable
            Self::InvalidProjectId | Self::Unavailable => -32002,
            // https://github.com/ethereum/go-ethereum/blob/v1.17.4/rpc/errors.go:
            // errcodeResponseTooLarge
            Self::ResponseTooLarge => -32003,
            // https://eips.ethereum.org/EIPS/eip-1474#error-codes: limit exceeded; clients retry on
            // it, so nothing else may have it
            Self::TooManyLogs { .. } | Self::QueryTimeout | Self::RateExceeded(_) => -32005,
            // https://github.com/ethereum/go-ethereum/blob/v1.17.4/internal/ethapi/errors.go:
            // unknown block
            Self::UnknownBlockTag => -39001,
            // https://github.com/ethereum/execution-apis/blob/main/src/eth/filter.yaml and EIP-4444
            Self::PrunedHistory | Self::ResumeLost { .. } => 4444,
        }
    }

    /// The words on the wire.
    #[must_use]
    pub fn message(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Parse => "parse error",
            Self::InvalidRequest => "invalid request",
            Self::InvalidHttp(why) => why,
            Self::EmptyBatch => "empty batch",
            Self::BatchTooLarge => "batch too large",
            Self::MethodNotFound(method) => {
                return format!("the method {method} does not exist/is not available").into();
            }
            Self::NonArrayArguments => "non-array args",
            Self::TooManyArguments { most } => {
                return format!("too many arguments, want at most {most}").into();
            }
            Self::MissingArgument { index } => {
                return format!("missing value for required argument {index}").into();
            }
            Self::InvalidArgument { index, why } => {
                return format!("invalid argument {index}: {why}").into();
            }
            Self::InvalidParams(why) => return why.clone(),
            Self::HeaderNotFound => "header not found",
            Self::HeaderForHashNotFound => "header for hash not found",
            Self::NotCanonical => "hash is not currently canonical",
            Self::HistoricalState { block, oldest } => {
                return format!("historical state not available: block {block}, oldest {oldest}")
                    .into();
            }
            Self::StateUnavailable => "state not available from the configured nodes",
            Self::PrunedHistory => "pruned history unavailable",
            Self::UnknownBlockTag => "Unknown block",
            Self::UnknownLogsBlock => "unknown block",
            Self::TooManyLogs { limit, .. } => {
                return format!("query returned more than {limit} results").into();
            }
            Self::QueryTimeout => "query timeout exceeded",
            Self::ResponseTooLarge => "response too large",
            Self::RateExceeded(_) => "project ID request rate exceeded",
            Self::NotificationsUnsupported => "notifications not supported",
            Self::SubscriptionNotFound => "subscription not found",
            Self::TooManySubscriptions { most } => {
                return format!("too many subscriptions, at most {most} a session").into();
            }
            Self::TooManyFilterValues { most } => {
                let what = "too many addresses and topics in subscriptions";
                return format!("{what}, at most {most} a session").into();
            }
            Self::ResumeLost { .. } => "the block to resume from is not held any more",
            Self::InvalidProjectId => "invalid project id",
            Self::Unavailable => "resource unavailable",
            Self::Internal => "internal error",
        })
    }

    /// The error object: `{"code":…,"message":…}`, with `data` for the conditions that have some.
    pub(crate) fn to_json(&self) -> String {
        let mut text = format!(r#"{{"code":{},"message":"#, self.code());
        let out = &mut text;
        write_string(out, &self.message());
        match self {
            Self::TooManyLogs { from, to, limit } => {
                // Writing to a string cannot fail.
                let _ = write!(out, r#","data":{{"from":"{from:#x}","to":"#);
                let _ = match to {
                    Some(to) => write!(out, r#""{to:#x}""#),
                    None => out.write_str("null"),
                };
                let _ = write!(out, r#","limit":{limit}}}"#);
            }
            Self::RateExceeded(exceeded) => {
                let Exceeded {
                    backoff_seconds,
                    allowed_rps,
                    current_rps,
                } = exceeded;
                let _ = write!(
                    out,
                    r#","data":{{"backoff_seconds":{backoff_seconds},"allowed_rps":{allowed_rps},"current_rps":{current_rps}}}"#
                );
            }
            Self::ResumeLost { number, hash } => {
                let _ = write!(
                    out,
                    r#","data":{{"oldest":{{"number":"{number:#x}","hash":"{hash}"}}}}"#
                );
            }
            _ => {}
        }
        out.push('}');
        text
    }

    /// What became of a request that got this error.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Parse
            | Self::InvalidRequest
            | Self::InvalidHttp(_)
            | Self::EmptyBatch
            | Self::BatchTooLarge
            | Self::MethodNotFound(_)
            | Self::NonArrayArguments
            | Self::TooManyArguments { .. }
            | Self::MissingArgument { .. }
            | Self::InvalidArgument { .. }
            | Self::InvalidParams(_)
            | Self::HeaderNotFound
            | Self::HeaderForHashNotFound
            | Self::NotCanonical
            | Self::HistoricalState { .. }
            | Self::PrunedHistory
            | Self::UnknownBlockTag
            | Self::UnknownLogsBlock
            | Self::TooManyLogs { .. }
            | Self::NotificationsUnsupported
            | Self::SubscriptionNotFound
            | Self::TooManySubscriptions { .. }
            | Self::TooManyFilterValues { .. }
            | Self::ResumeLost { .. }
            | Self::ResponseTooLarge => Outcome::Invalid,
            Self::RateExceeded(_) | Self::InvalidProjectId => Outcome::Denied,
            Self::Unavailable | Self::StateUnavailable => Outcome::Refused,
            Self::QueryTimeout => Outcome::Timeout,
            Self::Internal => Outcome::Internal,
        }
    }

    /// The method of this name does not exist.
    pub fn method_not_found(method: &str) -> Self {
        Self::MethodNotFound(echo(method).into())
    }

    /// Why a state method has no answer.
    pub(crate) fn of_state(error: QueryError, snapshot: &Snapshot) -> Self {
        match error {
            QueryError::Resolve(ResolveError::AboveHead { .. }) => Self::HeaderNotFound,
            QueryError::Resolve(ResolveError::BelowWindow { number, oldest }) => {
                Self::HistoricalState {
                    block: number,
                    oldest,
                }
            }
            QueryError::Resolve(ResolveError::UnknownHash) => Self::HeaderForHashNotFound,
            QueryError::Resolve(ResolveError::NotCanonical) => Self::NotCanonical,
            QueryError::NoState { number } => Self::HistoricalState {
                block: number,
                oldest: snapshot.oldest(),
            },
            other => Self::of_query(other),
        }
    }

    /// Why eth_getLogs has no answer.
    pub(crate) fn of_logs(error: QueryError) -> Self {
        match error {
            QueryError::Resolve(ResolveError::UnknownHash) => Self::UnknownLogsBlock,
            QueryError::Resolve(ResolveError::AboveHead { .. }) => Self::InvalidParams(
                Cow::Borrowed("block range extends beyond current head block"),
            ),
            other => Self::of_query(other),
        }
    }

    /// What every family of methods has in common.
    pub(crate) fn of_query(error: QueryError) -> Self {
        match error {
            QueryError::Resolve(ResolveError::AboveHead { .. }) => Self::HeaderNotFound,
            QueryError::Resolve(ResolveError::BelowWindow { .. } | ResolveError::NotFilled) => {
                Self::PrunedHistory
            }
            QueryError::Resolve(ResolveError::UnknownHash) => Self::HeaderForHashNotFound,
            QueryError::Resolve(ResolveError::NotCanonical) => Self::NotCanonical,
            QueryError::Resolve(ResolveError::UnknownTag) => Self::UnknownBlockTag,
            QueryError::TooManyLogs {
                from,
                fits_to,
                limit,
            } => Self::TooManyLogs {
                from,
                to: fits_to,
                limit,
            },
            QueryError::Timeout => Self::QueryTimeout,
            QueryError::Unavailable => Self::Unavailable,
            QueryError::StateUnavailable => Self::StateUnavailable,
            // Whoever cancelled does not read the answer.
            QueryError::Cancelled | QueryError::Panicked => Self::Internal,
            QueryError::Trie(_) | QueryError::NoState { .. } => {
                tracing::error!(%error, "the state of a held block cannot be read");
                Self::Internal
            }
        }
    }
}

/// The beginning of a client's own text, as much of it as an error repeats.
pub(crate) fn echo(text: &str) -> &str {
    &text[..text.floor_char_boundary(ECHO_MAX)]
}

/// Writes `text` as a JSON string.
fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if control < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: &RpcError, expected: &str) {
        let written = error.to_json();
        assert_eq!(written, expected);
        serde_json::from_str::<serde_json::Value>(&written).unwrap();
    }

    #[test]
    fn a_panic_of_an_actor_is_an_internal_error() {
        let error = RpcError::of_query(QueryError::Panicked);
        assert_eq!((error.code(), error.outcome()), (-32603, Outcome::Internal));
    }

    #[test]
    fn every_error_is_written_as_an_object() {
        check(
            &RpcError::Parse,
            r#"{"code":-32700,"message":"parse error"}"#,
        );
        check(
            &RpcError::method_not_found("a\"\\\u{1}\n\u{7f}é"),
            "{\"code\":-32601,\"message\":\"the method a\\\"\\\\\\u0001\\n\u{7f}é does not exist/is not available\"}",
        );
        check(
            &RpcError::TooManyLogs {
                from: 16,
                to: Some(18),
                limit: 10_000,
            },
            r#"{"code":-32005,"message":"query returned more than 10000 results","data":{"from":"0x10","to":"0x12","limit":10000}}"#,
        );
        check(
            &RpcError::TooManyLogs {
                from: 16,
                to: None,
                limit: 10_000,
            },
            r#"{"code":-32005,"message":"query returned more than 10000 results","data":{"from":"0x10","to":null,"limit":10000}}"#,
        );
        check(
            &RpcError::RateExceeded(Exceeded {
                backoff_seconds: 1,
                allowed_rps: 2,
                current_rps: 3,
            }),
            r#"{"code":-32005,"message":"project ID request rate exceeded","data":{"backoff_seconds":1,"allowed_rps":2,"current_rps":3}}"#,
        );
    }

    #[test]
    fn a_state_that_no_node_gives_is_said_so() {
        let error = RpcError::of_query(QueryError::StateUnavailable);
        check(
            &error,
            r#"{"code":-32000,"message":"state not available from the configured nodes"}"#,
        );
        assert_eq!(error.outcome(), Outcome::Refused);
    }

    #[test]
    fn a_long_method_name_is_cut_at_a_character() {
        let long = "é".repeat(1_000);
        let RpcError::MethodNotFound(kept) = RpcError::method_not_found(&long) else {
            panic!("another error")
        };
        assert_eq!(kept.len(), ECHO_MAX);
    }
}
