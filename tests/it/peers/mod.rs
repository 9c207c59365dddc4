//! Real nodes to stand behind: what a test needs of them, and what may go wrong between them and
//! their client.
//!
//! | file | what it is |
//! |---|---|
//! | `anvil` | a node whose blocks the test makes, takes back and replaces |
//! | `anvil_blocks` | what an anvil says of its blocks holds together |
//! | `geth` | a node that is led, or leads itself |
//! | `engine` | leads a geth block by block: head, safe, finalized, reorgs (`payload`, `jwt`) |
//! | `branches` | the blocks that it is told of |
//! | `wallet` | signs transactions of every type |
//! | `proxy` | stands between a client and its nodes, and lies, stalls, cuts, refuses, counts |
//! | `tls` | TLS before a node that speaks none |
//! | `traffic` | an anvil whose blocks have something of everything |
//!
//! What a node said and every lie that could be told of it is in `proxy::rows`: the table of a
//! liar's test.

mod anvil;
mod anvil_blocks;
mod branches;
mod engine;
mod geth;
mod jwt;
mod payload;
pub(crate) mod proxy;
mod tls;
mod traffic;
mod wallet;

use serde_json::Value;

pub(crate) use self::{
    anvil::Anvil,
    branches::{Branches, of_files},
    engine::{Engine, Forkchoice},
    geth::Geth,
    payload::Payload,
    tls::TlsFront,
    traffic::anvil_with_traffic,
    wallet::{EMPTY_BLOB, Wallet},
};

/// The number that a QUANTITY is.
pub(crate) fn quantity(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}
