//! A block that no chain has. Its hash, its roots and its bloom are right, it has a parent, and the
//! state that it commits to has proofs.

use std::sync::LazyLock;

use alloy_consensus::{
    EMPTY_OMMER_ROOT_HASH, Eip658Value, Header, Receipt as PlainReceipt, TxEip1559, TxReceipt as _,
};
use alloy_eips::{
    Decodable2718, Encodable2718, eip1559::BaseFeeParams, eip4895::Withdrawals,
    eip7685::EMPTY_REQUESTS_HASH, eip7840::BlobParams,
};
use alloy_primitives::{
    Address, B64, B256, Bytes, KECCAK256_EMPTY, Log, U256, address, b256, keccak256,
};
use alloy_trie::{
    EMPTY_ROOT_HASH, Nibbles, TrieAccount, nodes::LeafNode, root::ordered_trie_root_encoded,
};
use nearhead_chain::{
    block::{BlockParts, RawBlock, Receipt, Transaction, TxType, with_bloom},
    encode::{BlockJson, EncodeOptions},
    network::HeaderFees,
};
use serde_json::{Value, json};

use crate::upstreams::Wallet;

/// The token of which every invented block has a transfer.
pub(crate) const INVENTED_TOKEN: Address = address!("0x1057000000000000000000000000000000001057");

/// The account that gets the tokens. In the state of invented blocks it is rich; it is the only
/// account.
pub(crate) const INVENTED_ACCOUNT: Address = address!("0x71c4000000000000000000000000000000000071");

