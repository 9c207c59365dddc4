//! Verifies an upstream's answers: JSON in, a verified block, proof or code out.
//!
//! Nothing that an upstream states is trusted, except the total difficulty, which no hash covers.
//! Its JSON is decoded, hashed, and encoded again; then the upstream's JSON is compared with the
//! new JSON, member by member.
//!
//! | file | what it is responsible for |
//! |---|---|
//! | [`Verifier`] | a block with its receipts and ommers |
//! | [`StatedBlock`], [`StatedHeader`], [`StatedReceipts`] | the block, its header or its receipts, decoded once from an answer |
//! | [`verify_proof`], [`verify_code`] | account proofs and codes |
//! | `saved` | a verified block as bytes, and from bytes |
//! | `restored_block` | a block from such bytes, whose senders are recovered later |
//! | [`UpstreamFault`] | which check an answer failed |
//! | `reasons` | a macro for enums of reasons with labels and texts |
//! | `json` | an answer parsed, within bounds |
//! | `reader` | members by name and kind |
//! | `header`, `receipt` | what hashes cover, decoded from JSON |
//! | `compare` | compares an upstream's JSON with the derived JSON |
//! | `object_kind` | the kinds of objects, and how each member is compared |

mod compare;
pub(crate) mod fault;
mod header;
pub(crate) mod json;
mod object_kind;
mod proof;
pub(crate) mod reader;
mod reasons;
pub(crate) mod receipt;
mod restored_block;
mod saved;
mod stated;
mod verifier;

#[cfg(test)]
mod tests;

pub use fault::{AnswerKind, Check, Flaw, UpstreamFault};
pub use json::ANSWER_BYTES_MAX;
pub use proof::{verify_code, verify_proof};
pub use saved::RestoreError;
pub use stated::{StatedBlock, StatedHeader, StatedReceipts};
pub use verifier::{BlockAnswers, RequestedBlock, Verified, VerifiedBody, Verifier};

pub(crate) use fault::malformed;
pub(crate) use stated::read_withdrawals;
