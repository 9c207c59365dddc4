//! The errors that methods may answer with. One description stands for all errors of a code,
//! because OpenRPC allows each code once for a method.

use alloy_primitives::Bytes;
use nearhead_chain::call::{CallError, SimulationErrorKind};
use serde_json::{Map, Value, json};

use crate::{filters::FilterError, rpc::error::RpcError};

/// An error of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// The parameters cannot be read, or contradict each other.
    Parameters,
    /// A defect of the service.
    Internal,
    /// The service or its nodes cannot answer now, or the key does not allow it.
    Unavailable,
    /// A limit of the tenant.
    Limit,
    /// A limit of the tenant, or of the query.
    QueryLimit,
    /// A limit of the tenant, or of a call.
    CallLimit,
    /// A call that cannot be run, or fails.
    Call,
    /// A transaction that is refused.
    Transaction,
    /// A call that reverts.
    Reverted,
    /// A block below the window.
    Pruned,
    /// A block tag without a block.
    UnknownTag,
    /// A block that was replaced.
    NotCanonical,
    /// A block without an access list.
    NoAccessList,
    /// A block whose access list is not there.
    AccessListPruned,
    /// State at a block that is not in the window.
    State,
    /// A block above the head, or fees after it that are not known.
    AboveHead,
    /// Fees that are not known.
    OtherFeeRules,
    /// Rules that are not known, or those of Amsterdam.
    OtherRules,
    /// The logs of an unknown block.
    UnknownLogsBlock,
    /// A subscription over HTTP.
    NeedsSession,
    /// A limit of the session.
    SessionLimit,
    /// An unknown subscription.
    UnknownSubscription,
    /// An unknown filter.
    UnknownFilter,
    /// A filter that has no logs, or none that are known.
    FilterWithoutLogs,
    /// A filter that missed blocks.
    FilterBehind,
    /// A limit of the tenant's filters.
    FilterLimit,
    /// A simulation without a result, for a reason that has a code of its own.
    Simulation(SimulationErrorKind),
}

impl Error {
    /// Every error.
    pub(super) const ALL: [Self; 36] = [
        Self::Parameters,
        Self::Internal,
        Self::Unavailable,
        Self::Limit,
        Self::QueryLimit,
        Self::CallLimit,
        Self::Call,
        Self::Transaction,
        Self::Reverted,
        Self::Pruned,
        Self::UnknownTag,
        Self::NotCanonical,
        Self::NoAccessList,
        Self::AccessListPruned,
        Self::State,
        Self::AboveHead,
        Self::OtherFeeRules,
        Self::OtherRules,
        Self::UnknownLogsBlock,
        Self::NeedsSession,
        Self::SessionLimit,
        Self::UnknownSubscription,
        Self::UnknownFilter,
        Self::FilterWithoutLogs,
        Self::FilterBehind,
        Self::FilterLimit,
        Self::Simulation(SimulationErrorKind::NonceTooLow),
        Self::Simulation(SimulationErrorKind::NonceTooHigh),
        Self::Simulation(SimulationErrorKind::FeeTooLow),
        Self::Simulation(SimulationErrorKind::IntrinsicGas),
        Self::Simulation(SimulationErrorKind::InsufficientFunds),
        Self::Simulation(SimulationErrorKind::BlockGasLimit),
        Self::Simulation(SimulationErrorKind::BlockNumber),
        Self::Simulation(SimulationErrorKind::BlockTime),
        Self::Simulation(SimulationErrorKind::InitcodeTooLong),
        Self::Simulation(SimulationErrorKind::TooMuch),
    ];

    /// The errors of every method besides its own.
    pub(super) const OF_ALL_METHODS: [Self; 3] =
        [Self::Parameters, Self::Internal, Self::Unavailable];

