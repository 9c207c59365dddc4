//! Transactions of every type, and what is wrong with those that are refused.
#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_consensus::{
    SignableTransaction, Signed, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
};
use alloy_eips::eip7702::Authorization;
use alloy_primitives::{Address, Bytes, FixedBytes, Signature, TxKind, U256, b256, hex};
use alloy_rlp::Encodable;
use proptest::prelude::*;
use secp256k1::{Message, Secp256k1, SecretKey};

use super::*;

const CHAIN_ID: u64 = 0x000c_72dd_9d5e_883e;

/// Vectors of ethereum/execution-apis (tests/eth_sendRawTransaction): what is sent, and its hash.
const VECTORS: [(&[u8], B256); 4] = [
    (
        &hex!(
            "01f8cc870c72dd9d5e883e028401a2158b83015f90947dcd17433742f4c0ca53122ab541d0ba67fc27df808301"
            "0203f85bf859947dcd17433742f4c0ca53122ab541d0ba67fc27dff842a0000000000000000000000000000000"
            "0000000000000000000000000000000000a0010000000000000000000000000000000000000000000000000000"
            "000000000080a077c7fff2b3316a4a0b112a12eed09f6f10d31f3f4600a882301970ecb8451644a02e2136e1c2"
            "c3244ad1dfd367c11de1c288faba87991a8866b3fbbbda6033fa0b"
        ),
        b256!("0x2a47fd29365246f5bc1ba9209d2f8c27ba501f78a2e697d470448ddf799a98d4"),
    ),
    (
        &hex!(
            "02f8d0870c72dd9d5e883e038201f48401a2158b83013880947dcd17433742f4c0ca53122ab541d0ba67fc27df"
            "808401020304f85bf859947dcd17433742f4c0ca53122ab541d0ba67fc27dff842a00000000000000000000000"
            "000000000000000000000000000000000000000000a00100000000000000000000000000000000000000000000"
            "00000000000000000001a013441f796609349cf843b8a0b4f7eee7f898657a28aa226c8db3383a4ad87c34a07e"
            "dae97fbc1f2bcd8e62967b2568bbafe7577ff279d24f89dff6d75336246956"
        ),
        b256!("0x8b63a0e2744c3c93a84d0c3ac637855d182db2aa46ea39e7bfa5df54ac98b72c"),
    ),
    (
        &hex!(
            "02f892870c72dd9d5e883e018201f48401a2158b82ea60802ab73d602d80600a3d3981f3363d3d373d3d3d363d"
            "734d11c446473105a02b5c1ab9ebe9b03f33902a295af43d82803e903d91602b57fd5bf3c080a09e9f032e932e"
            "6536bc8de35b5939814d5fe2c1bcb76f06e399583c8c745ea95fa04fae7d7df659a70471ddfed6dba493a4f044"
            "a074a0bba6198bb6e2be0977b299"
        ),
        b256!("0x549cfaca862ca59157260fbe13b7ecf5cc353eb22632d10efbe5cca743871ef3"),
    ),
    (
        &hex!(
            "f86c808401a213988261a894aa000000000000000000000000000000000000000a8255448718e5bb3abd109fa0"
            "73fbe7ff7e74339e7cc61fb3cb3f7630cd3f1d5fef653d7297654b2d22894daea042a188d30f35f19408c73c80"
            "3bc1e9e17ce129c457e31fd2a368b54507af2f4c"
        ),
        b256!("0xb55b6dfd4ba0bb2b00283b0e84cda496c90bc7c5ae9025e07edc3a7fbaf6a269"),
    ),
];

#[test]
fn vectors_have_their_hashes() {
    for (sent, hash) in VECTORS {
        assert_eq!(check(sent, CHAIN_ID), Ok(hash));
        let other = SubmissionError::ChainId {
            found: CHAIN_ID,
            expected: 1,
        };
        assert_eq!(check(sent, 1), Err(other));
    }
}

