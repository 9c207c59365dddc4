//! Admission: what may be in progress at once, and what happens to work that panics.

mod cost;
mod panics;
mod permits;

pub use cost::CostClass;
#[cfg(test)]
pub(crate) use cost::REMOTE_MAX;
pub(crate) use cost::{LOOKUPS_MAX, MAILBOX_CAPACITY};
pub use panics::Panics;
pub(crate) use permits::WorkerAdmission;
pub use permits::{Admission, Permit, PermitUse, Permits};
