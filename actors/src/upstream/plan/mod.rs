//! Which blocks to ask for.
//!
//! Blocks are linked by the hash of their parent, from a head that a node named downwards, so that
//! what is gathered is one chain whatever the node answers. Numbers are guesses that save waiting:
//! what does not fit is asked for again, by hash.

mod backfill;
mod descent;
mod route;

#[cfg(test)]
mod tests;

pub use backfill::Backfill;
pub use descent::{Ask, Found};
pub use route::{Leaves, Outcome, Route};
