//! Properties that hold for every input: one function for each fuzz target. The stable tests run
//! them over the corpus.
//!
//! A check passes by returning. Refused input always passes; accepted input must agree with an
//! independent decoder, or survive encoding and decoding.

mod admin;
mod chain;
mod follow;
mod frames;
mod proxy;
mod request;
mod saved;
mod scratch;
mod tenant_store;
mod token;

pub use admin::admin_body;
pub use chain::{block_rlp, chain_file, trie_nodes};
pub use follow::follow;
pub use frames::frames;
pub use proxy::proxy_header;
pub use request::{envelope, log_filter, params};
pub use saved::{saved_block, saved_window};
pub use tenant_store::tenant_store;
pub use token::token;

/// A target's name and its check.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 14] = [
    ("admin_body", admin_body),
    ("block_rlp", block_rlp),
    ("chain_file", chain_file),
    ("envelope", envelope),
    ("follow", follow),
    ("frames", frames),
    ("log_filter", log_filter),
    ("params", params),
    ("proxy_header", proxy_header),
    ("saved_block", saved_block),
    ("saved_window", saved_window),
    ("tenant_store", tenant_store),
    ("token", token),
    ("trie_nodes", trie_nodes),
];
