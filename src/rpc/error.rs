//! Every error of JSON-RPC: code, message and data. Only this file and `simulation` have numeric
//! codes.

use std::borrow::Cow;

use alloy_primitives::B256;
use nearhead_actors::messages::NodeError;
use nearhead_chain::{call::CallError, execute::StateError, fees::OtherFeeRules, json::Truncated};
use nearhead_fleet::{block_id::BlockId, min_block::MinBlock};
use nearhead_tenants::allowlists::ListKind;

pub(crate) use of_query::QuerySubject;

use crate::{
    access::{Exceeded, NotLocal, QuotaKind, Refused, TokenError},
    filters::{FilterError, StoreAway},
    metrics::Outcome,
};

/// Longest part of a client's own text that an error repeats, in bytes: enough to recognise it.
const ECHO_BYTES_MAX: usize = 256;

/// An error as the client sees it. Internal detail is logged where it happens, never carried here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcError {
    /// The body is not JSON in UTF-8.
    Parse,
    /// Not a request object of JSON-RPC 2.0.
    InvalidRequest,
    /// An HTTP request that is refused before its JSON-RPC is parsed: its path, verb, type, size or
    /// pace is wrong.
    InvalidHttp(&'static str),
    /// A batch without items.
    EmptyBatch,
    /// A batch of more than `BATCH_ITEMS_MAX` items.
    BatchTooLarge,
    /// The method does not exist, or the tenant may not call it.
    MethodNotFound(Box<str>),
    /// `params` is present, and neither null nor an array.
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
        reason: Cow<'static, str>,
    },
    /// The parameters are invalid, in a way that has a message of its own.
    InvalidParams(Cow<'static, str>),
    /// A request for state above the head. alloy's clients retry on these exact words.
    HeaderNotFound,
    /// The chain's fee rules are not known.
    OtherFeeRules,
    /// A request for state at a hash that no held block has.
    HeaderForHashNotFound,
    /// The block was replaced, and the request insists on a canonical one (EIP-1898).
    NotCanonical,
    /// A request for state below the window.
    HistoricalState {
        /// The requested block.
        block: u64,
        /// The oldest block that is served.
        oldest: u64,
    },
    /// The state is held in part, and no upstream has the rest.
    StateUnavailable,
    /// A node's error, to a call that was forwarded to it.
    Node(NodeError),
    /// No node answered a call that was forwarded, although it may have been made.
    NoNodeAnswered,
    /// A request for blocks below the window (EIP-4444).
    PrunedHistory,
    /// A request for the access list of a block that has none.
    NoAccessList,
    /// The safe or finalized block is not known.
    UnknownBlockTag,
    /// A request for the logs of a hash that no held block has.
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
    /// The reply to a batch is too large, for
    /// [`BATCH_REPLY_BYTES_MAX`](crate::limits::BATCH_REPLY_BYTES_MAX) or for the session.
    ResponseTooLarge,
    /// The key or its tenant is over a quota.
    QuotaExceeded(Exceeded),
    /// A request for a subscription over HTTP.
    NotificationsUnsupported,
    /// The session has no subscription of this id.
    SubscriptionNotFound,
    /// The session has too many subscriptions.
    TooManySubscriptions {
        /// The bound.
        most: usize,
    },
    /// The tenant's sessions have too many subscriptions in all.
    TooManySubscriptionsOfTenant {
        /// The bound.
        most: usize,
    },
    /// The session's subscriptions have too many addresses and topics in all.
    TooManyFilterValues {
        /// The bound.
        most: usize,
    },
    /// A subscription cannot resume from its block, which is no longer held.
    ResumeLost {
        /// Number of the oldest block that is held.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// A filter has no answer, or was not made.
    Filter(FilterError),
    /// The key is missing, unknown, expired or revoked; the client does not learn which.
    UnknownKey,
    /// The secret beside the key is missing or wrong.
    WrongSecret,
    /// The key or the secret is not accepted, nor were too many others from the client's network.
    TooManyGuesses {
        /// Whole seconds after which the next one is looked at; at least 1.
        retry_after_seconds: u32,
    },
    /// The key asks for a JSON Web Token, and it is missing or not accepted.
    Token(TokenError),
    /// One of the key's allowlists does not have what is asked for, or where it comes from.
    NotListed(ListKind),
    /// What is asked for serves this machine alone, and the request comes from elsewhere.
    NotLocal(NotLocal),
    /// There is no block yet, or something else is missing for a time that nobody knows: the client
    /// may retry.
    Unavailable,
    /// So much work of the tenant waits that this would wait for too long, or no permit or memory
    /// is free: the client may retry.
    Overloaded {
        /// Whole seconds until that is over, as it was measured; at least 1.
        retry_after_seconds: u32,
    },
    /// The block that the client has seen elsewhere is not reached: the head, and that block.
    NotReached(Box<(BlockId, MinBlock)>),
    /// What the client has seen cannot be read.
    InvalidMinBlock,
    /// A call of a contract has no result.
    Call(CallError),
    /// A defect of this program.
    Internal,
}

impl From<CallError> for RpcError {
    fn from(error: CallError) -> Self {
        match error {
            // Neither leaves the actor that runs calls.
            CallError::Missing(_) | CallError::Cancelled => Self::Internal,
            CallError::State(error @ StateError::UnknownAncestor { .. }) => {
                Self::failed(error.to_string())
            }
            CallError::State(error) => {
                tracing::error!(%error, "the state of a held block cannot be read");
                Self::Internal
            }
            error => Self::Call(error),
        }
    }
}

impl From<FilterError> for RpcError {
    fn from(error: FilterError) -> Self {
        Self::Filter(error)
    }
}

impl From<StoreAway> for RpcError {
    fn from(_: StoreAway) -> Self {
        Self::Unavailable
    }
}

impl From<OtherFeeRules> for RpcError {
    fn from(_: OtherFeeRules) -> Self {
        Self::OtherFeeRules
    }
}

impl From<Refused> for RpcError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::UnknownKey => Self::UnknownKey,
            Refused::WrongSecret => Self::WrongSecret,
            Refused::Token(error) => Self::Token(error),
            Refused::NotListed(kind) => Self::NotListed(kind),
            Refused::NotLocal(reason) => Self::NotLocal(reason),
        }
    }
}

