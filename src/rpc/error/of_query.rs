//! The errors of queries that have no answer.

use std::{borrow::Cow, time::Duration};

use nearhead_actors::messages::QueryError;
use nearhead_chain::window::ResolveError;

use super::RpcError;

/// What a query was about: each family of methods has its own errors for some conditions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuerySubject {
    /// Blocks and what is in them; also admission.
    Blocks,
    /// State at a block.
    State {
        /// The oldest block of the snapshot.
        oldest: u64,
    },
    /// Logs of a range of blocks.
    Logs,
}

impl RpcError {
    /// The error for a query that has no answer. This is the only map from the errors of the read
    /// actors, and it is exhaustive: a new error does not compile without a line here.
    pub(crate) fn from_query(error: QueryError, subject: QuerySubject) -> Self {
        use QuerySubject::{Blocks, Logs, State};
        match error {
            QueryError::Resolve(ResolveError::AboveHead { .. }) => match subject {
                Blocks | State { .. } => Self::HeaderNotFound,
                Logs => Self::InvalidParams(Cow::Borrowed(
                    "block range extends beyond current head block",
                )),
            },
            QueryError::Resolve(ResolveError::BelowWindow { number, oldest }) => match subject {
                Blocks | Logs => Self::PrunedHistory,
                State { .. } => Self::HistoricalState {
                    block: number,
                    oldest,
                },
            },
            QueryError::Resolve(ResolveError::UnknownHash) => match subject {
                Blocks | State { .. } => Self::HeaderForHashNotFound,
                Logs => Self::UnknownLogsBlock,
            },
            QueryError::Resolve(ResolveError::NotFilled) => Self::PrunedHistory,
            QueryError::Resolve(ResolveError::NotCanonical) => Self::NotCanonical,
            QueryError::Resolve(ResolveError::UnknownTag) => Self::UnknownBlockTag,
            QueryError::NoState { number } => match subject {
                State { oldest } => Self::HistoricalState {
                    block: number,
                    oldest,
                },
                Blocks | Logs => Self::unreadable_state(&error),
            },
            QueryError::Trie(_) => Self::unreadable_state(&error),
            QueryError::Raw(error) => {
                tracing::error!(%error);
                Self::Internal
            }
            QueryError::NoAccessList { .. } => Self::NoAccessList,
            QueryError::StateUnavailable => match subject {
                // Of blocks, only an access list is asked of nodes.
                Blocks => Self::PrunedHistory,
                State { .. } | Logs => Self::StateUnavailable,
            },
            QueryError::NoNodeAnswered => Self::NoNodeAnswered,
            QueryError::TooManyLogs {
                from,
                fits_to,
                limit,
            } => Self::TooManyLogs {
                from,
                to: fits_to,
                limit,
            },
            QueryError::TooManyFetches { .. } => Self::failed(error.to_string()),
            QueryError::Timeout => Self::QueryTimeout,
            QueryError::Unavailable => Self::Unavailable,
            QueryError::Overloaded { retry_after } => Self::overloaded(retry_after),
            // A client that cancelled does not read the answer; a panic was logged.
            QueryError::Cancelled | QueryError::Panicked => Self::Internal,
        }
    }

    /// The error for what has no room before this time has passed.
    pub(crate) fn overloaded(retry_after: Duration) -> Self {
        Self::Overloaded {
            retry_after_seconds: whole_seconds(retry_after),
        }
    }

    fn unreadable_state(error: &QueryError) -> Self {
        tracing::error!(%error, "the state of a held block cannot be read");
        Self::Internal
    }
}

/// The seconds that a client is asked to wait: rounded up, at least 1.
fn whole_seconds(wait: Duration) -> u32 {
    let rounded_up = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    u32::try_from(rounded_up).unwrap_or(u32::MAX).max(1)
}
