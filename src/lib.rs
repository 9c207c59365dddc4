//! A JSON-RPC read service for the latest 128 blocks of one Ethereum-compatible chain.
//!
//! `docs/architecture.md` says where to start reading, and how a request, a notification and a
//! block travel through the code.
//!
//! # Code map
//! There are five packages, and their manifests fix the direction of dependence. `nearhead-chain`
//! (actors/chain) is pure: no async, no actix, no sockets, no files, no clock. `nearhead-tenants`
//! (actors/tenants) has tenants and keys, and keeps them in files; it knows neither async nor a
//! clock. `nearhead-fleet` (actors/fleet) is the protocol of a fleet, as pure as `nearhead-chain`,
//! of which it knows nothing. `nearhead-actors` (actors) owns the head and the actors that read it.
//! It knows actix and tokio, but no API keys or configuration, and HTTP and JSON-RPC only as a
//! client of upstreams. `nearhead` (src) is the server and knows all of them. Each package lists
//! its modules in such a table, at the head of its `lib.rs`.
//!
//! A test (`tests/it/tidy`) reads these tables: every module has a row, and its code outside tests
//! mentions nothing from the last column.
//!
//! | module | what it does | must not mention |
//! |---|---|---|
//! | `main.rs` | the entry point: starts the service, prints its URL, waits for a signal, sets the exit code | `actix`, `serde_json` |
//! | `service_manager.rs` | what is reported to the service manager that started the program | `actix`, `serde_json` |
//! | `reload.rs` | reads the keys of the configuration again while the program serves | `actix`, `serde_json` |
//! | `open_browser.rs` | opens the dashboard in a browser | `actix`, `serde_json` |
//! | `greeting.rs` | what the program prints once it serves | `actix`, `serde_json` |
//! | `allocator.rs` | the program's memory allocator | `crate::` |
//! | [`config`] | all options in one table: flag, environment, file, messages | `actix::`, `actix_web::`, `crate::http`, `crate::rpc`, `crate::ws`, `crate::service` |
//! | `service` | starts and stops the parts; the only module that knows them all | `serde_json`, `RpcError`, `Envelope`, `Params` |
//! | `listeners` | the addresses that the service listens on, and their HTTP servers | `serde_json`, `RpcError`, `Envelope`, `crate::service`, `crate::feed` |
//! | [`proxy_header`] | the header of the PROXY protocol, version 2 | `actix`, `tokio`, `crate::` |
//! | `tls` | the certificate of the listeners and its key, read from files and read again | `actix`, `serde_json`, `crate::http`, `crate::config`, `crate::service` |
//! | `feed` | the source's thread | `actix_web`, `crate::http`, `crate::rpc`, `crate::access`, `api_key`, `serde_json` |
//! | [`http`] | routes, the bodies of requests and replies, handshakes of sessions, probes without details, the access log | `crate::admin`, `crate::config`, `crate::service`, `crate::feed`, `rpc::methods` |
//! | `http/request_actor.rs` | one HTTP request's work as an actor | `actix_web`, `actix_http`, `crate::http`, `super::reply` |
//! | [`admin`] | what operators see and do: metrics, the details of the probes, the API of administration, pages | `crate::config`, `crate::service`, `crate::feed`, `crate::ws`, `rpc::methods` |
//! | `memory` | what the memory of the process allows | `serde_json`, `crate::http`, `crate::rpc`, `crate::config` |
//! | `disk_watch` | how full the file system of the data folder is, and whether its disk answers | `serde_json`, `crate::http`, `crate::rpc`, `crate::config` |
//! | `run_mark` | notices at the start that the process before did not shut down | `serde_json`, `crate::http`, `crate::rpc`, `crate::config` |
//! | `connections` | notices clients that leave or are too slow; decides whose connection goes when slots run out; bounds the memory of bodies and the number of connections | `serde_json`, `crate::http`, `crate::rpc`, `crate::ws` |
//! | [`ws`] | a worker's sessions: frames, budgets, heartbeat, eviction, shutdown | `crate::http`, `crate::config`, `crate::service`, `serde_json` |
//! | `subscriptions` | decides what each subscription is sent when the head changes | `crate::ws`, `crate::http`, `actix_web`, `serde_json` |
//! | [`filters`] | filters of all keys: where in the chain each continues; the time is passed in | `crate::ws`, `crate::http`, `actix`, `serde_json` |
//! | [`rpc`] | envelope, parameters, registry, dispatcher, methods, error codes | `actix_web`, `actix_http`, `crate::http`, `crate::config`, `crate::ws`, `crate::subscriptions` |
//! | [`access`] | keys and tenants in force: who is let in, to what, and how much; the time is passed in | `actix`, `crate::http`, `crate::rpc`, `Instant::now`, `SystemTime` |
//! | [`tenants`] | the store of tenants and keys, commands on them, what they use | `actix_web`, `crate::http`, `crate::config`, `crate::ws` |
//! | [`limits`] | every bound of the server, each with its reason | `crate::` |
//! | [`metrics`] | every metric: name, unit, labels | `actix_web`, `actix_http`, `crate::http` |
//! | [`commands`] | `nearhead key`, `tenant` and `admin`, on a running service or on a data folder | `actix`, `crate::http`, `crate::service`, `crate::admin`, `crate::config` |
//! | [`doctor`] | `nearhead doctor`: what the machine and the nodes lack | `actix`, `serde_json`, `crate::http`, `crate::service` |
//! | [`health`] | `nearhead health`: whether a running service is ready | `actix`, `crate::http`, `crate::rpc`, `crate::service`, `crate::admin` |
//! | [`export`] | `nearhead export` | `actix_web`, `crate::http`, `crate::rpc`, `serde_json` |
//! | [`progress`] | progress on stderr | `actix_web`, `crate::http`, `crate::rpc`, `serde_json` |
//! | `thousands` | numbers as people read them | `crate::` |
//! | `relative_time` | times as people read them | `crate::` |
//! | [`traces`] | which requests are traced, and where their spans go; the only module that knows OpenTelemetry | `actix`, `crate::http`, `crate::rpc`, `crate::ws`, `crate::config`, `crate::metrics`, `serde_json` |
//! | [`logging`] | where log lines go | `actix_web`, `crate::http`, `crate::rpc`, `serde_json` |
//!
//! # Invariants
//! - Only the importer, or the verifier of an upstream's answers, makes a `Block`, after its last
//!   check. Code that holds a `Block` may trust it. The JSON of a saved block is made later, with
//!   its senders; what needs them is null if one cannot be recovered.
//! - A snapshot is immutable, and readable before anybody is notified of it. A request, and every
//!   item of a batch, takes it once.
//! - Nothing waits in an unbounded queue: a permit is taken before a message is sent, a source
//!   waits for the reply, and a subscription that is too far behind ends.
//! - A worker never waits for another thread to answer something cheap. Freeing a snapshot takes
//!   long, so the head tracker does it, not the worker that read it last.
//! - [`config`] holds secrets, and [`access`] their digests. No log line, metric or error has one.
//! - Only `rpc::error` has JSON-RPC's error codes; only [`config`], `listeners/inherited.rs` and
//!   `main.rs` use `std::env`.
//!
//! # Where dependencies are used
//! | dependency | where |
//! |---|---|
//! | actix | the actors, their arbiters and systems (`nearhead_actors`, `http::request_actor`, `service`, `listeners`) |
//! | actix-web, actix-http | `http`, `admin`, `listeners` |
//! | actix-service | the service of a worker, only in `listeners` |
//! | actix-web-actors | a session's context and handshake, only in `ws/session_actor.rs`; it is deprecated, so its version is pinned |
//! | serde_json | what clients send (`rpc`, `access::token`), the OpenRPC document (`rpc::openrpc`), the API of administration (`admin::api`), genesis.json and the files of `nearhead_actors::data_folder`; blocks are written by hand, once, when they are made |
//! | alloy-primitives, alloy-rlp, alloy-trie | the pure package; primitives everywhere; the account type of the trie in `nearhead_actors::messages` and `proof_actor` |
//! | crossbeam | channels between threads that are not async: ticks and the stop signal of a source (`source`, `feed`) |
//! | dashmap | the trie's nodes by hash: read by all workers while a block is written; filters by their id (`filters`) |
//! | parking_lot | the buckets of a tenant or key (`access::meter`); guesses of keys (`access::guess_throttle`); a filter's place (`filters`); what other threads want to be ended (`connections::evictions`); the list of workers (`nearhead_actors::admission`); the trie's list of held roots; state fetched from upstreams |
//! | tracing | log lines and spans; `logging` decides where they go |
//! | opentelemetry, opentelemetry_sdk, opentelemetry-otlp, tracing-opentelemetry | spans of traced requests as a collector gets them, only in `traces` |
//! | arc-swap | the pointers to the current snapshot, to the table of keys, and to why the store fails (`tenants::StoreState`) |
//! | askama | the pages of the dashboard (`admin::pages`), from the templates beside them |
//! | base64, ring, ipnet | secrets, their digests, tokens and their signatures, allowlists of networks (`nearhead_tenants`, `access::presented`, `access::token`) |
//! | clap, clap_complete, clap_mangen | `config`, and the command lines of `commands` |
//! | redis | the store of a fleet, only in `nearhead_actors::fleet::store` |
//! | reqwest, rustls | the clients of a running service (`commands::service_client`, `health`) and of a collector of traces (`traces::exporter`); upstreams (`nearhead_actors::upstream`); TLS of the listeners and of these clients (`tls`) |
//! | tokio-rustls, rustls-webpki | handshakes and streams of the listeners (`listeners`); when a certificate ends, and whom it names (`tls`) |
//! | listenfd, sd-notify | sockets that a service manager passes on (`listeners`), and what is reported to it (`service_manager.rs`) |
//! | mimalloc | the program's allocator (`allocator.rs`) |

pub mod access;
pub mod admin;
pub mod commands;
pub mod config;
mod connections;
mod disk_watch;
#[cfg(test)]
mod docs_tests;
pub mod doctor;
pub mod export;
mod feed;
pub mod filters;
pub mod health;
pub mod http;
pub mod limits;
mod listeners;
pub mod logging;
mod memory;
pub mod metrics;
pub mod progress;
pub mod proxy_header;
mod relative_time;
pub mod rpc;
mod run_mark;
mod service;
mod subscriptions;
pub mod tenants;
#[cfg(test)]
mod test_rng;
mod thousands;
mod tls;
pub mod traces;
pub mod ws;

pub use connections::LivenessWatch;
pub use listeners::{InheritError, InheritedSockets, ListenError};
pub use service::{Service, StartError};
pub use tls::TlsError;
