//! Which blocks to ask for.
//!
//! Blocks are linked by the hash of their parent, from a head that an upstream named downwards, so that
//! what is gathered is one chain whatever the upstream answers. Numbers are guesses that save waiting:
//! what does not fit is asked for again, by hash.

mod backfill;
mod descent;
mod sync_path;

#[cfg(test)]
mod tests;

pub use backfill::Backfill;
pub use descent::{Ask, FetchedBlock};
pub use sync_path::{Divergence, PathOutcome, SyncPath};