/// keccak256 of `Transfer(address,address,uint256)`.
const TRANSFER: B256 = b256!("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// Gas of an invented block, unless its header says otherwise.
const GAS: u64 = 50_000;

/// Seconds between invented blocks.
const SECONDS: u64 = 1;

/// The state of all invented blocks: root, and the only node of its trie.
static STATE: LazyLock<(B256, Bytes)> = LazyLock::new(|| {
    let path = Nibbles::unpack(keccak256(INVENTED_ACCOUNT));
    let leaf = alloy_rlp::encode(LeafNode::new(path, alloy_rlp::encode(rich())));
    (keccak256(&leaf), leaf.into())
});

fn rich() -> TrieAccount {
    TrieAccount {
        nonce: 0,
        balance: U256::from(10).pow(U256::from(24)),
        storage_root: EMPTY_ROOT_HASH,
        code_hash: KECCAK256_EMPTY,
    }
}

/// An invented block, with one transaction.
pub(crate) struct InventedBlock {
    pub(crate) header: Header,
    pub(crate) hash: B256,
    raw: RawBlock,
    sender: Address,
    receipt: Receipt,
}

impl InventedBlock {
    /// A block on top of this one, which obeys the dev chain's rules unless `edit` breaks them.
    pub(super) fn on(chain_id: u64, parent: &Header, edit: impl FnOnce(&mut Header)) -> Self {
        let mut header = child_of(parent);
        edit(&mut header);
        let wallet = Wallet::of(B256::repeat_byte(0x71));
        let signed = wallet.sign(TxEip1559 {
            chain_id,
            nonce: header.number,
            gas_limit: GAS,
            max_fee_per_gas: u64::MAX.into(),
            to: INVENTED_TOKEN.into(),
            ..TxEip1559::default()
        });
        let receipt = receipt(header.gas_used);
        header.transactions_root = ordered_trie_root_encoded(&[&signed]);
        header.receipts_root = ordered_trie_root_encoded(&[receipt.encoded_2718()]);
        header.logs_bloom = receipt.bloom();
        header.state_root = STATE.0;
        let mut raw = RawBlock {
            header: header.clone(),
            ..RawBlock::default()
        };
        let transaction = Transaction::decode_2718_exact(&signed).unwrap();
        raw.body.transactions.push(transaction);
        raw.body.withdrawals = header.withdrawals_root.map(|_| Withdrawals::default());
        Self {
            hash: header.hash_slow(),
            header,
            raw,
            sender: wallet.address,
            receipt,
        }
    }

    /// Number and hash.
    pub(crate) fn point(&self) -> (u64, B256) {
        (self.header.number, self.hash)
    }

    pub(super) fn json(&self, is_full: bool) -> String {
        text(&self.encoded().block(is_full))
    }

    pub(super) fn receipts_json(&self) -> String {
        text(&self.encoded().receipts())
    }

    /// What leads to the block.
    pub(super) fn brief_json(&self) -> String {
        let Header {
            number,
            parent_hash,
            timestamp,
            ..
        } = &self.header;
        let [number, timestamp] = [number, timestamp].map(|value| format!("{value:#x}"));
        let brief = json!({"number": number, "hash": self.hash, "parentHash": parent_hash, "timestamp": timestamp});
        brief.to_string()
    }

    /// Made for each answer: a block may be too large to be held twice.
    fn encoded(&self) -> BlockJson {
        let parts = BlockParts {
            raw: &self.raw,
            hash: self.hash,
            rlp_length: alloy_rlp::Encodable::length(&self.raw),
            senders: &[self.sender],
            receipts: std::slice::from_ref(&self.receipt),
            fees: HeaderFees::default(),
            total_difficulty: None,
        };
        BlockJson::encode(&parts, EncodeOptions::default()).unwrap()
    }
}

fn text(json: &[u8]) -> String {
    String::from_utf8(json.to_vec()).unwrap()
}

/// The header of a block on top of this one, without what follows from its body.
fn child_of(parent: &Header) -> Header {
    Header {
        parent_hash: parent.hash_slow(),
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        number: parent.number.wrapping_add(1),
        timestamp: parent.timestamp.saturating_add(SECONDS),
        gas_limit: parent.gas_limit,
        gas_used: GAS,
        difficulty: U256::ZERO,
        nonce: B64::ZERO,
        base_fee_per_gas: parent.next_block_base_fee(BaseFeeParams::ethereum()),
        withdrawals_root: parent.withdrawals_root.map(|_| EMPTY_ROOT_HASH),
        blob_gas_used: parent.blob_gas_used.map(|_| 0),
        excess_blob_gas: parent.next_block_excess_blob_gas(BlobParams::bpo2()),
        parent_beacon_block_root: parent.parent_beacon_block_root,
        requests_hash: parent.requests_hash.map(|_| EMPTY_REQUESTS_HASH),
        ..Header::default()
    }
}

/// The receipt of a transfer of a million tokens.
fn receipt(gas_used: u64) -> Receipt {
    let topics = [Address::ZERO, INVENTED_ACCOUNT].map(|account| account.into_word());
    let amount: B256 = U256::from(1_000_000).into();
    let log = Log::new_unchecked(
        INVENTED_TOKEN,
        [&[TRANSFER][..], &topics].concat(),
        amount.into(),
    );
    let plain = PlainReceipt {
        status: Eip658Value::Eip658(true),
        cumulative_gas_used: gas_used,
        logs: vec![log],
    };
    with_bloom(TxType::Eip1559, plain)
}

/// The answer to eth_getProof of an account and its slots in the invented state.
pub(super) fn proof_json(account: &Value, slots: &Value) -> String {
    let is_rich = account
        .as_str()
        .is_some_and(|account| account.parse() == Ok(INVENTED_ACCOUNT));
    let balance = match is_rich {
        true => rich().balance,
        false => U256::ZERO,
    };
    let slots = slots.as_array().into_iter().flatten();
    let slots = slots.map(|slot| json!({"key": slot, "value": "0x0", "proof": []}));
    json!({
        "address": account,
        "accountProof": [STATE.1],
        "balance": balance,
        "codeHash": KECCAK256_EMPTY,
        "nonce": "0x0",
        "storageHash": EMPTY_ROOT_HASH,
        "storageProof": slots.collect::<Vec<_>>(),
    })
    .to_string()
}
