//! Compares the trie with independent oracles: `alloy_trie`'s hash builder, root helpers and proof
//! verifier.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod concurrency;
mod damage;
mod invariants;
mod keys;
mod load;
mod merge;
mod model;
mod states;
