//! Random blocks: every transaction type, every fork's header, numbers of every width.

use alloy_consensus::{
    BlockBody, Eip658Value, Header, Receipt as PlainReceipt, SignableTransaction, TxEip1559,
    TxEip2930, TxEip4844, TxEip7702, TxLegacy,
};
use alloy_eips::{
    eip2930::{AccessList, AccessListItem},
    eip4895::{Withdrawal, Withdrawals},
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, Log, Signature, TxKind, U256};
use proptest::{collection::vec, prelude::*};

use crate::{
    block::{BlockParts, RawBlock, Receipt, Transaction},
    network::HeaderFees,
};

/// A block with all inputs of the encoder.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) raw: RawBlock,
    pub(crate) senders: Vec<Address>,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) fees: HeaderFees,
    pub(crate) total_difficulty: Option<U256>,
}

impl Sample {
    pub(crate) fn parts(&self) -> BlockParts<'_> {
        BlockParts {
            raw: &self.raw,
            hash: self.raw.header.hash_slow(),
            rlp_length: RawBlock::rlp_length_for(&self.raw.header, &self.raw.body),
            senders: &self.senders,
            receipts: &self.receipts,
            fees: self.fees,
            total_difficulty: self.total_difficulty,
        }
    }

    /// A block without transactions, with the header of `fork`, which is below [`FORKS`].
    pub(super) fn empty_block(fork: usize) -> Self {
        let mut header = Header::default();
        adopt(&mut header, fork, 7, B256::repeat_byte(1));
        let body = BlockBody {
            withdrawals: (fork >= SHANGHAI).then(Withdrawals::default),
            ..BlockBody::default()
        };
        Self {
            raw: RawBlock { header, body },
            senders: Vec::new(),
            receipts: Vec::new(),
            fees: HeaderFees::default(),
            total_difficulty: None,
        }
    }
}

const LONDON: usize = 1;
const SHANGHAI: usize = 2;
const CANCUN: usize = 3;
const PRAGUE: usize = 4;
const AMSTERDAM: usize = 5;
/// Number of header forms: the oldest, then one for each fork that adds members.
const FORKS: usize = 6;

/// Adds the members of `fork` and of the forks before it.
fn adopt(header: &mut Header, fork: usize, number: u64, hash: B256) {
    header.base_fee_per_gas = (fork >= LONDON).then_some(number);
    header.withdrawals_root = (fork >= SHANGHAI).then_some(hash);
    header.blob_gas_used = (fork >= CANCUN).then_some(number);
    header.excess_blob_gas = (fork >= CANCUN).then_some(number);
    header.parent_beacon_block_root = (fork >= CANCUN).then_some(hash);
    header.requests_hash = (fork >= PRAGUE).then_some(hash);
    header.block_access_list_hash = (fork >= AMSTERDAM).then_some(hash);
    header.slot_number = (fork >= AMSTERDAM).then_some(number);
}

/// Numbers of every width, because a uniform number almost always has the full width.
fn u256() -> impl Strategy<Value = U256> {
    (any::<[u64; 4]>(), 0..=256_usize).prop_map(|(limbs, shift)| U256::from_limbs(limbs) >> shift)
}

fn u128() -> impl Strategy<Value = u128> {
    (any::<u128>(), 0..128_u32).prop_map(|(value, shift)| value >> shift)
}

fn u64() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
}

fn hash() -> impl Strategy<Value = B256> {
    u256().prop_map(B256::from)
}

fn address() -> impl Strategy<Value = Address> {
    hash().prop_map(Address::from_word)
}

fn bytes(length_max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..=length_max).prop_map(Bytes::from)
}

fn access_list() -> impl Strategy<Value = AccessList> {
    let item = (address(), vec(hash(), 0..3));
    let item = item.prop_map(|(address, storage_keys)| AccessListItem {
        address,
        storage_keys,
    });
    vec(item, 0..3).prop_map(AccessList)
}

fn authorizations() -> impl Strategy<Value = Vec<SignedAuthorization>> {
    let one = (u256(), address(), u64(), any::<u8>(), u256(), u256());
    let one = one.prop_map(|(chain_id, address, nonce, y_parity, r, s)| {
        let inner = Authorization {
            chain_id,
            address,
            nonce,
        };
        SignedAuthorization::new_unchecked(inner, y_parity, r, s)
    });
    vec(one, 0..3)
}

