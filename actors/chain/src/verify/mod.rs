//! What a header promises, checked one by one. Pure functions: headers, bodies and receipts in, a
//! verdict out.
//!
//! The order in which a block is judged: [`check_header`] (against its parent), [`check_body`]
//! (against itself), [`check_ommers`], [`recover_senders`], then, once it was executed,
//! [`check_outcome`]. Not checked is the seal of a block before the merge (ethash). Of a block
//! whose chain's rules are not known there is less: [`check_roots`], [`ReceiptsPromise`],
//! [`recover_senders_of`].

mod body;
mod difficulty;
mod error;
mod header;
mod ommers;
mod outcome;
mod senders;

pub use body::{check_body, check_roots};
pub use difficulty::difficulty;
pub use error::VerifyError;
pub use header::{base_fee, check_header, excess_blob_gas};
pub use ommers::{OMMERS_MAX, check_ommers};
pub use outcome::{ReceiptsPromise, check_outcome, logs_bloom};
pub use senders::{recover_senders, recover_senders_of};

#[cfg(test)]
mod tests;
