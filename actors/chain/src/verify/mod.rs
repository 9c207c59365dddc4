//! The checks of everything that a header commits to.
//!
//! A block is checked in this order: `check_header` (against its parent), `check_body` (against its
//! body), `check_ommers`, `recover_senders`, then, after execution, `check_outcome`. The seal of a
//! block before the merge (ethash) is not checked. A followed block is not executed. These checks
//! apply to it: `check_roots`, `check_distinct`, [`ReceiptsCommitment`], [`recover_senders_of`],
//! `check_gas_used` where receipts do not tell the gas, and [`HeaderRules`] if the chain's rules
//! are known. Of a saved block, `check_chain_ids` comes first, and [`recover_senders_of`] does not
//! apply: senders are recovered one after another, later.

mod bloom;
mod body;
mod difficulty;
mod error;
mod header;
mod header_rules;
mod ommers;
mod outcome;
mod senders;

pub use body::check_roots;
pub use error::VerifyError;
pub use header_rules::{HeaderRefusal, HeaderRules, HeaderRulesMode, RulesUnknown};
pub use outcome::ReceiptsCommitment;
pub use senders::recover_senders_of;

pub(crate) use bloom::logs_bloom;
pub(crate) use body::{check_body, check_distinct};
pub(crate) use difficulty::difficulty;
pub(crate) use header::{
    base_fee, check_gas_used, check_header, excess_blob_gas, next_base_fee, next_excess_blob_gas,
};
pub(crate) use ommers::{OMMERS_MAX, check_ommers};
pub(crate) use outcome::check_outcome;
pub(crate) use senders::{check_chain_ids, recover_senders};

#[cfg(all(test, feature = "all-tests"))]
mod tests;
