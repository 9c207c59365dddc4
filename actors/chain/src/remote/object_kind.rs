//! The objects of an answer, and how each member of them is compared.

use std::sync::LazyLock;

use super::{json::Value, reader::u8};
use crate::network::{TxType, header, receipt, transaction};

/// The kind of an object in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Block,
    Ommer,
    Transaction,
    Withdrawal,
    Receipt,
    Log,
    /// An item of an access list or of an authorization list.
    Part,
}

impl ObjectKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Ommer => "ommer",
            Self::Transaction => "transaction",
            Self::Withdrawal => "withdrawal",
            Self::Receipt => "receipt",
            Self::Log => "log",
            Self::Part => "part",
        }
    }

    /// The kind of the objects in the member `name`.
    pub(super) fn below(self, name: &str) -> Self {
        match (self, name) {
            (Self::Block, "transactions") => Self::Transaction,
            (Self::Block, "withdrawals") => Self::Withdrawal,
            (Self::Receipt, "logs") => Self::Log,
            _ => Self::Part,
        }
    }

    /// Whether no hash covers the member: it is taken from the upstream, or not served at all.
    pub(super) fn is_uncovered(self, name: &str) -> bool {
        matches!(self, Self::Block | Self::Ommer) && name == UNCOVERED
    }

    /// Whether some clients rightly leave the member out or send null. The served value is derived.
    pub(super) fn may_be_absent(self, name: &str, derived: &[(&str, Value<'_>)]) -> bool {
        let is = |member: &str, text: &str| {
            let found = derived.iter().find(|(name, _)| *name == member);
            found.is_some_and(|(_, value)| *value == Value::Text(text))
        };
        match (self, name) {
            (Self::Block | Self::Ommer, "size")
            // An ommer has no ommers.
            | (Self::Ommer, "uncles")
            | (Self::Transaction | Self::Log, "blockTimestamp") => true,
            (Self::Transaction, name) => {
                tx_type(derived).is_some_and(|tx_type| tx_type.omitted().contains(&name))
            }
            // Some clients state no address for a failed creation.
            (Self::Receipt, "contractAddress") => is("status", "0x0"),
            _ => false,
        }
    }
}

/// The type of a transaction, from its derived members.
fn tx_type(derived: &[(&str, Value<'_>)]) -> Option<TxType> {
    let (_, value) = derived.iter().find(|(name, _)| *name == "type")?;
    TxType::try_from(u8(value).ok()?).ok()
}

/// Names of the members that hold a number, which is compared by value. All other text is data.
static QUANTITIES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    // Of a block beside its header, of withdrawals and of logs.
    const OTHERS: &[&str] = &[
        "amount",
        "blockNumber",
        "blockTimestamp",
        "index",
        "logIndex",
        "size",
        "transactionIndex",
        "validatorIndex",
    ];
    let mut names: Vec<_> = header::quantities().collect();
    names.extend([OTHERS, transaction::QUANTITIES, receipt::QUANTITIES].concat());
    for tx_type in TxType::ALL {
        names.extend(tx_type.quantities().concat());
        names.extend(tx_type.receipt_members());
    }
    names.sort_unstable();
    names.dedup();
    names
});

/// The member of a block and of an ommer that no hash covers.
pub(super) const UNCOVERED: &str = "totalDifficulty";

/// Whether a member of this name holds a number.
pub(super) fn is_quantity(name: &str) -> bool {
    QUANTITIES.binary_search(&name).is_ok()
}