impl From<Truncated> for RpcError {
    fn from(_: Truncated) -> Self {
        tracing::error!("{Truncated}");
        Self::Internal
    }
}

impl RpcError {
    /// The error for a body larger than [`BODY_BYTES_MAX`](crate::limits::BODY_BYTES_MAX).
    pub(crate) const BODY_TOO_LARGE: Self =
        Self::InvalidHttp("request body too large, send at most 5 MiB");
}

impl RpcError {
    /// The code on the wire.
    #[must_use]
    pub(crate) const fn code(&self) -> i32 {
        match self {
            Self::Node(error) => error.code,
            // https://github.com/ethereum/go-ethereum/blob/v1.17.4/internal/ethapi/errors.go: revertError
            Self::Call(CallError::Reverted(_)) => 3,
            Self::Call(CallError::Simulation { kind, .. }) => simulation::code(*kind),
            // https://www.jsonrpc.org/specification#error_object
            Self::Parse => -32700,
            // https://www.jsonrpc.org/specification#error_object; geth uses it for empty and oversized
            // batches too
            Self::InvalidRequest | Self::InvalidHttp(_) | Self::InvalidMinBlock => -32600,
            Self::EmptyBatch | Self::BatchTooLarge => -32600,
            // https://www.jsonrpc.org/specification#error_object; ethers 6 and web3.py match the
            // message
            Self::MethodNotFound(_) => -32601,
            // https://github.com/ethereum/go-ethereum/blob/v1.17.4/rpc/subscription.go:
            // notifications not supported
            Self::NotificationsUnsupported => -32601,
            // https://www.jsonrpc.org/specification#error_object; never with `data`: Hive's rpc-compat
            // rejects it
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
            | Self::OtherFeeRules
            | Self::HeaderForHashNotFound
            | Self::NotCanonical
            | Self::HistoricalState { .. }
            | Self::StateUnavailable
            | Self::NoNodeAnswered
            | Self::Call(_)
            | Self::SubscriptionNotFound
            | Self::TooManySubscriptions { .. }
            | Self::TooManySubscriptionsOfTenant { .. }
            | Self::TooManyFilterValues { .. }
            | Self::UnknownLogsBlock => -32000,
            // https://github.com/ethereum/go-ethereum/blob/v1.17.4/eth/filters/api.go:
            // errFilterNotFound; viem makes another filter on this code
            Self::Filter(error) if !matches!(error, FilterError::Behind { .. }) => -32000,
            // https://github.com/ethereum/execution-apis/blob/main/src/eth/block.yaml: resource not
            // found
            Self::NoAccessList => -32001,
            // https://eips.ethereum.org/EIPS/eip-1474#error-codes: resource unavailable
            Self::UnknownKey
            | Self::WrongSecret
            | Self::Token(
                TokenError::Missing
                | TokenError::Invalid
                | TokenError::Claims
                | TokenError::OtherAudience
                | TokenError::NotYetValid
                | TokenError::Expired,
            )
            | Self::NotListed(_)
            | Self::NotLocal(_)
            | Self::Unavailable
            | Self::NotReached(_)
            | Self::Overloaded { .. } => -32002,
            // https://github.com/ethereum/go-ethereum/blob/v1.17.4/rpc/errors.go:
            // errcodeResponseTooLarge
            Self::ResponseTooLarge => -32003,
            // https://eips.ethereum.org/EIPS/eip-1474#error-codes: limit exceeded; clients retry on
            // it, so nothing else may have it
            Self::TooManyLogs { .. }
            | Self::QueryTimeout
            | Self::QuotaExceeded(_)
            | Self::TooManyGuesses { .. }
            | Self::Token(TokenError::TooMany { .. }) => -32005,
            // https://github.com/ethereum/go-ethereum/blob/v1.17.4/internal/ethapi/errors.go:
            // unknown block
            Self::UnknownBlockTag => -39001,
            // https://github.com/ethereum/execution-apis/blob/main/src/eth/filter.yaml and EIP-4444
            Self::PrunedHistory | Self::ResumeLost { .. } | Self::Filter(_) => 4444,
        }
    }

