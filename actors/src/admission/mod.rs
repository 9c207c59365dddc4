//! Admission: what may be under way.

mod permits;

pub use permits::{Permit, Permits};
