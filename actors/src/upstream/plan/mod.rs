//! Which blocks to ask for.
//!
//! Blocks are linked by parent hashes, downwards from a head that an upstream named. So the fetched
//! blocks form one chain, whatever the upstream answers. Blocks further down are requested by
//! number before their hash is known, which saves round trips; one that does not fit is requested
//! again by hash.

mod backfill;
mod descent;
#[cfg(any(test, feature = "testing"))]
mod script;
mod sync_path;

#[cfg(test)]
mod tests;

pub(crate) use backfill::{Backfill, BlockBelow};
pub(crate) use descent::{Ask, FetchedBlock};
#[cfg(any(test, feature = "testing"))]
pub use script::run_script;
pub(crate) use sync_path::{PathOutcome, SyncPath};
