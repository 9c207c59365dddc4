//! Which head is served: what enough upstreams agree on.
//!
//! No upstream decides alone. Each states heads and, when asked, the hash of its canonical block at
//! a number. A block is served once a *quorum* of upstreams vouches for it. Nothing here has a
//! clock or makes a call: the follower reports what it hears, and does what a [`Decision`] says.
//!
//! | file | what it is |
//! |---|---|
//! | [`HeadAuthority`] | what decides about the head; a light client could take the quorum's place |
//! | [`Quorum`] | the authority that counts upstreams; keeps what they state, and who is quarantined |
//! | `decide` | the pure function from statements to a [`Decision`] |
//! | `tally` | who vouches for which block, and who denies it |
//! | `asks` | which upstream is asked for which hash |
//! | `settle` | which blocks are safe and finalized |
//! | `stated` | what one upstream has stated, in bounded memory |
//! | [`Links`] | the parents of blocks that were verified and are not served yet |
//! | [`Policy`] | how many have to agree, and for how long a statement counts |

mod asks;
mod authority;
mod decide;
mod links;
mod node_set;
mod policy;
mod quorum;
mod settle;
mod stated;
mod tally;

#[cfg(test)]
mod tests;

pub(crate) use authority::{
    AskHash, Decision, Dissent, Fetch, HeadAuthority, NodeAccess, Said, Situation,
};
pub use authority::{Choice, Effect};
pub(crate) use links::{Links, Point};
pub(crate) use node_set::NodeSet;
pub(crate) use policy::Policy;
pub use policy::TRUSTED_MAX;
pub(crate) use quorum::Quorum;
pub(crate) use settle::highest;
