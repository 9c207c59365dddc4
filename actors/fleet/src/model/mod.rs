//! A model of the protocol in simulated time: processes, a store, the network between them, and
//! somebody who writes into the store.
//!
//! | file | what it has |
//! |---|---|
//! | `world` | the true chain, and how blocks are verified |
//! | `message` | what is on its way |
//! | `process` | a process of the fleet, as `nearhead_actors::fleet` drives it |
//! | `attacker` | what somebody who reaches the store does |
//! | `oracle` | what must hold, whatever happens |
//! | `schedule` | one schedule: who fails when |
//! | `simulation` | thousands of them |

#![expect(clippy::unwrap_used, reason = "tests")]

mod attacker;
#[path = "../../../chain/src/campaign.rs"]
#[allow(unreachable_pub, reason = "public for the package that has it")]
mod campaign;
mod kinds;
mod message;
mod oracle;
mod process;
mod rng;
mod schedule;
mod simulation;
mod world;

use std::time::Duration;

use crate::leader::LogLimits;

/// A step of simulated time.
const STEP: Duration = Duration::from_millis(20);

/// The length of a lease.
const LEASE: Duration = Duration::from_millis(600);

/// The longest lease that the store takes for one.
const LEASE_MAX: Duration = Duration::from_millis(1_200);

/// Time for which the store may be unreachable before a call counts as failed.
const TIMEOUT: Duration = Duration::from_millis(160);

/// Blocks that a process holds.
const WINDOW: usize = 12;

/// Entries that one read returns.
const PAGE: usize = 8;

/// A snapshot has three parts, and a replica may be six entries behind.
const LIMITS: LogLimits = LogLimits {
    snapshot_every: 10,
    snapshot_gap: 2,
    margin_entries: 6,
    margin_bytes: 1 << 20,
    part_bytes: 4 * world::BLOCK_BYTES,
    store_entries: 60,
};
