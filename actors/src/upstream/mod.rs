//! Source `node`: Ethereum nodes, called upstreams, none of which is trusted.
//!
//! | file | what it is |
//! |---|---|
//! | [`Endpoint`] | how an upstream is configured: URL, authorization, headers; shown without secrets |
//! | `client` | the calls to one upstream: timeouts, bounds, one enum of errors; the only module that knows their JSON |
//! | `identity` | which chain is followed: pinned, or stated by a quorum |
//! | `agree` | decides which head is served: what enough upstreams agree on |
//! | `health` | how each upstream does, and when a failed one is asked again |
//! | `plan` | decides which blocks to ask for; knows only numbers and hashes |
//! | `follow` | the task that polls, syncs and backfills |
//! | `following` | runs this task until a signal, and later again |
//! | [`Standing`] | what becomes of the head, and which upstreams are backed off; read by other tasks |
//! | [`StateSource`] | fetches state that is not resident, verifies it, and keeps it current |
//! | [`Forwarder`] | passes calls of clients to upstreams, which are not verified |
//! | `chain` | the held chain as numbers and hashes |
//! | `verified` | an upstream whose blocks are verified before they are passed on |
//! | `tracker_window` | hands the follower's blocks to the head tracker |
//! | [`probe`] | asks one node for what a service needs of it, for `nearhead doctor` |
//! | `reporter` | passes the follower's events on; refuses a chain that cannot be served |
//! | [`UpstreamSource`] | puts these parts together |

mod agree;
mod chain;
mod client;
mod endpoint;
mod follow;
mod following;
mod forward;
mod health;
mod identity;
mod plan;
mod probe;
mod reporter;
mod source;
mod standing;
mod state;
#[cfg(test)]
mod test_rng;
mod tracker_window;
mod verified;

pub use agree::{Choice, Effect, TRUSTED_MAX};
pub use endpoint::{Endpoint, EndpointError, Scheme};
pub(crate) use follow::{ChangeError, FirstBlock, HeldWindow};
pub(crate) use following::{Following, UpstreamAnswer};
pub use forward::Forwarder;
pub use health::{Fault, UpstreamState};
pub use identity::Pins;
pub(crate) use plan::BlockBelow;
#[cfg(any(test, feature = "testing"))]
pub use plan::run_script;
pub use probe::{NewestBlock, NodeFacts, probe};
pub use source::{FollowedChain, UpstreamConfig, UpstreamSource, saved_state_bytes_max};
pub(crate) use source::{UpstreamParts, stop_of};
pub use standing::{HeadAgreement, Standing};
pub use state::{BlockRef, MergeCounts, StateCounts, StateFollow, StateSource};
pub(crate) use state::{Got, ListRef, PendingHint, SharedState};
pub(crate) use tracker_window::TrackerWindow;

/// How many of so many nodes have to agree if the operator does not say: more than half.
#[must_use]
pub const fn majority(nodes: usize) -> usize {
    agree::Policy::majority(nodes)
}
