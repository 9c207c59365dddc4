//! Transactions: the envelope that blocks carry, the sender, and the JSON in both directions.
//!
//! A type is a variant of [`Transaction`], which decides its RLP. The table in `read` says how its
//! JSON is read, `sender` how its sender is found, and `write` which members it adds.

mod envelope;
mod read;
mod sender;
mod write;

pub use envelope::Transaction;

pub(crate) use read::{ReadError, read};
pub(crate) use sender::{sender, sender_by_rules};
pub(crate) use write::{size_hint, write};
