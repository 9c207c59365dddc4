//! The actors of nearhead: the head tracker owns the window, and read actors answer from its
//! snapshots. Sources feed the head tracker. What can be decided without I/O is in the pure package
//! below.
//!
//! This package knows actix and tokio. It has no HTTP server, and knows neither API keys nor
//! configuration files. Only its client of upstreams knows HTTP and JSON-RPC.
//!
//! A test (`tests/it/tidy`) holds the code to this table, as the code map of `nearhead` explains.
//!
//! | module | what it does | must not mention |
//! |---|---|---|
//! | every module | | `actix_web`, `actix_http`, `std::env`, `api_key`, `opentelemetry` |
//! | [`head`] | the one pointer to the current snapshot; only the head tracker writes it | `_actor`, `crate::read`, `crate::source`, `crate::upstream`, `serde_json` |
//! | [`head_tracker`] | owns the window: swaps the pointer, then announces the change | `crate::source`, `crate::upstream`, `crate::read`, `serde_json` |
//! | [`source`] | threads that verify blocks and hand them over, waiting until each is readable | `_actor`, `crate::read`, `serde_json` |
//! | [`upstream`] | Ethereum nodes: which is followed, which blocks to request, state that is not held; the only JSON-RPC client | `_actor`, `crate::read` |
//! | [`admission`] | permits, cost classes, panics | `crate::read`, `crate::upstream`, `crate::source`, `serde_json` |
//! | [`read`] | actors that answer one kind of query each, from the snapshot that the request took | `crate::source`, `crate::head_tracker`, `serde_json` |
//! | [`disk_wait`] | work on a disk that may hang: how long it is waited for, and whether it hangs | `crate::`, `tokio`, `actix` |
//! | [`data_folder`] | what outlives the process: the folder of one chain, locked and written atomically | `_actor`, `crate::head`, `crate::messages`, `crate::read`, `crate::saved`, `crate::source`, `crate::upstream`, `tokio`, `actix` |
//! | [`saved`] | what of the window and its state outlives the process: one file, which is not trusted | `_actor`, `crate::read`, `crate::source`, `crate::upstream`, `actix`, `serde_json` |
//! | [`fleet`] | processes that share one ingest: entries of the leader are applied, or appended; the only client of the store | `_actor`, `crate::read`, `serde_json` |
//! | [`freshness`] | how old the head may be; the times are passed in | `crate::`, `tokio`, `Instant`, `SystemTime` |
//! | [`shutdown_state`] | how far the service has shut down | `crate::`, `actix` |
//! | [`readiness`] | whether the service is ready, and the reasons if it is not | `_actor`, `crate::read`, `crate::source`, `serde_json` |
//! | [`budget`] | what one tenant's reads may cause at upstreams, and how often something may be tried; the time is passed in | `crate::messages`, `crate::read`, `crate::upstream`, `crate::source`, `Instant::now`, `serde_json` |
//! | [`share`] | a tenant as the queues know it: which one, and its weight | `crate::`, `tokio`, `actix`, `serde_json` |
//! | `follow_threads` | the threads that follow and verify, whose priority is lower than that of answering | `tokio`, `actix`, `serde_json` |
//! | [`thread_priority`] | the priority of a thread | `crate::`, `tokio`, `actix`, `serde_json` |
//! | [`trace`] | the spans of a traced request | `crate::read`, `crate::upstream`, `crate::messages`, `tokio`, `actix`, `serde_json` |
//! | [`messages`] | every message: what it asks for, its reply, its cost | `crate::admission`, `crate::read`, `crate::source`, `crate::upstream`, `serde_json` |

pub mod admission;
pub mod budget;
pub mod data_folder;
pub mod disk_wait;
pub mod fleet;
mod follow_threads;
pub mod freshness;
pub mod head;
pub mod head_tracker;
pub mod messages;
pub mod read;
pub mod readiness;
pub mod saved;
pub mod share;
pub mod shutdown_state;
pub mod source;
#[cfg(all(test, feature = "all-tests"))]
mod test_chain;
#[cfg(test)]
mod test_wait;
pub mod thread_priority;
pub mod trace;
pub mod upstream;
