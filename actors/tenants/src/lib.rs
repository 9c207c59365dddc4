//! Tenants and their keys: what each may do. This package knows neither HTTP nor JSON-RPC, reads no
//! clock, and draws random numbers only for new keys.
//!
//! A *tenant* is who pays and is limited. It has *keys*; a key belongs to one tenant, and may be
//! narrower than it.
//!
//! | module | what it does | must not mention |
//! |---|---|---|
//! | [`record`] | a tenant and a key as they are stored | `Instant` |
//! | [`limits`] | how much each may do | `crate::` |
//! | [`allowlists`] | to what a key is narrowed: origins, user agents, methods, contracts, networks | `crate::` |
//! | [`secret`] | new secrets, and the digests that are kept of them | `crate::` |
//! | [`public_key`] | the keys that verify tokens of clients | `crate::secret` |
//! | [`name`] | what people call tenants and keys | `crate::` |
//! | [`id`] | what identifies them | |
//! | [`command`] | what administrators do to them, and why it may be refused | |
//! | [`bounds`] | how many there may be, and how long keys are kept | `crate::` |
//! | [`directory`] | all of them, in memory; applies commands | |
//! | [`account`] | who may administer: people and programs | |
//! | [`password`] | passwords of people, and the slow hashes that are kept of them | |
//! | [`audit`] | who did what to which key | |
//! | [`usage`] | what keys used: counted, merged, and asked for | |
//! | [`store`] | where all of this is kept | |
//! | [`administration`] | what pages, the admin API and commands do: rights, changes, views | `rusqlite`, `SqliteStore` |
//! | `time.rs` | wall-clock time | `crate::` |
//! | `utc.rs` | dates and times of day, as people write and read them | |
//! | every module | | `actix`, `tokio`, `SystemTime::now`, `Instant::now` |

pub mod account;
pub mod administration;
pub mod allowlists;
pub mod audit;
pub mod bounds;
pub mod command;
pub mod directory;
pub mod id;
pub mod limits;
pub mod name;
pub mod password;
pub mod public_key;
pub mod record;
pub mod secret;
pub mod store;
mod time;
pub mod usage;
mod utc;

pub use time::UnixMillis;
pub use utc::{InvalidTime, UtcTime};
