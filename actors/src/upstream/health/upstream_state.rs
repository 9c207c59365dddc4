//! What an upstream can be, and what it can do wrong.

use std::{fmt, time::Duration};

use crate::upstream::client::CallError;

/// An upstream, by its place in the configuration.
pub(crate) type UpstreamId = usize;

/// A moment: the time since the caller's clock started. It never goes back.
pub(crate) type Moment = Duration;

/// The state of an upstream. docs/nodes.md has the table of [`Self::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamState {
    /// It has not named a head yet, or reports that it is syncing.
    Syncing,
    /// It is asked.
    Live,
    /// Its head has been below the served one for too long.
    Lagging,
    /// It limits our rate, and is backed off.
    Limited,
    /// It did something wrong, and is backed off.
    Faulty(Fault),
    /// It contradicted a quorum.
    Quarantined,
}

impl UpstreamState {
    /// All states, each with its meaning; one fault stands for all of them.
    pub const ALL: [(Self, &'static str); 6] = [
        (
            Self::Syncing,
            "has not named a head yet, or reports that it is syncing",
        ),
        (Self::Live, "names heads, and is asked for blocks and state"),
        (
            Self::Lagging,
            "its head has been below the served one for more than half a block time",
        ),
        (
            Self::Limited,
            "answered that it gets too many requests; not asked again before the time that it names, and for at least as long as after a fault",
        ),
        (
            Self::Faulty(Fault::Silent),
            "did something listed under Faults; not asked for a while, which doubles with each fault",
        ),
        (
            Self::Quarantined,
            "contradicted a quorum; asked for blocks of a new head only where no other node has them, and neither for older blocks nor for state, until it has been on the served chain for sixteen block times",
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
            Self::Quarantined => "quarantined",
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
    WrongChain = "wrong_chain", "it is on another chain";
    Silent = "silent", "it named no head for three block times, and for at least two seconds";
    Timeout = "timeout", "it did not answer a call in time";
    Connection = "connection", "the connection failed or ended";
    Refused = "refused", "it refused a request with an HTTP status";
    MethodMissing = "method_missing", "it does not have a method that nearhead needs to follow the chain";
    ErrorAnswer = "error_answer", "it answered with a JSON-RPC error";
    Missing = "missing", "it does not have a block that it named";
    Malformed = "malformed", "an answer is too large, or is not what the method returns";
    BadBlock = "bad_block", "a block or its receipts failed a check against the block's hash";
    Unfit = "unfit", "its blocks do not fit into the window";
    Unchecked = "unchecked", "a check of its block panicked, which is a defect of nearhead";
    BadProof = "bad_proof", "a proof, contract code or access list failed a check against the block";
}

impl Fault {
    /// Whether the upstream gave data that is provably false, so that trying again soon is of
    /// little use.
    pub(crate) const fn is_lie(self) -> bool {
        matches!(self, Self::WrongChain | Self::BadBlock | Self::BadProof)
    }
}

/// What a failed call says about the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: this is neither a fault nor a limit of the upstream.
    NotAtFault,
    /// It limits our rate, and may state how long to wait.
    Limited(Option<Duration>),
    /// It did something wrong.
    Fault(Fault),
}

/// A fault or limit of an upstream's calls for state, which tasks other than the follower make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultReport {
    /// The upstream.
    pub(crate) upstream: UpstreamId,
    /// What it did.
    pub(crate) verdict: Verdict,
    /// The error, for the log.
    pub(crate) error: String,
}

impl From<&CallError> for Verdict {
    fn from(error: &CallError) -> Self {
        Self::Fault(match error {
            CallError::Busy => return Self::NotAtFault,
            CallError::RateLimited { retry_after } => return Self::Limited(*retry_after),
            CallError::Timeout(_) => Fault::Timeout,
            CallError::Connection(_) => Fault::Connection,
            CallError::Refused { .. } => Fault::Refused,
            CallError::UnsupportedMethod => Fault::MethodMissing,
            CallError::NotFound => Fault::Missing,
            CallError::Malformed(_) | CallError::TooLarge { .. } => Fault::Malformed,
            CallError::Rpc { .. } => Fault::ErrorAnswer,
        })
    }
}
