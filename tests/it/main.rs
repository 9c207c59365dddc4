//! The integration tests of nearhead: one binary, so that it is linked once.
//!
//! | module | tests |
//! |---|---|
//! | `conformance` | every execution-apis vector |
//! | `geth` | a real geth over the same chain |
//! | `upstreams` | real upstreams, and a proxy that alters their answers, for `node` |
//! | `node` | following real upstreams: heads, reorgs, failures, lies, state |
//! | `fleet` | fleets of real processes over a real Redis |
//! | `proofs` | every proof, verified by alloy_trie against the header |
//! | `window` | tags, numbers and hashes at the edges of the 128 blocks |
//! | `reorg_sim` | thousands of applies and reverts against a naive model |
//! | `bad_input` | the exact answers to malformed requests, and malformed HTTP |
//! | `fuzz_replay` | the fuzz targets' checks over their corpus |
//! | `errors` | the errors that neither a source nor a client can cause on demand |
//! | `listeners` | what the public, the admin and the metrics listener answer, and that they share nothing |
//! | `browsers` | what pages in a browser may reach |
//! | `dashboard` | the dashboard in a real browser |
//! | `trusted_proxy` | the address of a client behind proxies, in allowlists and in the log |
//! | `proxy_protocol` | the client that a proxy names before a connection, and who may connect |
//! | `probes` | /ready in every state of the service; eth_syncing |
//! | `access_log` | every request under the id in its response, never a key |
//! | `admin_api` | the API of administration: keys from their making to their end, roles, attacks |
//! | `admission` | permits, quotas, method sets, disconnects, one snapshot a batch |
//! | `crowd` | thousands of connections that ask at once: every client gets its answer, another tenant does not wait, and memory is given back |
//! | `openrpc` | the OpenRPC document: served, its examples run, its schemas compared |
//! | `keys` | the keys of the configuration while the service runs |
//! | `tenants` | what keys of a store may do: contracts, shares by weight, and every refusal |
//! | `units` | what calls cost, in the header of an answer |
//! | `slow_clients` | clients that send or read too slowly are cut off |
//! | `replies` | memory of replies that are not read: charged, shared among tenants, given back |
//! | `strangers` | connections without an accepted key keep nobody out, guesses of keys are throttled |
//! | `cli` | help, check, refusals, exit codes, secrecy of keys |
//! | `commands` | `nearhead key`, `tenant` and `admin`, on a data folder and on a running service |
//! | `setup` | the sources of the vectors, and their digests |
//! | `shutdown` | SIGTERM with requests in flight; service managers, and restarts on their sockets |
//! | `deploy` | deploy/: units, alerts, dashboards, chart, image and Debian package, read and run by what they are for; workflows |
//! | `readme` | the README's commands, run as printed |
//! | `metrics` | the exported metrics against docs/metrics.md |
//! | `tls` | HTTPS and WSS, certificates that change, clients that are slow or speak plain HTTP |
//! | `traces` | traces of requests, as a collector gets them |
//! | `min_block` | clients that name the block that they have seen: what waits, what is refused, a proxy before two processes |
//! | `websocket` | sessions: answers equal to HTTP, RFC 6455, subscriptions, hostile clients |
//! | `clients` | ethers, viem, web3.js, web3.py, alloy: calls, subscriptions, lost connections, examples of the dashboard |
//! | `tidy` | the code map's boundaries, and other rules that the compiler does not check |
//!
//! Shared tools: `harness` (the program as a process, raw HTTP), `in_process` (the service without
//! HTTP), `rng` (seeded random choices).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "all-tests")]
mod access_log;
#[cfg(feature = "all-tests")]
mod admin_api;
mod admission;
#[cfg(feature = "all-tests")]
mod bad_input;
mod browsers;
mod cli;
#[cfg(feature = "all-tests")]
mod clients;
mod commands;
#[cfg(feature = "all-tests")]
mod conformance;
#[cfg(feature = "all-tests")]
mod crowd;
#[cfg(feature = "all-tests")]
mod dashboard;
#[cfg(feature = "all-tests")]
mod deploy;
#[cfg(feature = "all-tests")]
mod errors;
#[cfg(feature = "all-tests")]
mod fleet;
mod fuzz_replay;
#[cfg(feature = "all-tests")]
mod geth;
mod harness;
mod in_process;
mod keys;
mod listeners;
mod metrics;
mod min_block;
#[cfg(feature = "all-tests")]
mod node;
#[cfg(feature = "all-tests")]
mod openrpc;
#[cfg(feature = "all-tests")]
mod probes;
mod proofs;
mod proxy_protocol;
#[cfg(feature = "all-tests")]
mod readme;
mod reorg_sim;
mod replies;
mod rng;
#[cfg(feature = "all-tests")]
mod setup;
mod shutdown;
#[cfg(feature = "all-tests")]
mod slow_clients;
#[cfg(feature = "all-tests")]
mod strangers;
mod tenants;
mod tidy;
#[cfg(feature = "all-tests")]
mod tls;
mod traces;
#[cfg(feature = "all-tests")]
mod trusted_proxy;
mod units;
#[cfg(feature = "all-tests")]
mod upstreams;
mod websocket;
mod window;
