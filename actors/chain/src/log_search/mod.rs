//! Logs by emitter and topic: first counted from each block's postings, then gathered from its JSON
//! as the answer is written.
//!
//! | file | what it is |
//! |---|---|
//! | [`LogFilter`] | the filter of eth_getLogs; hashed into terms once per search |
//! | [`LogPostings`] | one block's logs by address, by topic at a position, and by both |
//! | [`FilterIndex`] | many filters: which of them a log matches |
//! | [`search`] | counts the matches of a filter in many blocks, up to a limit |
//! | [`search_changes`] | finds the matches in blocks that were reverted and applied |
//! | [`BlockSearch`] | finds the matches of a filter in single blocks |
//! | [`FoundLogs`] | counted matches, and their JSON array |
//! | [`Cancellation`] | stops a running search within a millisecond |

mod cancellation;
mod error;
mod filter;
mod filter_index;
mod found_logs;
mod postings;
mod search;

#[cfg(test)]
mod tests;

pub use cancellation::Cancellation;
pub use error::SearchError;
pub use filter::LogFilter;
pub use filter_index::{FilterId, FilterIndex};
pub use found_logs::FoundLogs;
pub use postings::LogPostings;
pub use search::{BlockSearch, ChangedBlock, FoundChanges, search, search_changes};
