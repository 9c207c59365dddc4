//! The protocol of a fleet: one process follows the nodes and appends each change of the head to a
//! stream in Redis or Valkey, and the others read it.
//!
//! This package is pure: no async, no actix, no sockets, no clock, no files, no client of Redis. It
//! knows blocks as bytes with a number and a hash. A test (`tests/it/tidy`) checks the code against
//! this table; the code map of `nearhead` explains how.
//!
//! | module | what it does | must not mention |
//! |---|---|---|
//! | every module | | `actix`, `tokio`, `redis::`, `std::net`, `std::fs`, `std::env`, `SystemTime`, `Instant`, `async fn`, `async move` |
//! | [`sealed`] | the envelope of all that a fleet writes: version and MAC | `crate::entry`, `crate::record`, `crate::replica`, `crate::leader` |
//! | [`entry`] | entries of the stream: what they say, and how they are written | `crate::replica`, `crate::leader`, `crate::lease` |
//! | [`record`] | records that are no entries, sealed against change and exchange | `crate::replica`, `crate::leader` |
//! | [`record_set`] | all records, and the manifest that states what they are | `crate::replica`, `crate::leader` |
//! | [`fleet_key`] | the key that all processes share, and its MACs | `crate::entry` |
//! | [`position`] | where an entry is in the stream | `crate::` |
//! | [`block_id`] | what identifies a block, and a block as bytes | `crate::leader` |
//! | [`chain`] | the hashes of the blocks that a process holds | `crate::entry`, `crate::replica`, `crate::leader` |
//! | [`lease`] | when a process asks for the lease, renews it and has lost it | `crate::entry`, `crate::replica`, `crate::leader` |
//! | [`scripts`] | the scripts that run in the store, and what they answer | `crate::` |
//! | `store_model` | what the scripts do, in Rust, for tests | `crate::leader::Leader`, `crate::replica::Replica` |
//! | [`leader`] | what a leader appends and keeps | `crate::replica`, `crate::lease` |
//! | [`replica`] | reads entries, and says what to apply | `crate::leader`, `crate::lease` |
//! | [`lag`] | by how many entries a process is behind the store | `crate::entry`, `crate::replica`, `crate::leader` |
//! | [`presence`] | which processes a fleet has, as each one describes itself | `crate::entry`, `crate::replica`, `crate::leader` |
//! | [`quota`] | tokens that a replica borrows from the store and spends by itself | `crate::entry`, `crate::replica`, `crate::leader` |
//! | [`min_block`] | waiting for the block that a client has seen elsewhere | `crate::entry`, `crate::replica`, `crate::leader` |
//! | [`usage`] | what keys used, as each process writes it and all of them read it | `crate::entry`, `crate::replica`, `crate::leader` |
//! | [`filter`] | a client's filter, as all processes of a fleet know it | `crate::entry`, `crate::replica`, `crate::leader` |
//! | [`below`] | what a leader says of blocks below its window | `crate::entry`, `crate::replica`, `crate::leader` |
//! | [`want`] | state or an access list that a process asks for, and another one gets from its nodes | `crate::entry`, `crate::replica`, `crate::leader` |
//! | `rlp` | a list in RLP, for all of these | `crate::` |
//! | [`bounds`] | how much of anything is accepted | `crate::` |
//! | `policy` | the rules, which a test can take out | `crate::` |

pub mod below;
pub mod block_id;
pub mod bounds;
pub mod chain;
pub mod entry;
pub mod filter;
pub mod fleet_key;
pub mod lag;
pub mod leader;
pub mod lease;
pub mod min_block;
mod policy;
pub mod position;
pub mod presence;
pub mod quota;
pub mod record;
pub mod record_set;
pub mod replica;
mod rlp;
pub mod scripts;
pub mod sealed;
pub mod usage;
pub mod want;

#[cfg(any(test, feature = "testing"))]
pub mod store_model;

#[cfg(test)]
mod model;
