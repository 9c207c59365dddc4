//! Transactions: the envelope that blocks carry, the sender, and the JSON in both directions.
//!
//! A type is a file and a line in the table of `envelope`.
//!
//! | file | what it decides |
//! |---|---|
//! | `envelope` | the table of all types; [`Transaction`] and [`TxType`] follow from it |
//! | `type_rules` | what a type can decide, and the defaults |
//! | `legacy`, `eip2930`, `eip1559`, `eip4844`, `eip7702` | one type each |
//! | `access_list`, `recipient`, `signature` | members that several types have |
//! | `read`, `write` | JSON: the members that every type has |
//! | `sender` | the checks of a signature, and who signed |

pub(crate) mod access_list;
mod eip1559;
mod eip2930;
mod eip4844;
mod eip7702;
mod envelope;
mod legacy;
mod read;
mod recipient;
mod sender;
mod signature;
mod type_rules;
mod write;

pub use envelope::{Transaction, TxType};
pub use type_rules::SenderSource;

pub(crate) use read::{ReadError, read};
pub(crate) use sender::{check_chain_id, sender, sender_by_rules};
pub(crate) use type_rules::Inclusion;
pub(crate) use write::{QUANTITIES, size_hint, write};
