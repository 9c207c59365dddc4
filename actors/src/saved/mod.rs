//! What of the window and its state outlives the process, so that a restart fetches only what is
//! new: one file in the chain's folder.
//!
//! Nothing in the file is trusted. A block is verified as if an upstream had stated it, a trie node
//! or code is checked by its hash when a read needs it, and what fails is fetched as if it were not
//! there. So the file may be damaged, old or of another fork, and may be removed at any time.
//!
//! A thread of its own writes, every half second, what has changed since: the source and the
//! requests never wait for the disk.
//!
//! | file | what it is responsible for |
//! |---|---|
//! | `file` | the file: its format, and transactions on it |
//! | `reader` | trie nodes and codes, read as they are needed |
//! | `blocks` | the saved blocks, verified at the start |
//! | `restored` | what a process takes over from an earlier one |
//! | `writer` | what is written, and when |
//! | `merged_blocks` | the blocks whose changes are merged into the state that is held |
//! | `counts` | how often each ended how |

mod blocks;
mod counts;
mod file;
mod merged_blocks;
mod reader;
mod restored;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use blocks::SavedBlocks;
pub use counts::SavedCounts;
use file::FileError;
pub(crate) use merged_blocks::MergedBlocks;
pub(crate) use reader::SavedItems;
pub(crate) use restored::{Restored, SavedSetup};
pub(crate) use writer::SavedWriter;
use writer::WriterSetup;