    /// The message on the wire.
    #[must_use]
    pub(crate) fn message(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Parse => "parse error",
            Self::InvalidRequest => "invalid request",
            Self::InvalidHttp(reason) => reason,
            Self::InvalidMinBlock => {
                "invalid min block, want a block's number, its hash, or both with a comma between them"
            }
            Self::NotReached(_) => "resource unavailable, the min block is not reached yet",
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
            Self::InvalidArgument { index, reason } => {
                return format!("invalid argument {index}: {reason}").into();
            }
            Self::InvalidParams(reason) => return reason.clone(),
            Self::HeaderNotFound => "header not found",
            Self::OtherFeeRules => {
                "the chain's fee rules are not known: the service needs its genesis (--genesis)"
            }
            Self::HeaderForHashNotFound => "header for hash not found",
            Self::NotCanonical => "hash is not currently canonical",
            Self::HistoricalState { block, oldest } => {
                return format!("historical state not available: block {block}, oldest {oldest}")
                    .into();
            }
            Self::Call(error) => return error.to_string().into(),
            Self::StateUnavailable => "state not available from the configured nodes",
            Self::Node(error) => return error.message.to_string().into(),
            Self::NoNodeAnswered => "no node answered, although the call may have reached one",
            Self::PrunedHistory => "pruned history unavailable",
            Self::NoAccessList => {
                "resource not found: the block is older than access lists (Amsterdam)"
            }
            Self::UnknownBlockTag => "Unknown block",
            Self::UnknownLogsBlock => "unknown block",
            Self::TooManyLogs { limit, .. } => {
                return format!("query returned more than {limit} results").into();
            }
            Self::QueryTimeout => "query timeout exceeded",
            Self::ResponseTooLarge => "response too large",
            Self::QuotaExceeded(exceeded) => match exceeded.quota {
                QuotaKind::Requests => "project ID request rate exceeded",
                QuotaKind::Units => "project ID unit rate exceeded",
                QuotaKind::UnitsOfDay => {
                    "project ID units of the day are used up, they are renewed at 00:00 UTC"
                }
            },
            Self::NotificationsUnsupported => "notifications not supported",
            Self::SubscriptionNotFound => "subscription not found",
            Self::TooManySubscriptions { most } => {
                return format!("too many subscriptions, at most {most} a session").into();
            }
            Self::TooManySubscriptionsOfTenant { most } => {
                return format!("too many subscriptions, at most {most} a project ID").into();
            }
            Self::TooManyFilterValues { most } => {
                let what = "too many addresses and topics in subscriptions";
                return format!("{what}, at most {most} a session").into();
            }
            Self::ResumeLost { .. } => "the block to resume from is not held any more",
            Self::Filter(error) => return error.to_string().into(),
            Self::UnknownKey => "invalid project id",
            Self::WrongSecret => "invalid project secret",
            Self::TooManyGuesses { .. } => {
                "too many project IDs or secrets of this network were not accepted, try again later"
            }
            Self::Token(error) => match error {
                TokenError::Missing => {
                    "JSON Web Token required, send it in the header Authorization: Bearer"
                }
                TokenError::Invalid => "invalid JSON Web Token",
                TokenError::Claims => "invalid claims of the JSON Web Token, it needs aud and exp",
                TokenError::OtherAudience => "the JSON Web Token is for another audience",
                TokenError::NotYetValid => "the JSON Web Token is not valid yet",
                TokenError::Expired => "the JSON Web Token has expired",
                TokenError::TooMany { .. } => {
                    "too many JSON Web Tokens of this network were not accepted, try again later"
                }
            },
            Self::NotListed(kind) => {
                return format!("the {kind} is not on the allowlist of this project ID").into();
            }
            Self::NotLocal(NotLocal::Host) => {
                "the header Host is not of this machine, use localhost or allow the host with --allowed-host"
            }
            Self::NotLocal(NotLocal::Origin) => {
                "the origin is not of this machine, open the page from localhost or give nearhead an --api-key"
            }
            Self::Unavailable | Self::Overloaded { .. } => "resource unavailable",
            Self::Internal => "internal error",
        })
    }

    /// The outcome of a request that got this error.
    #[must_use]
    pub(crate) const fn outcome(&self) -> Outcome {
        match self {
            Self::Parse
            | Self::InvalidRequest
            | Self::InvalidHttp(_)
            | Self::InvalidMinBlock
            | Self::EmptyBatch
            | Self::BatchTooLarge
            | Self::MethodNotFound(_)
            | Self::NonArrayArguments
            | Self::TooManyArguments { .. }
            | Self::MissingArgument { .. }
            | Self::InvalidArgument { .. }
            | Self::InvalidParams(_)
            | Self::HeaderNotFound
            | Self::OtherFeeRules
            | Self::Call(_)
            | Self::Node(_)
            | Self::HeaderForHashNotFound
            | Self::NotCanonical
            | Self::HistoricalState { .. }
            | Self::PrunedHistory
            | Self::NoAccessList
            | Self::UnknownBlockTag
            | Self::UnknownLogsBlock
            | Self::TooManyLogs { .. }
            | Self::NotificationsUnsupported
            | Self::SubscriptionNotFound
            | Self::TooManySubscriptions { .. }
            | Self::TooManySubscriptionsOfTenant { .. }
            | Self::TooManyFilterValues { .. }
            | Self::ResumeLost { .. }
            | Self::Filter(_)
            | Self::ResponseTooLarge => Outcome::Invalid,
            Self::QuotaExceeded(_)
            | Self::UnknownKey
            | Self::WrongSecret
            | Self::TooManyGuesses { .. }
            | Self::Token(_)
            | Self::NotListed(_)
            | Self::NotLocal(_) => Outcome::Denied,
            Self::Unavailable
            | Self::NotReached(_)
            | Self::Overloaded { .. }
            | Self::StateUnavailable
            | Self::NoNodeAnswered => Outcome::Refused,
            Self::QueryTimeout => Outcome::Timeout,
            Self::Internal => Outcome::Internal,
        }
    }

    /// [`Self::MethodNotFound`] with as much of the name as an error repeats.
    pub fn method_not_found(method: &str) -> Self {
        Self::MethodNotFound(echo(method).into())
    }

    /// A call that cannot begin or end, with this message.
    pub(crate) fn failed(message: String) -> Self {
        Self::Call(CallError::Invalid(message.into()))
    }
}

/// As much of a client's own text as an error repeats.
pub(crate) fn echo(text: &str) -> &str {
    &text[..text.floor_char_boundary(ECHO_BYTES_MAX)]
}

mod json;
mod of_query;
mod simulation;
#[cfg(test)]
mod tests;
