//! Logs by emitter and topic: counted from each block's postings first, gathered from its JSON as
//! they are taken.
//!
//! | file | what it is |
//! |---|---|
//! | [`LogFilter`] | what eth_getLogs asks; made into a query of hashed terms once a search |
//! | [`LogPostings`] | one block's logs by address, by (position, topic) and by both |
//! | [`FilterIndex`] | many filters at once: which of them a log matches |
//! | [`search`] | counts the matches of a filter in many blocks, within a limit |
//! | [`BlockSearch`] | finds the matches of a filter in single blocks |
//! | [`FoundLogs`] | counted matches: their length, and the JSON array of them |
//! | [`Cancellation`] | stops running work within a millisecond |

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
pub use search::{BlockSearch, search};
