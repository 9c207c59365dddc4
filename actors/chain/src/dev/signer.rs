//! Accounts that have keys: they sign transactions and authorizations.

use alloy_consensus::{
    EthereumTxEnvelope, SignableTransaction, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
    transaction::Recovered,
};
use alloy_eips::{
    eip2930::AccessList,
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use secp256k1::{Message, Secp256k1, SecretKey, SignOnly};

use super::random::digest;
use crate::block::Transaction;

/// The keys of a dev chain.
///
/// The secret key of account `index` is keccak256("nearhead dev signer" ‖ seed ‖ index), both numbers as 8 bytes,
/// big-endian. Signatures are deterministic (RFC 6979).
pub(super) struct Signers {
    secp: Secp256k1<SignOnly>,
    signers: Vec<Signer>,
    chain_id: u64,
}

struct Signer {
    address: Address,
    secret: SecretKey,
}

/// What a transaction does, whatever its type.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) to: TxKind,
    pub(super) value: U256,
    pub(super) input: Bytes,
    pub(super) gas_limit: u64,
}

/// The type that a transaction travels as, with what only that type has.
#[derive(Clone, Debug)]
pub(super) enum Envelope {
    /// Without a chain id (before EIP-155).
    Unprotected,
    /// Legacy with a chain id (EIP-155).
    Legacy,
    /// Type 1.
    Eip2930(AccessList),
    /// Type 2.
    Eip1559(AccessList),
    /// Type 3, without its blobs.
    Eip4844(Vec<B256>),
    /// Type 4.
    Eip7702(Vec<SignedAuthorization>),
}

/// What the block that a transaction is made for costs, and what the transaction offers on top; in wei.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fees {
    /// Base fee of the block.
    pub(super) base: u128,
    /// Price of a unit of blob gas in the block.
    pub(super) blob: u128,
    /// Tip.
    pub(super) tip: u128,
}

impl Signers {
    /// Derives `count` keys.
    pub(super) fn derive(seed: u64, count: u64, chain_id: u64) -> Result<Self, secp256k1::Error> {
        let secp = Secp256k1::signing_only();
        let signers = (0..count)
            .map(|index| {
                let secret = SecretKey::from_byte_array(digest("signer", &[seed, index]).0)?;
                let public = secret.public_key(&secp).serialize_uncompressed();
                let address = Address::from_slice(&keccak256(&public[1..])[12..]);
                Ok(Signer { address, secret })
            })
            .collect::<Result<_, secp256k1::Error>>()?;
        Ok(Self {
            secp,
            signers,
            chain_id,
        })
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.signers.len()
    }

    /// The address of signer `index`.
    pub(super) fn address(&self, index: usize) -> Address {
        self.signers[index].address
    }

