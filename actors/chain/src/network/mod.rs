//! Everything that the kind of a chain decides, in one place.
//!
//! | file | what it decides |
//! |---|---|
//! | `transaction` | the envelope that blocks carry, its sender, its JSON in both directions |
//! | `receipt` | the envelope of a receipt, and the members that a transaction's type adds |
//! | `header` | members by fork: their JSON in both directions, and the fork that adds each |
//! | [`BlobRules`] | the price of blob gas if the genesis is unknown |
//! | [`ChainSpec`] | the rules of a chain, read from its genesis |
//! | `rules` | the rules of one block |
//!
//! A new header member has a line in `read`, in `write` and in `FORK_MEMBERS` of `header`. A
//! transaction type that alloy knows has a line and a function in `transaction/read.rs`, and the
//! members that it adds are in `transaction/write.rs`. CONTRIBUTING.md lists the places outside.
//!
//! The files here read and write with [`crate::remote`]'s reader and [`crate::encode`]'s writer,
//! which know no chain.

mod blob_rules;
pub(crate) mod header;
pub(crate) mod receipt;
mod rules;
mod spec;
pub(crate) mod transaction;

pub use blob_rules::BlobRules;
pub use receipt::{Receipt, with_bloom};
pub use spec::{ChainSpec, SpecError};
pub use transaction::Transaction;

pub(crate) use rules::Rules;
