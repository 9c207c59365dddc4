//! What is wrong with an upstream's answer.

use std::fmt;

use alloy_primitives::B256;

use crate::{encode::EncodeError, trie::ProofError, verify::VerifyError};

/// Most characters of an upstream's text that a message repeats.
const CHARS_MAX: usize = 80;

/// The answer that a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// The block, with its transactions in full.
    Block,
    /// The receipts of the block.
    Receipts,
    /// The ommer with this index.
    Ommer(usize),
    /// An account proof.
    Proof,
    /// A code.
    Code,
    /// A block access list.
    AccessList,
}

impl fmt::Display for AnswerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block => f.write_str("block"),
            Self::Receipts => f.write_str("receipts"),
            Self::Ommer(index) => write!(f, "ommer {index}"),
            Self::Proof => f.write_str("proof"),
            Self::Code => f.write_str("code"),
            Self::AccessList => f.write_str("access list"),
        }
    }
}

/// What is wrong with one member of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It is absent or null.
    #[error("is missing")]
    Missing,
    /// It has the wrong type, or is a number out of range.
    #[error("is not {expected}")]
    Shape {
        /// What is accepted.
        expected: &'static str,
    },
    /// It differs from the value that was derived from what the block hash covers.
    #[error("is {stated}, expected {derived}")]
    Differs {
        /// What the upstream states.
        stated: String,
        /// What was derived.
        derived: String,
    },
}

/// Why an answer is refused.
///
/// [`Self::Absent`] can be honest: an upstream may be behind, or have pruned.
/// [`Self::TransactionType`] and [`Self::BlobGasPrice`] can mean that nearhead does not know a rule
/// of the chain.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamFault {
    /// The answer is null.
    #[error("{answer} is null")]
    Absent {
        /// Which one.
        answer: AnswerKind,
    },
    /// The answer exceeds the bound on its size.
    #[error("{answer}: expected at most {max} bytes, found {found}")]
    TooLarge {
        /// Which one.
        answer: AnswerKind,
        /// The bound.
        max: usize,
        /// Its bytes.
        found: usize,
    },
    /// The answer is not JSON, names a member twice, or has too many values.
    #[error("{answer} is malformed: {error}")]
    Malformed {
        /// Which one.
        answer: AnswerKind,
        /// The parser's message.
        error: String,
    },
    /// A member of the answer is wrong.
    #[error("{answer}: {path} {flaw}")]
    Member {
        /// Which one.
        answer: AnswerKind,
        /// Where in it.
        path: String,
        /// What is wrong.
        flaw: Flaw,
    },
    /// A transaction has an unknown type, so nothing about its block can be checked.
    #[error("block {number} has a transaction of type {found:#x}, which is not supported")]
    TransactionType {
        /// The block's number.
        number: u64,
        /// The type.
        found: u64,
    },
    /// The stated hash is not the header's.
    #[error("block hash: expected {derived}, found {stated}")]
    BlockHash {
        /// What the upstream states.
        stated: B256,
        /// keccak256 of the header's RLP.
        derived: B256,
    },
    /// The answer is not the requested block.
    #[error("asked for {asked}, found block {number} {hash}")]
    AnotherBlock {
        /// The requested block.
        asked: String,
        /// The number of the answered block.
        number: u64,
        /// The hash of the answered block.
        hash: B256,
    },
    /// The answer does not have one receipt for each transaction, one header for each ommer, or one
    /// storage proof for each requested slot.
    #[error("{items}: expected {expected}, found {found}")]
    Count {
        /// What is counted, in the plural.
        items: &'static str,
        /// The number of transactions, ommers or slots.
        expected: usize,
        /// The number of items in the answer.
        found: usize,
    },
    /// The body or the receipts are not those of the header, or a signature is invalid.
    #[error(transparent)]
    Header(#[from] VerifyError),
    /// The block cannot be held.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The price of blob gas does not follow from the assumed blob parameters.
    #[error("blob gas price is {stated}, expected {derived}: {advice}")]
    BlobGasPrice {
        /// What the upstream states.
        stated: String,
        /// What was derived.
        derived: String,
        /// What to do if the upstream is right.
        advice: &'static str,
    },
    /// An account proof is invalid.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// A code does not have the hash that its account names.
    #[error("code: expected keccak256 {expected}, found {found}")]
    CodeHash {
        /// The account's code hash.
        expected: B256,
        /// keccak256 of the answered code.
        found: B256,
    },
    /// An access list does not have the hash in its block's header (EIP-7928).
    #[error("access list: expected hash {expected}, found {found}")]
    AccessListHash {
        /// The header's hash.
        expected: B256,
        /// keccak256 of the RLP of the answered list.
        found: B256,
    },
}

