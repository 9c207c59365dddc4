//! Admission: what may be in progress at once, and what happens to work that panics.

mod cost;
mod panics;
mod permits;

pub use cost::CostClass;
#[cfg(test)]
pub(crate) use cost::REMOTE_MAX;
pub(crate) use cost::{LOOKUPS_MAX, REMOTE_PER_TENANT_MAX};
pub use panics::{Panicked, Panics};
pub use permits::{Admission, Permit, PermitUse, Permits};
pub(crate) use permits::{MAILBOX_CAPACITY, WorkerAdmission};
