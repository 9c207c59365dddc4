//! Blocks, state, logs and JSON of the latest 128 blocks of an Ethereum-compatible chain.
//!
//! This package is pure: no async, no actix, no sockets, no clock, no files. It takes bytes and
//! returns verified values.
//!
//! A test (`tests/it/tidy`) checks the code against this table; the code map of `nearhead` explains
//! how.
//!
//! | module | what it does | must not mention |
//! |---|---|---|
//! | every module | | `actix`, `tokio`, `std::net`, `std::fs`, `std::env`, `SystemTime`, `Instant`, `async fn`, `async move` |
//! | [`block`] | a block as decoded, and a block as held | `crate::window`, `crate::verify`, `crate::execute`, `crate::import`, `crate::remote`, `crate::dev` |
//! | [`chain_file`] | reads and writes genesis.json and chain.rlp as bytes | `crate::window`, `crate::execute`, `crate::import`, `crate::trie` |
//! | [`verify`] | the checks of everything that a header commits to | `crate::import`, `crate::remote`, `crate::window`, `crate::dev` |
//! | [`execute`] | runs one block through revm: receipts, requests, state changes | `crate::import`, `crate::remote`, `crate::window`, `crate::dev` |
//! | [`call`] | runs calls on the state after a block | `crate::import`, `crate::remote`, `crate::window`, `crate::dev` |
//! | [`import`] | verifies, executes and encodes: makes a [`block::Block`] from a [`block::RawBlock`] | `crate::remote`, `crate::window`, `crate::dev` |
//! | [`remote`] | verifies an upstream's answers: the other way to make a [`block::Block`] | `crate::window`, `crate::dev` |
//! | [`changes`] | what a block changed in the state, as nodes report it and the block shows it | `crate::import`, `crate::window`, `crate::dev`, `crate::execute` |
//! | [`network`] | everything that a chain's kind decides: transactions, receipts, header members, forks, blob parameters, executor | `crate::execute`, `crate::import`, `crate::trie`, `crate::window`, `crate::dev` |
//! | [`trie`] | state by node hash, at the same cost for each of the 128 blocks | `crate::block`, `crate::encode`, `crate::window` |
//! | [`encode`] | JSON bytes, made once | `crate::window`, `crate::execute`, `crate::verify`, `crate::remote` |
//! | [`fees`] | what transactions pay, and what clients are told of it | `crate::verify`, `crate::execute`, `crate::import`, `crate::remote`, `crate::dev` |
//! | [`submission`] | decodes and checks a transaction that a client sends | `crate::window`, `crate::execute`, `crate::import`, `crate::remote`, `crate::trie`, `crate::dev` |
//! | [`json`] | JSON made of shared pieces | `crate::` |
//! | [`log_search`] | postings of each block: counts the matches first, then gathers their JSON | `crate::window`, `crate::trie`, `crate::execute` |
//! | [`raw`] | RLP and values of held blocks, from their JSON | `crate::window`, `crate::execute`, `crate::import`, `crate::dev` |
//! | [`window`] | the latest 128 blocks: apply, revert, resolve | `crate::execute`, `crate::verify`, `crate::import`, `crate::remote`, `crate::dev` |
//! | [`dev`] | makes a deterministic chain, for development and measurement | `crate::remote`, `crate::window` |

pub mod block;
pub mod call;
pub mod chain_file;
pub mod changes;
pub mod dev;
pub mod encode;
pub mod execute;
pub mod fees;
pub mod import;
pub mod json;
pub mod log_search;
pub mod network;
pub mod raw;
pub mod remote;
pub mod submission;
pub mod trie;
pub mod verify;
pub mod window;

#[cfg(all(test, feature = "all-tests"))]
mod fixture;

#[cfg(any(test, feature = "testing"))]
pub mod campaign;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::expect_used, reason = "a failed unwrap is a failed test")]
pub mod test_block;
