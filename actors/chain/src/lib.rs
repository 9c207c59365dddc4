//! Blocks, state, logs and JSON of the latest 128 blocks of an Ethereum-compatible chain.
//!
//! This package is pure: no async, no actix, no sockets, no clock, no files. It is given bytes and
//! gives back verified values; whoever owns a mailbox or a socket lives in the packages above.
//!
//! | room | what it is responsible for |
//! |---|---|
//! | [`block`] | a block as decoded, and a block as held |
//! | [`chain_file`] | genesis.json and chain.rlp as bytes: read and written |
//! | [`verify`] | what a header promises, checked one by one |
//! | [`execute`] | one block through revm: receipts, requests, state changes |
//! | [`import`] | decode, verify, execute, encode: the way from a [`block::RawBlock`] to a [`block::Block`] |
//! | [`remote`] | what a node says, checked: the other way to a [`block::Block`] |
//! | [`trie`] | state by node hash, any of the 128 blocks at one cost |
//! | [`encode`] | JSON bytes, made once |
//! | [`log_search`] | postings per block; count first, gather after |
//! | [`window`] | the 128-block ring: apply, revert, resolve |
//! | [`dev`] | a deterministic chain made here, for development and measurement |

pub mod block;
pub mod chain_file;
pub mod dev;
pub mod encode;
pub mod execute;
pub mod import;
pub mod json;
pub mod log_search;
pub mod remote;
pub mod trie;
pub mod verify;
pub mod window;

#[cfg(test)]
mod fixture;

#[cfg(any(test, feature = "testing"))]
#[expect(clippy::expect_used, reason = "tests are made to fail")]
pub mod test_block;