fn signature(hash: B256) -> Signature {
    let secret = SecretKey::from_byte_array([7; 32]).unwrap();
    let (recovery, rs) = Secp256k1::new()
        .sign_ecdsa_recoverable(Message::from_digest(hash.0), &secret)
        .serialize_compact();
    Signature::from_bytes_and_parity(&rs, i32::from(recovery) & 1 == 1)
}

/// What a block would carry of this transaction, once it is signed.
fn signed<T: SignableTransaction<Signature>>(transaction: T) -> Vec<u8>
where
    Transaction: From<Signed<T>>,
{
    let signature = signature(transaction.signature_hash());
    Transaction::from(transaction.into_signed(signature)).encoded_2718()
}

fn legacy(chain_id: Option<u64>, input: usize) -> TxLegacy {
    TxLegacy {
        chain_id,
        gas_price: 7,
        gas_limit: 21_000,
        to: TxKind::Call(Address::repeat_byte(1)),
        value: U256::ONE,
        input: Bytes::from(vec![0; input]),
        ..TxLegacy::default()
    }
}

/// A sidecar of as many commitments as hashes; the first byte of each is its position.
struct Sent {
    hashes: Vec<B256>,
    version: Option<u8>,
    blobs: Vec<Bytes>,
    commitments: Vec<Bytes>,
    proofs: usize,
    more: bool,
}

impl Sent {
    fn of(blobs: usize, version: Option<u8>) -> Self {
        let commitments = (0..blobs).map(|at| Bytes::from(vec![at as u8; POINT]));
        let commitments: Vec<_> = commitments.collect();
        let hash = |commitment: &Bytes| {
            // Another implementation of SHA-256 than the one under test: the precompile's.
            let digest = revm::precompile::hash::sha256_run(commitment, 1_000);
            let mut hash = B256::from_slice(&digest.unwrap().bytes);
            hash[0] = 1;
            hash
        };
        Self {
            hashes: commitments.iter().map(hash).collect(),
            version,
            blobs: vec![Bytes::from(vec![0; 131_072]); blobs],
            commitments,
            proofs: blobs * if version.is_some() { 128 } else { 1 },
            more: false,
        }
    }

    /// The transaction alone, and as it is sent.
    fn encode(&self) -> [Vec<u8>; 2] {
        let alone = signed(TxEip4844 {
            chain_id: CHAIN_ID,
            gas_limit: 21_000,
            blob_versioned_hashes: self.hashes.clone(),
            max_fee_per_blob_gas: 1,
            ..TxEip4844::default()
        });
        let mut payload = alone[1..].to_vec();
        if let Some(version) = self.version {
            version.encode(&mut payload);
        }
        self.blobs.encode(&mut payload);
        self.commitments.encode(&mut payload);
        vec![FixedBytes::<48>::ZERO; self.proofs].encode(&mut payload);
        if self.more {
            7_u8.encode(&mut payload);
        }
        let mut sent = vec![3];
        let header = alloy_rlp::Header {
            list: true,
            payload_length: payload.len(),
        };
        header.encode(&mut sent);
        sent.extend(payload);
        [alone, sent]
    }
}

const POINT: usize = 48;

#[test]
fn every_type_is_known() {
    let authorization = Authorization {
        chain_id: U256::from(CHAIN_ID),
        address: Address::repeat_byte(2),
        nonce: 3,
    };
    let by = signature(authorization.signature_hash());
    let (chain_id, gas_limit) = (CHAIN_ID, 50_000);
    let sent = [
        signed(legacy(Some(CHAIN_ID), 3)),
        signed(TxEip2930 {
            chain_id,
            gas_limit,
            ..TxEip2930::default()
        }),
        signed(TxEip1559 {
            chain_id,
            gas_limit,
            ..TxEip1559::default()
        }),
        signed(TxEip7702 {
            chain_id,
            gas_limit,
            authorization_list: vec![authorization.into_signed(by)],
            ..TxEip7702::default()
        }),
    ];
    for sent in sent {
        assert_eq!(check(&sent, CHAIN_ID), Ok(keccak256(&sent)), "{}", sent[0]);
    }
    // The hash does not cover the blobs, which a block does not carry.
    for (blobs, version) in [(1, None), (1, Some(1)), (2, None), (6, None), (6, Some(1))] {
        let [alone, sent] = Sent::of(blobs, version).encode();
        let found = check(&sent, CHAIN_ID);
        assert_eq!(found, Ok(keccak256(alone)), "{blobs} {version:?}");
    }
}