    /// An error of this code, and when it is answered.
    fn parts(self) -> (RpcError, &'static str) {
        match self {
            Self::Parameters => (
                RpcError::NonArrayArguments,
                "parameters are missing, too many or malformed",
            ),
            Self::Internal => (RpcError::Internal, "internal error"),
            Self::Unavailable => (
                RpcError::Unavailable,
                "the key does not allow the request, or the service is overloaded or has no block \
                 yet",
            ),
            Self::Limit => (RpcError::QueryTimeout, "a limit of the key is exceeded"),
            Self::QueryLimit => (
                RpcError::QueryTimeout,
                "a limit of the key is exceeded, more logs match than may be returned, or the \
                 query took too long",
            ),
            Self::CallLimit => (
                RpcError::QueryTimeout,
                "a limit of the key is exceeded, or the call took too long",
            ),
            Self::Call => (
                RpcError::HeaderNotFound,
                "the call fails or cannot begin, the chain's rules are not known or those of \
                 Amsterdam, the block is not in the window, was replaced while requireCanonical is \
                 true, or no node gives its state",
            ),
            Self::Transaction => (
                RpcError::NoNodeAnswered,
                "the transaction is not valid, or no node answered; if a node refuses it, the \
                 error has that node's code and message",
            ),
            Self::Reverted => (
                RpcError::Call(CallError::Reverted(Bytes::new())),
                "the contract reverted; data has what it returned",
            ),
            Self::Pruned => (
                RpcError::PrunedHistory,
                "the block is below the window, or not fetched yet",
            ),
            Self::UnknownTag => (
                RpcError::UnknownBlockTag,
                "the safe or finalized block is not known",
            ),
            Self::NotCanonical => (
                RpcError::NotCanonical,
                "the block was replaced, and requireCanonical is true",
            ),
            Self::NoAccessList => (
                RpcError::NoAccessList,
                "the block is older than access lists, which came with Amsterdam",
            ),
            Self::AccessListPruned => (
                RpcError::PrunedHistory,
                "the block is below the window or not fetched yet, or no node gives its access list",
            ),
            Self::State => (
                RpcError::HeaderNotFound,
                "the block is not in the window, was replaced while requireCanonical is true, or \
                 no node gives its state",
            ),
            Self::AboveHead => (
                RpcError::HeaderNotFound,
                "the block is above the head, or the chain's fee rules are not known",
            ),
            Self::OtherFeeRules => (
                RpcError::OtherFeeRules,
                "the chain's fee rules are not known",
            ),
            Self::OtherRules => (
                RpcError::Call(CallError::OtherRules),
                "the chain's rules are not known, or are those of Amsterdam",
            ),
            Self::UnknownLogsBlock => (RpcError::UnknownLogsBlock, "no held block has this hash"),
            Self::NeedsSession => (
                RpcError::NotificationsUnsupported,
                "subscriptions need a WebSocket session",
            ),
            Self::SessionLimit => (
                RpcError::SubscriptionNotFound,
                "the session has too many subscriptions, or too many addresses and topics in them",
            ),
            Self::UnknownSubscription => (
                RpcError::SubscriptionNotFound,
                "the session has no subscription of this id",
            ),
            Self::UnknownFilter => (
                FilterError::NotFound.into(),
                "the key has no filter of this id, or nobody asked about it for 5 minutes",
            ),
            Self::FilterWithoutLogs => (
                FilterError::NotFound.into(),
                "the key has no filter of this id, it is one of blocks, or no held block has the \
                 hash that it names",
            ),
            Self::FilterBehind => (
                FilterError::Behind { from: 0, to: 0 }.into(),
                "blocks that the filter has to go through are not held any more; it goes on after \
                 the head",
            ),
            Self::FilterLimit => (
                FilterError::NotFound.into(),
                "the tenant has too many filters, or too many addresses and topics in them",
            ),
            Self::Simulation(kind) => {
                let error = CallError::Simulation {
                    kind,
                    message: "".into(),
                };
                (RpcError::Call(error), reason(kind))
            }
        }
    }

    /// The code on the wire.
    pub(super) fn code(self) -> i32 {
        self.parts().0.code()
    }

    /// A reference to the error's component.
    pub(super) fn reference(self) -> Value {
        json!({"$ref": format!("#/components/errors/{}", self.name())})
    }

    /// The name of its component.
    pub(super) fn name(self) -> String {
        match self {
            Self::Simulation(kind) => format!("{kind:?}"),
            other => format!("{other:?}"),
        }
    }
}

/// Why a simulation has no result.
const fn reason(kind: SimulationErrorKind) -> &'static str {
    match kind {
        SimulationErrorKind::NonceTooLow => "a call's nonce is too low",
        SimulationErrorKind::NonceTooHigh => "a call's nonce is too high",
        SimulationErrorKind::FeeTooLow => "a call offers less than the base fee",
        SimulationErrorKind::IntrinsicGas => "a call has less gas than it costs to begin",
        SimulationErrorKind::InsufficientFunds => "a sender cannot pay for gas and value",
        SimulationErrorKind::BlockGasLimit => "a block has less gas left than a call asks for",
        SimulationErrorKind::BlockNumber => "a block's number is not above the one before",
        SimulationErrorKind::BlockTime => "a block's time is not above the one before",
        SimulationErrorKind::InitcodeTooLong => "the code that makes a contract is too long",
        SimulationErrorKind::TooMuch => {
            "more than 256 blocks, 5,000 calls in a block or 10,000 in all, or too much output"
        }
        SimulationErrorKind::InvalidParams => "a member of the request is not possible",
        SimulationErrorKind::Other => "another rule is broken",
    }
}

/// The errors by name.
pub(super) fn components() -> Map<String, Value> {
    let all = Error::ALL.into_iter().map(|error| {
        let (_, message) = error.parts();
        let object = json!({"code": error.code(), "message": message});
        (error.name(), object)
    });
    all.collect()
}
