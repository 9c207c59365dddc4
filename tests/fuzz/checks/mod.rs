//! Properties that hold for every input: one function for each fuzz target. The stable tests run
//! them over the corpus.
//!
//! A check passes by returning. Refused input always passes; accepted input must agree with an
//! independent decoder, or survive encoding and decoding.

mod chain;
mod follow;
mod frames;
mod proxy;
mod request;

pub use chain::{block_rlp, chain_file, trie_nodes};
pub use follow::follow;
pub use frames::frames;
pub use proxy::proxy_header;
pub use request::{envelope, log_filter, params};

/// A target's name and its check.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 9] = [
    ("block_rlp", block_rlp),
    ("chain_file", chain_file),
    ("envelope", envelope),
    ("follow", follow),
    ("frames", frames),
    ("log_filter", log_filter),
    ("params", params),
    ("proxy_header", proxy_header),
    ("trie_nodes", trie_nodes),
];