crate::reasons! {
    /// The check that an answer failed: first those of blocks and their receipts, then the others.
    /// docs/nodes.md has the table of `OF_BLOCKS`.
    Check:
    TooLarge = "too_large", "an answer is larger than any valid one";
    Malformed = "malformed", "an answer is not JSON, or has a member twice";
    MissingMember = "missing_member", "a member is missing";
    MalformedMember = "malformed_member", "a member has the wrong type or is out of range";
    AnotherBlock = "another_block", "the block is not the requested one";
    BlockHash = "block_hash", "the header does not hash to the stated block hash";
    TransactionType = "transaction_type", "a transaction has a type that nearhead does not know";
    ChainId = "chain_id", "a transaction is signed for another chain";
    Signature = "signature", "no sender can be recovered from a transaction's signature";
    TransactionsRoot = "transactions_root", "the transactions do not match the header's root";
    DuplicateTransaction = "duplicate_transaction", "a transaction is in the block twice";
    OmmersHash = "ommers_hash", "the ommers do not match the header's hash of them";
    WithdrawalsRoot = "withdrawals_root", "the withdrawals do not match the header's root";
    BlobGasUsed = "blob_gas_used", "the transactions' blob gas differs from the header's";
    Count = "count", "the number of receipts, ommers or storage proofs is wrong";
    ReceiptsRoot = "receipts_root", "the receipts do not match the header's root";
    GasUsed = "gas_used", "before Amsterdam, the receipts' gas differs from the header's";
    LogsBloom = "logs_bloom", "the logs' bloom differs from the header's";
    BlobGasPrice = "blob_gas_price", "the blob gas price does not follow from the chain's parameters";
    Header = "header", "the header breaks a rule of its fork";
    BlockMember = "block_member", "a member of the block or of a transaction differs from what nearhead computes";
    ReceiptMember = "receipt_member", "a member of a receipt or of a log differs from what nearhead computes";
    OmmerMember = "ommer_member", "a member of an ommer differs from what nearhead computes";
    Absent = "absent", "the answer is null";
    ProofMember = "proof_member", "a member of a proof is not what the proof proves";
    Proof = "proof", "a proof does not lead to the state root";
    CodeHash = "code_hash", "contract code does not have the hash of its account";
    AccessListHash = "access_list_hash", "an access list does not have the hash in its header";
}

impl Check {
    /// The checks that blocks and their receipts may fail.
    pub const OF_BLOCKS: &[Self] = Self::ALL.split_at(Self::Absent as usize).0;
}