#[test]
fn what_no_node_takes_is_refused() {
    use SubmissionError as Error;
    let rlp = |error| Err(Error::Rlp(error));
    let [alone, with_blobs] = Sent::of(1, Some(1)).encode();
    let blobs = |change: fn(&mut Sent)| {
        let mut sent = Sent::of(2, Some(1));
        change(&mut sent);
        let [_, sent] = sent.encode();
        sent
    };
    let malleable = {
        let unsigned = legacy(Some(CHAIN_ID), 0);
        let low = signature(unsigned.signature_hash());
        let order = SECP256K1N_HALF * U256::from(2) + U256::ONE;
        let high = Signature::new(low.r(), order - low.s(), !low.v());
        Transaction::from(unsigned.into_signed(high)).encoded_2718()
    };
    let by_nobody = {
        let nothing = Signature::new(U256::ZERO, U256::ZERO, false);
        Transaction::from(legacy(Some(CHAIN_ID), 0).into_signed(nothing)).encoded_2718()
    };
    let valid = signed(legacy(Some(CHAIN_ID), 0));
    let of_bytes = |size: usize| {
        let rest = signed(legacy(Some(CHAIN_ID), 120_000)).len() - 120_000;
        signed(legacy(Some(CHAIN_ID), size - rest))
    };
    let too_large = |size, limit| Err(Error::TooLarge { size, limit });
    let hash = Sent::of(1, None).hashes[0];
    let cases: [(&str, Vec<u8>, Result<(), Error>); 29] = [
        ("nothing", vec![], Err(Error::TooShort)),
        ("a type", vec![2], Err(Error::TooShort)),
        ("no type", vec![0], Err(Error::TooShort)),
        (
            "type 0",
            [&[0], &valid[..]].concat(),
            Err(Error::UnknownType),
        ),
        (
            "type 5",
            [&[5], &valid[..]].concat(),
            Err(Error::UnknownType),
        ),
        ("type 0x7e", vec![0x7e, 0xc0], Err(Error::UnknownType)),
        (
            "text",
            b"\x80".to_vec(),
            rlp(alloy_rlp::Error::UnexpectedString),
        ),
        (
            "a string",
            vec![0x83, 1, 2, 3],
            rlp(alloy_rlp::Error::UnexpectedString),
        ),
        (
            "an empty list",
            vec![0xc0],
            rlp(alloy_rlp::Error::InputTooShort),
        ),
        (
            "cut",
            valid[..valid.len() - 1].to_vec(),
            rlp(alloy_rlp::Error::InputTooShort),
        ),
        (
            "a byte more",
            [&valid[..], &[0]].concat(),
            Err(Error::TrailingBytes),
        ),
        (
            "twice",
            [&valid[..], &valid].concat(),
            Err(Error::TrailingBytes),
        ),
        (
            "without a chain",
            signed(legacy(None, 0)),
            Err(Error::Unprotected),
        ),
        (
            "another chain",
            signed(legacy(Some(1), 0)),
            Err(Error::ChainId {
                found: 1,
                expected: CHAIN_ID,
            }),
        ),
        ("malleable", malleable, Err(Error::Signature)),
        ("by nobody", by_nobody, Err(Error::Signature)),
        (
            "as large as may be",
            of_bytes(TRANSACTION_BYTES_MAX),
            Ok(()),
        ),
        (
            "too large",
            of_bytes(TRANSACTION_BYTES_MAX + 1),
            too_large(TRANSACTION_BYTES_MAX + 1, TRANSACTION_BYTES_MAX),
        ),
        (
            "too many blobs",
            Sent::of(8, None).encode()[1].clone(),
            too_large(
                Sent::of(8, None).encode()[1].len(),
                BLOB_TRANSACTION_BYTES_MAX,
            ),
        ),
        ("without its blobs", alone, Err(Error::NoSidecar)),
        ("blobs", with_blobs.clone(), Ok(())),
        (
            "blobs and a byte",
            [&with_blobs[..], &[0]].concat(),
            Err(Error::TrailingBytes),
        ),
        (
            "version 2",
            blobs(|sent| sent.version = Some(2)),
            Err(Error::SidecarVersion(2)),
        ),
        (
            "a blob less",
            blobs(|sent| drop(sent.blobs.pop())),
            Err(Error::BlobCount {
                blobs: 1,
                hashes: 2,
            }),
        ),
        (
            "a commitment less",
            blobs(|sent| drop(sent.commitments.pop())),
            Err(Error::CommitmentCount {
                commitments: 1,
                blobs: 2,
            }),
        ),
        (
            "a proof more",
            blobs(|sent| sent.proofs += 1),
            Err(Error::ProofCount {
                proofs: 257,
                expected: 256,
            }),
        ),
        (
            "no blob",
            Sent::of(0, Some(1)).encode()[1].clone(),
            Err(Error::NoBlobs),
        ),
        (
            "another commitment",
            blobs(|sent| sent.hashes.swap(0, 1)),
            Err(Error::BlobHash {
                index: 0,
                computed: hash,
                stated: Sent::of(2, None).hashes[1],
            }),
        ),
        (
            "an item more",
            blobs(|sent| sent.more = true),
            rlp(alloy_rlp::Error::UnexpectedLength),
        ),
    ];
    for (case, sent, expected) in cases {
        assert_eq!(check(&sent, CHAIN_ID).map(|_| ()), expected, "{case}");
    }
}

