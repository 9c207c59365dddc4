//! JSON of blocks, transactions, receipts, logs and uncles, made once at ingest and served as
//! slices.
//!
//! Shapes and key order are geth's. [`crate::network`] decides which members a fork or a
//! transaction type adds.
//!
//! | file | what it writes |
//! |---|---|
//! | [`BlockJson`] | every answer about a block, in a few buffers of exact size |
//! | `block`, `receipt`, `log` | one kind of object each |
//! | [`value`] | small values that are made per request |
//! | `proof` | the answer of eth_getProof |
//! | `writer` | hex and punctuation, appended to one buffer |

mod block;
mod block_json;
mod error;
mod log;
mod options;
mod proof;
mod receipt;
mod span;
pub mod value;
pub(crate) mod writer;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use block_json::simulated_block;
pub use block_json::{BlockJson, JsonWithoutSenders};
pub use error::EncodeError;
pub use log::{LOG_ADDED, LOG_REMOVED};
pub(crate) use log::{LogTail, write as write_log};
pub use options::EncodeOptions;
pub use proof::{ProofKey, proof};
pub(crate) use span::Span;
