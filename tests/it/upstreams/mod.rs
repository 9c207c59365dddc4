//! Real upstreams for tests, and a proxy that makes them fail.
//!
//! | file | what it is |
//! |---|---|
//! | `anvil` | an upstream whose blocks the test makes, reverts and replaces |
//! | `anvil_blocks` | tests that anvil's blocks are consistent |
//! | `genesis` | the genesis of geth's dev mode, with what a test adds to it |
//! | `geth` | a geth driven over the engine API, or in its dev mode |
//! | `changed_keys` | the accounts and slots that a block changed, as a geth reports them |
//! | `engine` | drives a geth block by block: head, safe, finalized, reorgs (`payload`, `jwt`) |
//! | `listing_geth` | a geth whose blocks the test makes, with their access lists |
//! | `branches` | the blocks that are sent to it |
//! | `wallet` | signs transactions of every type |
//! | `lying_node` | a node before a real one, which names blocks that it has invented |
//! | `proxy` | a proxy between a client and its upstreams that lies, stalls, cuts, refuses and counts |
//! | `http` | the messages of both of these |
//! | `tls` | TLS in front of an upstream |
//! | `traffic` | an anvil whose blocks have every kind of content |
//!
//! `proxy::rows` records an upstream's answers and lists every possible lie about them: the tests
//! in `node::liar` take their lies from it.

mod anvil;
mod anvil_blocks;
mod branches;
mod changed_keys;
mod engine;
mod genesis;
mod geth;
mod http;
mod jwt;
mod listing_geth;
mod lying_node;
mod payload;
pub(crate) mod proxy;
mod tls;
mod traffic;
mod wallet;

pub(crate) use self::{
    anvil::{Anvil, FIRST_KEY},
    branches::{Branches, of_files, paced_steps, steps},
    changed_keys::{Keys, add_changed},
    engine::{Engine, Forkchoice},
    genesis::Genesis,
    geth::Geth,
    listing_geth::{ListingGeth, WITHDRAWAL_RECIPIENT},
    lying_node::{Claims, INVENTED_ACCOUNT, INVENTED_TOKEN, InventedBlock, LyingNode},
    payload::Payload,
    tls::TlsFront,
    traffic::anvil_with_traffic,
    wallet::{EMPTY_BLOB, Wallet},
};
pub(crate) use crate::harness::quantity;
