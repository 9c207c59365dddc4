//! Source `node`: real upstreams, none of them trusted.
//!
//! | file | what it is |
//! |---|---|
//! | [`Endpoint`] | how an upstream is configured: URL, authorization, headers; shown without its secrets |
//! | [`client`] | one upstream's calls: timeouts, bounds, one enum of failures; the only files that know JSON |
//! | [`health`] | which upstream is followed, and when the others are tried again; told the time |
//! | [`plan`] | which blocks to ask for next; knows hashes alone |
//! | [`follow`] | the task that asks, and hands over what it is answered |
//! | [`Standing`] | what the follower thinks of the upstreams, for others |
//! | [`StateSource`] | state that is not held: fetched, verified, kept |
//! | [`Chain`] | our own chain, as far as following needs it |
//! | `verified` | an upstream whose blocks are checked before anybody sees them |
//! | `priority` | following gives way to answering |
//! | `reporter` | passes the follower's events on; refuses a chain that cannot be served |
//! | `sink` | the head tracker, as blocks are handed to it |
//! | [`UpstreamSource`] | all of it together |

mod chain;
pub mod client;
mod endpoint;
pub mod follow;
pub mod health;
pub mod plan;
mod priority;
mod reporter;
mod sink;
mod source;
mod standing;
mod state;
mod verified;

pub use chain::Chain;
pub use endpoint::{Endpoint, EndpointError, Scheme};
pub use source::{UpstreamConfig, UpstreamSource};
pub use standing::Standing;
pub use state::{BlockRef, StateCounts, StateSource};
