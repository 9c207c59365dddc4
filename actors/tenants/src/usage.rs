//! What keys used.
//!
//! A request is counted by the worker that answers it, in [`UsageCounts`] of its own: without a
//! lock, and without an atomic that workers share. Four times a second the worker hands its counts
//! to the owner of the store, which sums them by minute ([`Merged`]) and writes them every seven
//! seconds. So the end of a process by force loses ten seconds of usage at most.
//!
//! The store keeps three sums of all usage ([`Resolution`]): by minute for 2 days, by hour for 8
//! days, by day for 31 days. One transaction adds to all three, so each is complete by itself, and
//! a query reads one. Nothing is rolled up later, and what arrives late is counted like the rest.
//!
//! | file | content |
//! |---|---|
//! | `used` | how much was used |
//! | `counts` | what one worker has counted |
//! | `counted` | how much of each, in little memory |
//! | `merged` | the counts of all workers, until they are written |
//! | `resolution` | minutes, hours and days |
//! | `query` | questions about usage, and their answers |
//! | `groups` | sums by group, which become the rows of an answer |
//! | `used_today` | units of the day, by tenant and by chain of keys |

mod counted;
mod counts;
mod groups;
mod merged;
mod query;
mod resolution;
mod used;
mod used_today;

pub use counted::{Counted, RequestUse};
pub use counts::{CELLS_MAX, METHODS_MAX, TakenCounts, UsageCounts};
pub use groups::{UsageGroup, UsageGroups};
pub use merged::{FLUSH_CELLS_MAX, FLUSH_INTERVAL, Labels, MERGED_CELLS_MAX, Merged};
pub use query::{
    GroupBy, KeyOwner, KeyUse, KeyUseQuery, UsageAnswer, UsageCell, UsageOf, UsageQuery, UsageRow,
};
pub use resolution::Resolution;
pub use used::{LATENCY_BOUNDS, LATENCY_BUCKETS, Label, OK_LABEL, SESSION_LABEL, Used};
pub use used_today::UsedToday;
