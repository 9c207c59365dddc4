//! Signs transactions of every type, in the form in which they are sent.

use alloy_consensus::{SignableTransaction, Signed};
use alloy_eips::{
    Encodable2718,
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B256, Bytes, FixedBytes, Signature, keccak256};
use alloy_rlp::Encodable;
use nearhead_chain::block::Transaction;
use secp256k1::{Message, Secp256k1, SecretKey};

/// An account and its secret key.
#[derive(Clone)]
pub(crate) struct Wallet {
    secret: SecretKey,
    pub(crate) address: Address,
}

impl Wallet {
    /// Sender number `index` of the dev chain with this seed; the derivation is part of that
    /// chain's documentation.
    pub(crate) fn of_dev_chain(seed: u64, index: u64) -> Self {
        let mut preimage = b"nearhead dev signer".to_vec();
        preimage.extend(seed.to_be_bytes());
        preimage.extend(index.to_be_bytes());
        Self::of(keccak256(preimage))
    }

    /// The account of this secret key.
    pub(crate) fn of(secret: B256) -> Self {
        let secret = SecretKey::from_byte_array(secret.0).unwrap();
        let public = secret
            .public_key(&Secp256k1::new())
            .serialize_uncompressed();
        let address = Address::from_slice(&keccak256(&public[1..])[12..]);
        Self { secret, address }
    }

    /// Signs a transaction. One of type 3 gets empty blobs, so its versioned hashes must all be
    /// [`EMPTY_BLOB`].
    pub(crate) fn sign<T: SignableTransaction<Signature>>(&self, transaction: T) -> Bytes
    where
        Transaction: From<Signed<T>>,
    {
        let signature = self.signature(transaction.signature_hash());
        with_blobs(&transaction.into_signed(signature).into())
    }

    /// Signs the delegation of this account to the code of another one (EIP-7702).
    pub(crate) fn authorize(&self, authorization: Authorization) -> SignedAuthorization {
        let signature = self.signature(authorization.signature_hash());
        authorization.into_signed(signature)
    }

    fn signature(&self, hash: B256) -> Signature {
        let (recovery, rs) = Secp256k1::new()
            .sign_ecdsa_recoverable(Message::from_digest(hash.0), &self.secret)
            .serialize_compact();
        let signature = Signature::from_bytes_and_parity(&rs, i32::from(recovery) & 1 == 1);
        debug_assert_eq!(
            signature.recover_address_from_prehash(&hash).ok(),
            Some(self.address)
        );
        signature
    }
}

/// The versioned hash of a blob of zeros, whose commitment is the point at infinity, so that none
/// has to be computed.
pub(crate) const EMPTY_BLOB: B256 = B256::new(alloy_primitives::hex!(
    "010657f37554c781402a22917dee2f75def7ab966d7b770905398eba3c444014"
));

/// Bytes of a blob, and cells of its extension (EIP-7594).
const BLOB_BYTES: usize = 4096 * 32;
const CELLS: usize = 128;

/// A transaction as it is sent: one of type 3 carries blobs, commitments and proofs.
fn with_blobs(transaction: &Transaction) -> Bytes {
    let encoded = transaction.encoded_2718();
    let Transaction::Eip4844(signed) = transaction else {
        return encoded.into();
    };
    let blobs = signed.tx().blob_versioned_hashes.len();
    // Commitment and proof of the zero polynomial: the point at infinity, compressed.
    let mut infinity = FixedBytes::<48>::ZERO;
    infinity[0] = 0xc0;
    let mut payload = encoded[1..].to_vec();
    1_u8.encode(&mut payload);
    vec![Bytes::from(vec![0; BLOB_BYTES]); blobs].encode(&mut payload);
    vec![infinity; blobs].encode(&mut payload);
    vec![infinity; blobs * CELLS].encode(&mut payload);
    let mut sent = vec![encoded[0]];
    let header = alloy_rlp::Header {
        list: true,
        payload_length: payload.len(),
    };
    header.encode(&mut sent);
    sent.extend(payload);
    sent.into()
}

#[cfg(test)]
mod tests {
    use alloy_consensus::{TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy};
    use alloy_primitives::{TxKind, U256};
    use serde_json::json;

    use super::*;
    use crate::{
        harness::check,
        upstreams::{Anvil, anvil::FIRST_KEY},
    };

    #[test]
    fn anvil_takes_every_type() {
        let mut anvil = Anvil::start(&["--no-mining", "--chain-id", "31337"]);
        let (chain_id, gas_limit, fee) = (31337, 100_000, 10_000_000_000);
        let (wallet, other) = (Wallet::of(FIRST_KEY), Wallet::of_dev_chain(0, 0));
        let (to, value) = (other.address, U256::from(1));
        let authorization = other.authorize(Authorization {
            chain_id: U256::from(chain_id),
            address: Address::repeat_byte(1),
            nonce: 0,
        });
        let legacy = TxLegacy {
            chain_id: Some(chain_id),
            gas_price: fee,
            gas_limit,
            to: TxKind::Call(to),
            value,
            ..TxLegacy::default()
        };
        let eip2930 = TxEip2930 {
            chain_id,
            nonce: 1,
            gas_price: fee,
            gas_limit,
            to: TxKind::Call(to),
            ..TxEip2930::default()
        };
        let eip1559 = TxEip1559 {
            chain_id,
            nonce: 2,
            gas_limit,
            max_fee_per_gas: fee,
            to: TxKind::Create,
            ..TxEip1559::default()
        };
        let eip4844 = TxEip4844 {
            chain_id,
            nonce: 3,
            gas_limit,
            max_fee_per_gas: fee,
            to,
            max_fee_per_blob_gas: fee,
            blob_versioned_hashes: vec![EMPTY_BLOB; 2],
            ..TxEip4844::default()
        };
        let eip7702 = TxEip7702 {
            chain_id,
            nonce: 4,
            gas_limit,
            max_fee_per_gas: fee,
            to,
            authorization_list: vec![authorization],
            ..TxEip7702::default()
        };
        let signed = [
            wallet.sign(legacy),
            wallet.sign(eip2930),
            wallet.sign(eip1559),
            wallet.sign(eip4844),
            wallet.sign(eip7702),
        ];
        let hashes = signed.map(|raw| anvil.send(&raw));
        anvil.mine(1);
        let block = anvil.call("eth_getBlockByNumber", json!(["latest", true]));
        for (kind, hash) in hashes.iter().enumerate() {
            let transaction = &block["transactions"][kind];
            check("hash", &transaction["hash"], &json!(hash));
            check("type", &transaction["type"], &json!(format!("{kind:#x}")));
            check("sender", &transaction["from"], &json!(wallet.address));
        }
        check("blobs", &block["blobGasUsed"], &json!("0x40000"));
        let code = anvil.call("eth_getCode", json!([other.address, "latest"]));
        let delegated = "0xef01000101010101010101010101010101010101010101";
        check("delegation", &code, &json!(delegated));
    }
}
