//! The objects of an answer, and how each member of them is compared.

use std::sync::LazyLock;

use super::json::Value;
use crate::network::header;

/// The kind of an object in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Block,
    Ommer,
    Transaction,
    Withdrawal,
    Receipt,
    Log,
    /// An item of an access list, an authorization.
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
            // Each implies the other; a transaction without both was refused before.
            (Self::Transaction, "v" | "yParity") => !is("type", "0x0"),
            // `v` implies it.
            (Self::Transaction, "chainId") => is("type", "0x0"),
            // Some clients state no address for a failed creation.
            (Self::Receipt, "contractAddress") => is("status", "0x0"),
            _ => false,
        }
    }
}

/// Members that hold a number, by name: compared by value. All other text is data.
static QUANTITIES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    const OTHERS: [&str; 25] = [
        "amount",
        "blobGasPrice",
        "blockNumber",
        "blockTimestamp",
        "chainId",
        "cumulativeGasUsed",
        "effectiveGasPrice",
        "gas",
        "gasPrice",
        "index",
        "logIndex",
        "maxFeePerBlobGas",
        "maxFeePerGas",
        "maxPriorityFeePerGas",
        "nonce",
        "r",
        "s",
        "size",
        "status",
        "transactionIndex",
        "type",
        "v",
        "validatorIndex",
        "value",
        "yParity",
    ];
    let mut names: Vec<_> = header::quantities().chain(OTHERS).collect();
    names.sort_unstable();
    names
});

/// The member of a block and of an ommer that no hash covers.
pub(super) const UNCOVERED: &str = "totalDifficulty";

/// Whether a member of this name holds a number.
pub(super) fn is_quantity(name: &str) -> bool {
    QUANTITIES.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_in_order() {
        assert!(QUANTITIES.is_sorted(), "they are searched by halves");
    }
}