impl UpstreamFault {
    /// The check that the answer failed.
    #[must_use]
    pub(crate) const fn check(&self) -> Check {
        match self {
            Self::Absent { .. } => Check::Absent,
            Self::TooLarge { .. } | Self::Encode(_) => Check::TooLarge,
            Self::Malformed { .. } => Check::Malformed,
            Self::Member { answer, flaw, .. } => match (flaw, answer) {
                (Flaw::Missing, _) => Check::MissingMember,
                (Flaw::Shape { .. }, _) => Check::MalformedMember,
                (Flaw::Differs { .. }, AnswerKind::Block) => Check::BlockMember,
                (Flaw::Differs { .. }, AnswerKind::Receipts) => Check::ReceiptMember,
                (Flaw::Differs { .. }, AnswerKind::Ommer(_)) => Check::OmmerMember,
                (
                    Flaw::Differs { .. },
                    AnswerKind::Proof | AnswerKind::Code | AnswerKind::AccessList,
                ) => Check::ProofMember,
            },
            Self::TransactionType { .. } => Check::TransactionType,
            Self::BlockHash { .. } => Check::BlockHash,
            Self::AnotherBlock { .. } => Check::AnotherBlock,
            Self::Count { .. } => Check::Count,
            Self::Header(error) => check_of_header(error),
            Self::BlobGasPrice { .. } => Check::BlobGasPrice,
            Self::Proof(_) => Check::Proof,
            Self::CodeHash { .. } => Check::CodeHash,
            Self::AccessListHash { .. } => Check::AccessListHash,
        }
    }

    /// The check's label in the metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        self.check().label()
    }
}

const fn check_of_header(error: &VerifyError) -> Check {
    match error {
        VerifyError::TransactionsRoot { .. } => Check::TransactionsRoot,
        VerifyError::DuplicateTransaction { .. } => Check::DuplicateTransaction,
        VerifyError::OmmersHash { .. } => Check::OmmersHash,
        VerifyError::WithdrawalsRoot { .. } => Check::WithdrawalsRoot,
        VerifyError::BlobGasUsed { .. } => Check::BlobGasUsed,
        VerifyError::GasUsed { .. } => Check::GasUsed,
        VerifyError::ReceiptsRoot { .. } => Check::ReceiptsRoot,
        VerifyError::LogsBloom { .. } => Check::LogsBloom,
        VerifyError::Signature { .. } => Check::Signature,
        VerifyError::ChainId { .. } => Check::ChainId,
        _ => Check::Header,
    }
}

/// A wrong member and its path; [`Self::of`] adds the answer.
#[derive(Debug)]
pub(crate) struct MemberError {
    path: String,
    flaw: Flaw,
}

impl MemberError {
    pub(crate) const fn new(flaw: Flaw) -> Self {
        let path = String::new();
        Self { path, flaw }
    }

    pub(crate) const fn shape(expected: &'static str) -> Self {
        Self::new(Flaw::Shape { expected })
    }

    pub(crate) fn differs(stated: impl fmt::Display, derived: impl fmt::Display) -> Self {
        let (stated, derived) = (cut(&stated.to_string()), cut(&derived.to_string()));
        Self::new(Flaw::Differs { stated, derived })
    }

    /// The same error, seen from the object that has this member.
    pub(crate) fn in_member(mut self, name: &str) -> Self {
        let separator = match self.path.as_bytes().first() {
            None | Some(b'[') => "",
            Some(_) => ".",
        };
        self.path = format!("{name}{separator}{}", self.path);
        self
    }

    /// The same error, seen from the array that has this item.
    pub(crate) fn in_item(self, index: usize) -> Self {
        self.in_member(&format!("[{index}]"))
    }

    /// The stated and the derived value, if a member of this name differs.
    pub(crate) fn difference_in(&self, name: &str) -> Option<(&str, &str)> {
        match &self.flaw {
            Flaw::Differs { stated, derived } if self.path.rsplit('.').next() == Some(name) => {
                Some((stated, derived))
            }
            _ => None,
        }
    }

    pub(crate) fn of(self, answer: AnswerKind) -> UpstreamFault {
        let Self { path, flaw } = self;
        let path = if path.is_empty() {
            "it".to_owned()
        } else {
            path
        };
        UpstreamFault::Member { answer, path, flaw }
    }
}

/// An answer that is not JSON of its kind, with the parser's message.
pub(crate) fn malformed(answer: AnswerKind, error: &dyn fmt::Display) -> UpstreamFault {
    let error = cut(&error.to_string());
    UpstreamFault::Malformed { answer, error }
}

/// Cuts an upstream's text to what a message repeats.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
