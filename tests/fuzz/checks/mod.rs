//! What has to hold for any input at all: one function a fuzz target, run over the corpus by the
//! stable tests.
//!
//! A check passes by returning. Whatever is refused is fine; what is accepted has to agree with an
//! independent reader, or with itself when it is written and read again.

mod chain;
mod frames;
mod request;

pub use chain::{block_rlp, chain_file, trie_nodes};
pub use frames::frames;
pub use request::{envelope, log_filter, params};

/// A target's name and its check.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 7] = [
    ("block_rlp", block_rlp),
    ("chain_file", chain_file),
    ("envelope", envelope),
    ("frames", frames),
    ("log_filter", log_filter),
    ("params", params),
    ("trie_nodes", trie_nodes),
];
