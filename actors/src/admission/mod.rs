//! Admission: what may be in progress at once, and what happens to work that panics.

mod cost;
mod panics;
mod permits;

pub(crate) use cost::MAILBOX_CAPACITY;
pub use cost::{
    BATCH_BYTES_MAX, BATCH_BYTES_UNIT, CHEAP_PER_WORKER, CostClass, LOOKUPS_MAX, MEASURED_MAX,
    PROOF_KEYS_MAX, REMOTE_MAX,
};
pub use panics::Panics;
pub use permits::{Admission, Permit, PermitUse, Permits, WorkerAdmission};
