//! What a node says, checked: from its JSON to a block, a proof or a code that may be trusted.
//!
//! Of a node nothing is believed. What it states is decoded to what the chain hashes, hashed again,
//! and written as JSON again; then all that it stated is compared with that, member by member.
//!
//! | file | what it is responsible for |
//! |---|---|
//! | [`Verifier`] | a block with its receipts and ommers |
//! | [`StatedBlock`], [`StatedReceipts`] | what a node says of it, read once |
//! | [`verify_proof`], [`verify_code`] | account proofs and codes |
//! | [`UpstreamFault`] | which promise a node broke |
//! | `reasons` | an enum of reasons with their words, here and for whoever else has some |
//! | `json` | an answer taken apart, within bounds |
//! | `reader` | members by name and kind |
//! | `header`, `receipt` | what hashes cover, from JSON |
//! | `compare` | what follows from it, against what the node states |

mod compare;
pub(crate) mod fault;
mod header;
pub(crate) mod json;
mod proof;
pub(crate) mod reader;
mod reasons;
mod receipt;
mod stated;
mod verifier;

#[cfg(test)]
mod tests;

pub use fault::{AnswerKind, Check, Flaw, UpstreamFault};
pub use json::ANSWER_BYTES_MAX;
pub use proof::{verify_code, verify_proof};
pub use stated::{StatedBlock, StatedReceipts};
pub use verifier::{BlockAnswers, RequestedBlock, Verified, VerifiedBody, Verifier};
