//! What the type of a transaction decides.

use alloy_consensus::{Transaction, transaction::TxHashRef};
use alloy_primitives::{Address, B256, Signature};
use revm::context::TxEnv;

use crate::{
    encode::writer::JsonWriter,
    remote::{fault::MemberError, reader::Reader},
};

/// What the type of a transaction decides. A type states what differs from the defaults, in a file
/// of its own; its line in the table of `envelope` makes it known.
pub(crate) trait TypeRules: Transaction + TxHashRef + Sized {
    /// Names of the type's own members that hold a number, in the transaction and in its receipt.
    const QUANTITIES: &'static [&'static [&'static str]];

    /// Names of members that some clients rightly leave out or send as null. The served ones are
    /// derived.
    const OMITTED: &'static [&'static str] = &[];

    /// Names of the numbers of 64 bits that follow the logs in the RLP of the receipt. The last
    /// ones may be absent.
    const RECEIPT_MEMBERS: &'static [&'static str] = &[];

    /// Reads the members that the transaction's hash covers.
    fn read(tx: Reader<'_, '_>) -> Result<Self, MemberError>;

    /// Where the sender comes from.
    fn sender(&self) -> SenderSource;

    /// The transaction as the EVM takes it; `None` if the type cannot be executed.
    fn tx_env(&self, sender: Address) -> Option<TxEnv>;

    /// The nonce with which it was executed.
    fn executed_nonce(&self, _inclusion: Inclusion<'_>) -> u64 {
        self.nonce()
    }

    /// Writes the members about fees that follow `gasPrice`.
    fn write_fees(&self, w: &mut JsonWriter) {
        if let Some(tip) = self.max_priority_fee_per_gas() {
            w.raw(r#","maxFeePerGas":"#).wide(self.max_fee_per_gas());
            w.raw(r#","maxPriorityFeePerGas":"#).wide(tip);
        }
    }

    /// Writes the members that follow `type`.
    fn write_own(&self, w: &mut JsonWriter, inclusion: Inclusion<'_>);

    /// Upper bound on the bytes of lists and of other members that not every type has.
    fn size_hint(&self) -> usize {
        0
    }

    /// The numbers that the type adds to the JSON of its receipt, by name.
    fn receipt_quantities(&self, inclusion: Inclusion<'_>) -> Vec<(&'static str, u128)> {
        let values = inclusion.receipt_members.iter().copied().map(u128::from);
        Self::RECEIPT_MEMBERS.iter().copied().zip(values).collect()
    }
}

/// The members that the default of [`TypeRules::write_fees`] writes.
pub(super) const FEES: &[&str] = &["maxFeePerGas", "maxPriorityFeePerGas"];

/// What a block adds to a transaction that it includes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inclusion<'a> {
    /// Price of a unit of blob gas in wei (EIP-4844).
    pub(crate) blob_gas_price: Option<u128>,
    /// The values of [`TypeRules::RECEIPT_MEMBERS`].
    pub(crate) receipt_members: &'a [u64],
}

/// Where the sender of a transaction comes from.
#[derive(Clone, Copy, Debug)]
pub enum SenderSource {
    /// Its key signed `hash`.
    Signature {
        /// The signature.
        signature: Signature,
        /// What was signed.
        hash: B256,
    },
    /// The transaction states it, and its hash covers it.
    Stated(Address),
}
