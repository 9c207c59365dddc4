//! The table of all types of transactions, and the envelope that follows from it.

use alloy_consensus::{
    Signed, TransactionEnvelope, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
    transaction::TxHashRef,
};
use alloy_primitives::{Address, B256};
use revm::context::TxEnv;

use super::type_rules::{Inclusion, SenderSource, TypeRules};
use crate::{
    encode::writer::JsonWriter,
    remote::{fault::MemberError, reader::Reader},
};

/// Makes [`Transaction`] and [`TxType`] from the table; their methods call those of [`TypeRules`].
macro_rules! transaction_types {
    ($($(#[$doc:meta])* $name:ident = $id:tt: $type:ty;)*) => {
        /// A transaction as a block carries it.
        #[derive(Clone, Debug, TransactionEnvelope)]
        #[envelope(tx_type_name = TxType, serde_cfg(any()), arbitrary_cfg(any()))]
        pub enum Transaction {
            $($(#[$doc])* #[envelope(ty = $id)] $name($type),)*
        }

        $(impl From<$type> for Transaction {
            fn from(transaction: $type) -> Self {
                Self::$name(transaction)
            }
        })*

        impl TxType {
            /// All types.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            pub(crate) const fn quantities(self) -> &'static [&'static [&'static str]] {
                match self { $(Self::$name => <$type as TypeRules>::QUANTITIES),* }
            }

            pub(crate) const fn omitted(self) -> &'static [&'static str] {
                match self { $(Self::$name => <$type as TypeRules>::OMITTED),* }
            }

            pub(crate) const fn receipt_members(self) -> &'static [&'static str] {
                match self { $(Self::$name => <$type as TypeRules>::RECEIPT_MEMBERS),* }
            }
        }

        impl Transaction {
            pub(super) fn read(tx_type: TxType, tx: Reader<'_, '_>) -> Result<Self, MemberError> {
                match tx_type { $(TxType::$name => <$type>::read(tx).map(Self::$name)),* }
            }

            /// Its type.
            #[must_use]
            pub const fn tx_type(&self) -> TxType {
                match self { $(Self::$name(_) => TxType::$name),* }
            }

            /// Its hash.
            #[must_use]
            pub fn tx_hash(&self) -> &B256 {
                match self { $(Self::$name(tx) => TxHashRef::tx_hash(tx)),* }
            }

            /// Where its sender comes from.
            #[must_use]
            pub fn sender_source(&self) -> SenderSource {
                match self { $(Self::$name(tx) => TypeRules::sender(tx)),* }
            }

            pub(crate) fn tx_env(&self, sender: Address) -> Option<TxEnv> {
                match self { $(Self::$name(tx) => TypeRules::tx_env(tx, sender)),* }
            }

            pub(crate) fn executed_nonce(&self, inclusion: Inclusion<'_>) -> u64 {
                match self { $(Self::$name(tx) => TypeRules::executed_nonce(tx, inclusion)),* }
            }

            pub(super) fn write_fees(&self, w: &mut JsonWriter) {
                match self { $(Self::$name(tx) => TypeRules::write_fees(tx, w)),* }
            }

            pub(super) fn write_own(&self, w: &mut JsonWriter, inclusion: Inclusion<'_>) {
                match self { $(Self::$name(tx) => TypeRules::write_own(tx, w, inclusion)),* }
            }

            pub(super) fn own_size_hint(&self) -> usize {
                match self { $(Self::$name(tx) => TypeRules::size_hint(tx)),* }
            }

            pub(crate) fn receipt_quantities(
                &self,
                inclusion: Inclusion<'_>,
            ) -> Vec<(&'static str, u128)> {
                match self { $(Self::$name(tx) => TypeRules::receipt_quantities(tx, inclusion)),* }
            }
        }
    };
}

transaction_types! {
    /// From before typed transactions (EIP-2718).
    Legacy = 0: Signed<TxLegacy>;
    /// With an access list.
    Eip2930 = 1: Signed<TxEip2930>;
    /// With a tip and a maximum fee.
    Eip1559 = 2: Signed<TxEip1559>;
    /// With blobs, which a block does not carry.
    Eip4844 = 3: Signed<TxEip4844>;
    /// With authorizations.
    Eip7702 = 4: Signed<TxEip7702>;
}
