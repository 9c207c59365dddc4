//! What of the window and its state outlives the process, so that a restart fetches only what is
//! new: one file in the chain's folder.
//!
//! Nothing in the file is trusted. A block is verified as if an upstream had stated it, a trie node
//! or code is checked by its hash when a read needs it, and what fails is fetched as if it were not
//! there. So the file may be damaged, old or of another fork, and may be removed at any time.
//! Senders are recovered after a block is verified: its hash covers the signatures.
//!
//! Threads of their own read and write, so that neither the source nor a request waits for a disk
//! that hangs: after a second, nodes are asked.
//!
//! | file | what it is responsible for |
//! |---|---|
//! | `file` | the file: its format, and transactions on it |
//! | `blocks` | the saved blocks, read and verified at the start |
//! | `items` | trie nodes and codes, read as they are needed |
//! | `restored` | what a process takes over from an earlier one |
//! | `writer` | what is written, and when |
//! | `kept_bytes` | blocks near the head in the form of the file, for a fleet |
//! | `merged_blocks` | the blocks whose changes are merged into the state that is held |
//! | `status` | how often each ended how |
//! | `file_check` | tests: what holds for every file |

mod blocks;
mod file;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::expect_used, reason = "a failed check is a failed test")]
mod file_check;
mod items;
mod kept_bytes;
mod merged_blocks;
mod restored;
mod status;
mod writer;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use blocks::SavedBlocks;
pub(crate) use file::FileError;
#[cfg(any(test, feature = "testing"))]
pub use file_check::{check_file, check_rows};
pub(crate) use items::{SavedItems, WantedState};
pub(crate) use kept_bytes::KeptBytes;
pub(crate) use merged_blocks::MergedBlocks;
pub(crate) use restored::{Restored, SavedSetup};
pub use status::SavedStatus;
pub(crate) use writer::SavedWriter;

/// Longest wait for a disk that reads, or for the next block that is verified.
const PATIENCE: Duration = Duration::from_secs(1);
