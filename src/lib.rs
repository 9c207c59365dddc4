//! A JSON-RPC read service for the latest 128 blocks of one Ethereum-compatible chain.
//!
//! # Code map
//! Three packages; the direction of dependence is a fact of their manifests. `nearhead-chain`
//! (actors/chain) is pure: it knows no async, no actix, no sockets, no files, no clock.
//! `nearhead-actors` (actors) is the mailboxes: it knows actix and tokio, and no HTTP, no JSON-RPC,
//! no keys, no configuration, but for a node that it asks (`upstream`). `nearhead` (src) is the
//! edge, and knows both.
//!
//! | room of the edge | what it does | what it must not know |
//! |---|---|---|
//! | `main.rs` | the command line's end: start, greet, wait for a signal, exit code | how anything is answered; nobody knows it |
//! | [`config`] | every option in one table; flag, environment, file, messages | who reads the options |
//! | `service` | starts and stops the parts; the only one that knows them all | JSON-RPC |
//! | `feed` | the source's thread | HTTP, JSON-RPC, keys |
//! | [`http`] | routes, HTTP's own answers, bodies written in pieces, connections that are too slow | what a method does; only `service` knows it |
//! | `connections` | clients that leave or are too slow, by their sockets; memory that bodies take while they are read; how many may be open | HTTP, JSON-RPC |
//! | [`ws`] | a worker's sessions: frames, budgets, heartbeat, eviction, shutdown | what is asked, what is told |
//! | `subscriptions` | who is told what when the head changes; feeds every worker from the head tracker | frames, budgets |
//! | [`rpc`] | envelope, parameters, dispatch, handlers, error codes | HTTP (`actix_web`), the configuration |
//! | [`access`] | key to tenant, token bucket a tenant | HTTP, JSON-RPC, the clock (time is passed in) |
//! | [`limits`] | every bound of the edge, each with its reason | |
//! | [`metrics`] | every metric: name, unit, labels | how it is asked for |
//! | [`export`], [`progress`], [`logging`] | `nearhead export`; what is shown on stderr | HTTP, JSON-RPC |
//!
//! | room of the mailboxes | what it does | what it must not know |
//! |---|---|---|
//! | `head` | the one pointer to the present view; written by the head tracker alone | who reads |
//! | `head_tracker` | owns the window: swaps the pointer, then tells | where blocks come from |
//! | `source` | a thread that verifies blocks and hands them over, waiting for each to be readable | who reads |
//! | `upstream` | real nodes: which is followed, which blocks to ask for, state that is not held; its own table is there | who reads |
//! | `admission` | permits, cost classes, panics | codes and JSON-RPC |
//! | `read` | one kind of query each, over the view that the request took | codes and JSON-RPC |
//! | `messages` | every message: what it asks, what it answers, what it costs | |
//!
//! The rooms of the pure package are listed at the head of `nearhead_chain`.
//!
//! # Invariants
//! - A block is made only by the importer, or by the verifier of a node's answers, after its last
//!   check; whoever holds a `Block` may trust it.
//! - A view is immutable, and readable before anybody is told of it. A request, and every item of a
//!   batch, takes it once.
//! - Nothing waits in an unbounded queue: a permit is taken before a message is sent, a source
//!   waits for its answer, a follower that is too far behind is told so.
//! - A worker never waits for another thread to answer something cheap; a view is freed by the head
//!   tracker.
//! - A secret is held by [`config`] and, as a digest, by [`access`]; it is in no log line, metric
//!   or error.
//! - JSON-RPC's numbers stand in `rpc::error` alone, `std::env` in [`config`] and `main.rs` alone.
//!
//! # Where the fixed dependencies serve
//! | dependency | where |
//! |---|---|
//! | actix | the actors, their arbiters and systems (`nearhead_actors`, `http::request_actor`, `service`) |
//! | actix-web, actix-http | `http`, `service` |
//! | actix-web-actors | a session's context and handshake, in `ws/session_actor.rs` alone; it is deprecated, so that its version is pinned |
//! | serde_json | parsing what clients send (`rpc`) and genesis.json; answers are written by hand, once, at ingest |
//! | alloy-primitives, alloy-rlp, alloy-trie | the pure package; primitives everywhere; an account as the trie has it in `nearhead_actors::messages` and `proof_actor` |
//! | crossbeam | channels between threads that are not async: ticks, steps and the stop signal of a source (`source`, `feed`, `service`) |
//! | dashmap | the trie's nodes by hash: read by all workers while a block is written |
//! | parking_lot | a tenant's bucket (`access::quota`); the list of workers (`nearhead_actors::admission`); the trie's list of held roots; what is fetched from nodes |
//! | tracing | log lines and spans; `logging` alone says where they go |
//! | arc-swap | the pointer to the present view |
//! | mimalloc | the program's allocator (`allocator.rs`, of the program alone) |

pub mod access;
pub mod config;
mod connections;
#[cfg(test)]
mod docs_tests;
pub mod export;
mod feed;
pub mod http;
pub mod limits;
pub mod logging;
pub mod metrics;
pub mod progress;
pub mod rpc;
mod service;
mod subscriptions;
pub mod ws;

pub use service::{Service, StartError};