pub(super) fn transaction() -> impl Strategy<Value = Transaction> {
    let numbers = (u64(), u64(), u64(), u128(), u128(), u128(), u256());
    let call = (address(), any::<bool>(), any::<bool>(), bytes(300));
    let lists = (access_list(), authorizations(), vec(hash(), 0..3));
    // An r of zero marks a transaction that nobody signed: no chain has one.
    let r = u256().prop_map(|r| r.max(U256::ONE));
    let signature = (r, u256(), any::<bool>());
    (0..5_u8, numbers, call, lists, signature).prop_map(
        |(
            transaction_type,
            (chain_id, nonce, gas_limit, gas_price, max_priority_fee_per_gas, fee, value),
            (callee, create, protected, input),
            (access_list, authorization_list, blob_versioned_hashes),
            (r, s, parity),
        )| {
            let to = if create {
                TxKind::Create
            } else {
                TxKind::Call(callee)
            };
            let max_fee_per_gas = gas_price;
            let signature = Signature::new(r, s, parity);
            match transaction_type {
                0 => {
                    let chain_id = protected.then_some(chain_id);
                    TxLegacy {
                        chain_id,
                        nonce,
                        gas_price,
                        gas_limit,
                        to,
                        value,
                        input,
                    }
                    .into_signed(signature)
                    .into()
                }
                1 => TxEip2930 {
                    chain_id,
                    nonce,
                    gas_price,
                    gas_limit,
                    to,
                    value,
                    input,
                    access_list,
                }
                .into_signed(signature)
                .into(),
                2 => TxEip1559 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    to,
                    value,
                    input,
                    access_list,
                }
                .into_signed(signature)
                .into(),
                3 => TxEip4844 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    to: callee,
                    value,
                    input,
                    access_list,
                    blob_versioned_hashes,
                    max_fee_per_blob_gas: fee,
                }
                .into_signed(signature)
                .into(),
                _ => TxEip7702 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    to: callee,
                    value,
                    input,
                    access_list,
                    authorization_list,
                }
                .into_signed(signature)
                .into(),
            }
        },
    )
}

/// A receipt whose gas is not cumulative yet.
fn receipt() -> impl Strategy<Value = PlainReceipt> {
    let log = (address(), vec(hash(), 0..=4), bytes(100));
    let log = log.prop_map(|(address, topics, data)| Log::new_unchecked(address, topics, data));
    let status = prop_oneof![
        any::<bool>().prop_map(Eip658Value::Eip658),
        hash().prop_map(Eip658Value::PostState),
    ];
    (status, any::<u32>(), vec(log, 0..4)).prop_map(|(status, gas, logs)| PlainReceipt {
        status,
        cumulative_gas_used: gas.into(),
        logs,
    })
}

fn header() -> impl Strategy<Value = Header> {
    let hashes = (hash(), hash(), hash(), hash(), hash());
    let numbers = (u256(), u64(), u64(), u64(), u64());
    (0..FORKS, hashes, numbers, address(), bytes(32)).prop_map(
        |(
            fork,
            (parent_hash, state_root, mix_hash, receipts_root, transactions_root),
            (difficulty, number, gas_limit, gas_used, timestamp),
            beneficiary,
            extra_data,
        )| {
            let mut header = Header {
                parent_hash,
                ommers_hash: mix_hash,
                beneficiary,
                state_root,
                transactions_root,
                receipts_root,
                logs_bloom: Bloom::repeat_byte(extra_data.len() as u8),
                difficulty,
                number,
                gas_limit,
                gas_used,
                timestamp,
                extra_data,
                mix_hash,
                nonce: B64::from(gas_limit),
                ..Header::default()
            };
            adopt(&mut header, fork, timestamp, parent_hash);
            header
        },
    )
}

fn withdrawals() -> impl Strategy<Value = Option<Withdrawals>> {
    let one = (u64(), u64(), address(), u64());
    let one = one.prop_map(|(index, validator_index, address, amount)| Withdrawal {
        index,
        validator_index,
        address,
        amount,
    });
    proptest::option::of(vec(one, 0..4).prop_map(Withdrawals::new))
}

/// A block with up to 5 transactions and 2 uncles.
pub(crate) fn block() -> impl Strategy<Value = Sample> {
    let each = vec((transaction(), address(), receipt()), 0..=5);
    let body = (each, vec(header(), 0..=2), withdrawals());
    (header(), body, u128(), proptest::option::of(u256())).prop_map(
        |(header, (each, ommers, withdrawals), blob_gas_price, total_difficulty)| {
            let mut gas = 0;
            let (mut transactions, mut senders, mut receipts) = (vec![], vec![], vec![]);
            for (transaction, sender, mut receipt) in each {
                gas += receipt.cumulative_gas_used;
                receipt.cumulative_gas_used = gas;
                receipts.push(Receipt::from_typed(
                    transaction.tx_type(),
                    receipt.with_bloom(),
                ));
                senders.push(sender);
                transactions.push(transaction);
            }
            let body = BlockBody {
                transactions,
                ommers,
                withdrawals,
            };
            Sample {
                raw: RawBlock { header, body },
                senders,
                receipts,
                fees: HeaderFees {
                    blob_gas_price: Some(blob_gas_price),
                    ..HeaderFees::default()
                },
                total_difficulty,
            }
        },
    )
}