    /// All addresses in order.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Address> {
        self.signers.iter().map(|signer| signer.address)
    }

    fn signature(&self, index: usize, hash: B256) -> Signature {
        let message = Message::from_digest(hash.0);
        let (recovery, rs) = self
            .secp
            .sign_ecdsa_recoverable(message, &self.signers[index].secret)
            .serialize_compact();
        Signature::from_bytes_and_parity(&rs, i32::from(recovery) & 1 == 1)
    }

    /// Lets `authority` delegate to the code at `delegate` (EIP-7702); zero takes the delegation back.
    pub(super) fn authorize(
        &self,
        authority: usize,
        delegate: Address,
        nonce: u64,
    ) -> SignedAuthorization {
        let authorization = Authorization {
            chain_id: U256::from(self.chain_id),
            address: delegate,
            nonce,
        };
        let signature = self.signature(authority, authorization.signature_hash());
        authorization.into_signed(signature)
    }

    /// Makes and signs a transaction of signer `index`.
    pub(super) fn sign(
        &self,
        index: usize,
        nonce: u64,
        call: Call,
        envelope: Envelope,
        fees: Fees,
    ) -> Recovered<Transaction> {
        let Call {
            to,
            value,
            input,
            gas_limit,
        } = call;
        let chain_id = self.chain_id;
        let gas_price = fees.base + fees.tip;
        // As wallets do: room for six full blocks.
        let max_fee_per_gas = 2 * fees.base + fees.tip;
        let max_priority_fee_per_gas = fees.tip;
        // A type that has no creations; zero is a place as good as any.
        let callee = to.to().copied().unwrap_or_default();
        let transaction: Transaction = match envelope {
            Envelope::Unprotected | Envelope::Legacy => {
                let chain_id = matches!(envelope, Envelope::Legacy).then_some(chain_id);
                self.seal(
                    index,
                    TxLegacy {
                        chain_id,
                        nonce,
                        gas_price,
                        gas_limit,
                        to,
                        value,
                        input,
                    },
                )
            }
            Envelope::Eip2930(access_list) => self.seal(
                index,
                TxEip2930 {
                    chain_id,
                    nonce,
                    gas_price,
                    gas_limit,
                    to,
                    value,
                    access_list,
                    input,
                },
            ),
            Envelope::Eip1559(access_list) => self.seal(
                index,
                TxEip1559 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    to,
                    value,
                    access_list,
                    input,
                },
            ),
            Envelope::Eip4844(blob_versioned_hashes) => self.seal(
                index,
                TxEip4844 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    to: callee,
                    value,
                    access_list: AccessList::default(),
                    blob_versioned_hashes,
                    max_fee_per_blob_gas: 2 * fees.blob,
                    input,
                },
            ),
            Envelope::Eip7702(authorization_list) => self.seal(
                index,
                TxEip7702 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    to: callee,
                    value,
                    access_list: AccessList::default(),
                    authorization_list,
                    input,
                },
            ),
        };
        Recovered::new_unchecked(transaction, self.address(index))
    }

    fn seal<T>(&self, index: usize, transaction: T) -> Transaction
    where
        T: SignableTransaction<Signature>,
        EthereumTxEnvelope<TxEip4844>: From<alloy_consensus::Signed<T>>,
    {
        let signature = self.signature(index, transaction.signature_hash());
        transaction.into_signed(signature).into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloy_consensus::transaction::SignerRecoverable;

    const FEES: Fees = Fees {
        base: 1_000_000_000,
        blob: 1,
        tip: 1,
    };

    fn call() -> Call {
        Call {
            to: TxKind::Call(Address::repeat_byte(1)),
            value: U256::from(1),
            input: Bytes::new(),
            gas_limit: 21_000,
        }
    }

    #[test]
    fn senders_of_all_types_can_be_recovered() {
        let signers = Signers::derive(1, 3, 1337).unwrap();
        let authorization = signers.authorize(2, Address::repeat_byte(2), 5);
        assert_eq!(
            authorization.recover_authority().unwrap(),
            signers.address(2)
        );
        for (kind, envelope) in [
            (0, Envelope::Unprotected),
            (0, Envelope::Legacy),
            (1, Envelope::Eip2930(AccessList::default())),
            (2, Envelope::Eip1559(AccessList::default())),
            (3, Envelope::Eip4844(vec![B256::ZERO])),
            (4, Envelope::Eip7702(vec![authorization])),
        ] {
            let signed = signers.sign(1, 9, call(), envelope, FEES);
            assert_eq!(signed.signer(), signers.address(1));
            assert_eq!(signed.recover_signer().unwrap(), signers.address(1));
            assert_eq!(u8::from(signed.tx_type()), kind);
        }
    }

    #[test]
    fn keys_and_signatures_follow_the_seed() {
        let sign = |seed| {
            let signers = Signers::derive(seed, 1, 1337).unwrap();
            *signers.sign(0, 0, call(), Envelope::Legacy, FEES).tx_hash()
        };
        assert_eq!(sign(1), sign(1));
        assert_ne!(sign(1), sign(2));
    }
}
