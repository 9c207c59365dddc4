//! Accounts that have keys, and sign transactions and authorizations.

use alloy_consensus::transaction::Recovered;
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Signature, U256, keccak256};
use secp256k1::{Message, Secp256k1, SecretKey, SignOnly};

use super::{
    random::digest,
    unsigned::{Fees, TransactionCall, TransactionKind, Unsigned},
};
use crate::block::Transaction;

/// The keys of a dev chain.
///
/// The secret key of account `index` is keccak256("nearhead dev signer" ‖ seed ‖ index), both
/// numbers as 8 bytes, big-endian. Signatures are deterministic (RFC 6979).
pub(super) struct Signers {
    secp: Secp256k1<SignOnly>,
    signers: Vec<Signer>,
    chain_id: u64,
}

struct Signer {
    address: Address,
    secret: SecretKey,
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

    /// Signs an authorization that makes `authority` delegate to the code at `delegate` (EIP-7702);
    /// the zero address removes the delegation.
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
        call: TransactionCall,
        kind: TransactionKind,
        fees: Fees,
    ) -> Recovered<Transaction> {
        let unsigned = Unsigned {
            chain_id: self.chain_id,
            nonce,
            call,
            fees,
        };
        let signed = unsigned.sign(kind, |hash| self.signature(index, hash));
        Recovered::new_unchecked(signed, self.address(index))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloy_eips::eip2930::AccessList;
    use alloy_primitives::{Bytes, TxKind};

    const FEES: Fees = Fees {
        base: 1_000_000_000,
        blob: 1,
        tip: 1,
    };

    fn call() -> TransactionCall {
        TransactionCall {
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
        for (expected, kind) in [
            (0, TransactionKind::Unprotected),
            (0, TransactionKind::Legacy),
            (1, TransactionKind::Eip2930(AccessList::default())),
            (2, TransactionKind::Eip1559(AccessList::default())),
            (3, TransactionKind::Eip4844(vec![B256::ZERO])),
            (4, TransactionKind::Eip7702(vec![authorization])),
        ] {
            let signed = signers.sign(1, 9, call(), kind, FEES);
            assert_eq!(signed.signer(), signers.address(1));
            let recovered = signed.sender_source().address();
            assert_eq!(recovered, Some(signers.address(1)));
            assert_eq!(u8::from(signed.tx_type()), expected);
        }
    }

    #[test]
    fn keys_and_signatures_follow_the_seed() {
        let sign = |seed| {
            let signers = Signers::derive(seed, 1, 1337).unwrap();
            *signers
                .sign(0, 0, call(), TransactionKind::Legacy, FEES)
                .tx_hash()
        };
        assert_eq!(sign(1), sign(1));
        assert_ne!(sign(1), sign(2));
    }
}
