//! The latest 128 blocks: apply, revert, extend, resolve.
//!
//! | file | what it is |
//! |---|---|
//! | [`Window`] | the one owner: applies, reverts, extends at the bottom, hands out snapshots |
//! | [`Snapshot`] | an immutable, consistent state of the window: what every request reads |
//! | [`Cursor`] | a reader's position in the chain, and its next step to the head |
//! | [`WindowError`] | why the window refuses a change |
//! | `transactions` | canonical transactions by hash, shared between snapshots |
//! | `settled` | the safe and the finalized block; no change reverts a finalized one |
//! | [`SettledBlocks`] | a safe and a finalized block, as sources, the window and files name them |
//! | `past_hashes` | the hashes of blocks that are not held any more |
//! | `block_id` | how a request names a block, and why a name cannot be resolved |
//! | `limits` | how many blocks are held, and how many bytes of them |
//! | `invariants` | the invariants of the window, as one check that tests call |

mod block_id;
mod cursor;
mod error;
#[cfg(any(test, feature = "testing"))]
mod invariants;
mod limits;
mod past_hashes;
mod settled;
mod settled_blocks;
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
pub use error::WindowError;
pub use limits::{
    REPLACED_BLOCKS_MAX, REPLACED_BYTES_MAX, WINDOW_BLOCKS, WINDOW_BYTES_MAX, WindowLimits,
};
pub use settled_blocks::SettledBlocks;
pub use snapshot::Snapshot;
pub use window::{HeadDelta, Window};
