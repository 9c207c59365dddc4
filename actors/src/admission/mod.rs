//! Admission: what may be in progress at once, and what happens to work that panics.

mod callers;
mod cost;
mod cpu_time;
mod drain_rate;
mod fair_permits;
mod fair_queue;
mod fair_turns;
mod first_turns;
mod hold_time;
mod memory_level;
mod panics;
mod permits;
mod reply_budget;
mod reply_parts;
mod reply_turns;
mod request_turns;
mod standing_queue;
mod turns;
mod work_queue;

pub(crate) use callers::Callers;
pub use cost::{
    CostClass, FORWARDED_ANSWER_BYTES_MAX, FORWARDED_DEPTH_MAX, LARGE_BODY_BYTES, TURNS_OF_REQUEST,
};
#[cfg(test)]
pub(crate) use cost::{FORWARDED_MAX, REMOTE_MAX};
pub(crate) use cost::{
    LIGHT_WORK_MAX, LOOKUP_NANOS, PROOF_KEY_NANOS, QUEUE_ITEMS_PER_TENANT_MAX, QUEUE_WAIT_MAX,
    RAW_BYTE_NANOS, RETRY_AFTER_UNMEASURED,
};
pub(crate) use cpu_time::CpuTime;
pub use fair_permits::{FairLimit, FairPermit, FairPermits};
pub(crate) use fair_queue::{Entry, Ticket};
pub(crate) use fair_turns::{FairTurn, FairTurns};
pub use first_turns::{FirstTurn, FirstTurns};
pub use memory_level::MemoryLevel;
pub use panics::{Panicked, Panics};
pub use permits::{Admission, AdmissionPermit, Permit, PermitUse};
pub(crate) use permits::{MAILBOX_CAPACITY, WorkerAdmission};
pub use reply_budget::{Evict, ExtraCharge, ReplyBudget, ReplyCharge, ReplyUse};
pub use reply_turns::{ReplyInTurns, ReplyTurns};
pub use request_turns::{RequestTurns, RequestWaits};
pub use work_queue::QueueUse;
pub(crate) use work_queue::{Expiry, Refuse, Taken, WorkQueue};
