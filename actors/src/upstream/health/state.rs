//! What an upstream can be, and what it can do wrong.

use std::{fmt, time::Duration};

use super::UpstreamId;
use crate::upstream::client::CallError;

/// What an upstream is to us. docs/nodes.md has the table of [`Self::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamState {
    /// It has not named a head yet, or says that it is still syncing.
    Syncing,
    /// It can be followed.
    Live,
    /// Others have been ahead of it for too long.
    Lagging,
    /// It asked to be left alone.
    Limited,
    /// It did something wrong, and is left alone.
    Faulty(Fault),
}

impl UpstreamState {
    /// All states with what each means; a fault stands for all of them.
    pub const ALL: [(Self, &'static str); 5] = [
        (
            Self::Syncing,
            "has not named a head yet, or says that it is syncing",
        ),
        (Self::Live, "can be followed"),
        (
            Self::Lagging,
            "others, or what is served here, are ahead of it for more than half a block time; followed if there is no other",
        ),
        (
            Self::Limited,
            "answered that it was asked too much, for a block or for state: left alone with both for as long as it says, at least as long as after a fault",
        ),
        (
            Self::Faulty(Fault::Silent),
            "did something of the next table: left alone, each time twice as long",
        ),
    ];

    /// The state's name, for metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Syncing => "syncing",
            Self::Live => "live",
            Self::Lagging => "lagging",
            Self::Limited => "limited",
            Self::Faulty(_) => "faulty",
        }
    }
}

impl fmt::Display for UpstreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faulty(fault) => write!(f, "faulty: {fault}"),
            state => f.write_str(state.label()),
        }
    }
}

nearhead_chain::reasons! {
    /// What an upstream did wrong. docs/nodes.md has the table of [`Self::ALL`].
    Fault:
    WrongChain = "wrong_chain", "it is a node of another chain";
    Silent = "silent", "nothing was heard of it for three block times, at least two seconds";
    Timeout = "timeout", "a call was not answered in time";
    Connection = "connection", "it cannot be connected to, or the connection ended";
    Refused = "refused", "it refused a request with an HTTP status";
    MethodMissing = "method_missing", "it lacks a method without which it cannot be followed";
    ErrorAnswer = "error_answer", "it answered with a JSON-RPC error";
    Missing = "missing", "it does not have a block that it named";
    Malformed = "malformed", "an answer is not what the method answers, or too long";
    BadBlock = "bad_block", "a block or its receipts failed a check against the block's hash";
    BadProof = "bad_proof", "a proof or a code failed a check against the state root";
}

impl Fault {
    /// Whether the upstream gave something out for what it is not: trying again soon is of little use.
    #[must_use]
    pub const fn is_lie(self) -> bool {
        matches!(self, Self::WrongChain | Self::BadBlock | Self::BadProof)
    }
}

/// What a call's failure says of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: it was not asked.
    Innocent,
    /// It wants to be asked less.
    Limited(Option<Duration>),
    /// It did something wrong.
    Fault(Fault),
}

/// What somebody else than the follower found out about an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultReport {
    /// Which upstream.
    pub upstream: UpstreamId,
    /// What it says of it.
    pub verdict: Verdict,
    /// What was found, for the log.
    pub why: String,
}

impl From<&CallError> for Verdict {
    fn from(error: &CallError) -> Self {
        Self::Fault(match error {
            CallError::Busy => return Self::Innocent,
            CallError::RateLimited { retry_after } => return Self::Limited(*retry_after),
            CallError::Timeout(_) => Fault::Timeout,
            CallError::Connection(_) => Fault::Connection,
            CallError::Refused { .. } => Fault::Refused,
            CallError::MethodMissing => Fault::MethodMissing,
            CallError::NotFound => Fault::Missing,
            CallError::Malformed(_) | CallError::TooLarge { .. } => Fault::Malformed,
            CallError::Rpc { .. } => Fault::ErrorAnswer,
        })
    }
}