/// A chain id of more than 64 bits is not cut to ours.
#[test]
fn a_wide_chain_id_is_another_one() {
    for high_bits in [0, 1] {
        let tx = legacy(Some(CHAIN_ID), 0);
        let by = signature(tx.signature_hash());
        let v = U256::from(CHAIN_ID * 2 + 35 + u64::from(by.v()));
        let v = v + U256::from(high_bits).wrapping_shl(65);
        let mut fields = Vec::new();
        tx.nonce.encode(&mut fields);
        tx.gas_price.encode(&mut fields);
        tx.gas_limit.encode(&mut fields);
        tx.to.encode(&mut fields);
        tx.value.encode(&mut fields);
        tx.input.encode(&mut fields);
        v.encode(&mut fields);
        by.r().encode(&mut fields);
        by.s().encode(&mut fields);
        let mut sent = Vec::new();
        let header = alloy_rlp::Header {
            list: true,
            payload_length: fields.len(),
        };
        header.encode(&mut sent);
        sent.extend(fields);
        let expected = (high_bits == 0).then(|| keccak256(&sent));
        assert_eq!(check(&sent, CHAIN_ID).ok(), expected, "{high_bits}");
    }
}

proptest! {
    /// Whatever comes is refused or has the hash of what a block would carry.
    #[test]
    fn damage_is_refused_or_hashed(
        at in 0..1_000_usize,
        byte in any::<u8>(),
        cut in 0..300_usize,
        which in 0..VECTORS.len(),
    ) {
        let mut sent = VECTORS[which].0.to_vec();
        let at = at % sent.len();
        sent[at] = byte;
        if cut < 100 {
            sent.truncate(cut);
        }
        if let Ok(hash) = check(&sent, CHAIN_ID) {
            prop_assert_eq!(hash, keccak256(&sent));
            prop_assert_eq!(Transaction::decode_2718_exact(&sent).unwrap().encoded_2718(), sent);
        }
    }

    /// Garbage is refused, of every type.
    #[test]
    fn garbage_is_refused(
        tx_type in 0..0x80_u8,
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        prop_assert!(check(&bytes, CHAIN_ID).is_err());
        prop_assert!(check(&[&[tx_type], &bytes[..]].concat(), CHAIN_ID).is_err());
    }
}
