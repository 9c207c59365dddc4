//! The 128-block ring: apply, revert, extend, resolve.
//!
//! | file | what it is |
//! |---|---|
//! | [`Window`] | the one owner: applies, reverts, extends below, hands out snapshots |
//! | [`Snapshot`] | one snapshot, immutable and consistent for ever: what every request reads |
//! | [`Cursor`] | how far a follower is, and its next step to the head of a snapshot |
//! | `transactions` | canonical transactions by hash, shared between snapshots |
//! | `block_id` | how a request names a block, and why the name fails |
//! | `invariants` | what is true of every window, as one check that every test calls |

mod block_id;
mod cursor;
#[cfg(any(test, feature = "testing"))]
mod invariants;
mod limits;
mod snapshot;
mod transactions;
#[expect(clippy::module_inception, reason = "a file is named for its main type")]
mod window;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use block_id::{BlockId, BlockNumberOrTag, BlockTag, ResolveError};
pub use cursor::{Cursor, CursorLost, CursorStep};
pub use limits::{REPLACED_BLOCKS_MAX, WINDOW_BLOCKS};
pub use snapshot::Snapshot;
pub use window::{HeadDelta, Window, WindowError};
