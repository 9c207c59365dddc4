//! JSON bytes of block, transaction, receipt, log and uncle, made once at ingest and served as
//! slices.
//!
//! Shapes and key order are geth's; which fields a fork or a transaction type adds is decided here
//! and nowhere else.
//!
//! | file | what it writes |
//! |---|---|
//! | [`BlockJson`] | everything a block is ever asked for, in few buffers of the exact size |
//! | `block`, `transaction`, `receipt`, `log` | one kind of object each |
//! | [`value`] | the small values that are made when they are asked for |
//! | `proof` | the answer of eth_getProof |
//! | `writer` | hex and punctuation, straight into one growing buffer |

mod block;
mod block_json;
mod log;
mod options;
mod proof;
mod receipt;
mod span;
mod transaction;
pub mod value;
mod writer;

#[cfg(test)]
pub(crate) mod tests;

pub use block_json::{BlockJson, EncodeError};
pub use options::EncodeOptions;
pub use proof::{ProofKey, proof};
