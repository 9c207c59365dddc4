//! What an earlier process, a failing disk or somebody else left of the window and its state.

use std::sync::{Arc, LazyLock};

use alloy_consensus::proofs::{
    calculate_ommers_root, calculate_withdrawals_root, ordered_trie_root_with_encoder,
};
use alloy_primitives::{B256, hex, keccak256};
use alloy_rlp::{Decodable, Header, PayloadView};
use nearhead_actors::saved::{check_file, check_rows};
use nearhead_chain::{
    block::{Block, RawBlock},
    dev::CHAIN_ID,
    encode::EncodeOptions,
    network::FeeRules,
    raw::RawItem,
    remote::Verifier,
    trie::NodeStore,
};

use super::scratch::{SQLITE, Scratch};

/// The verifier of the dev chain, on which the seeds' transactions are signed.
static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let store = NodeStore::recorded(1 << 20);
    let rules = FeeRules::of_chain(CHAIN_ID);
    Verifier::new(CHAIN_ID, rules, EncodeOptions::default(), store)
});

/// What begins a file of zstd.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Largest list that is looked at, in bytes.
const LIST_BYTES_MAX: usize = 1 << 20;

/// A saved block that is accepted is the one of its hash: what consensus says of it has the hash
/// and the roots of its header, and saving and restoring it gives the same block. Under another
/// hash it is refused.
///
/// The input is a saved block, or the RLP list that is compressed in one.
pub fn saved_block(input: &[u8]) {
    let saved = match input {
        [a, b, c, d, ..] if [*a, *b, *c, *d] == ZSTD => input.to_vec(),
        list => compressed(list),
    };
    assert!(VERIFIER.restore(B256::repeat_byte(0xee), &saved).is_err());
    let Some(hash) = stated_hash(&saved) else {
        return;
    };
    let Ok(block) = VERIFIER.restore(hash, &saved) else {
        return;
    };
    if block.make_json().is_err() {
        assert_eq!(block.json().block(true), "null");
        return;
    }
    check_consensus(hash, &block);
    let again = VERIFIER.restore(hash, &block.save().unwrap()).unwrap();
    assert_eq!(again.header, block.header);
    assert_eq!(again.transaction_hashes, block.transaction_hashes);
    assert_eq!(again.total_difficulty, block.total_difficulty);
    let [found, expected] = [&again, &block].map(|block| {
        let json = block.json();
        let ommers = (0..json.uncle_count()).map(|index| json.uncle(index));
        let ommers: Vec<_> = ommers.collect();
        (json.block(true), json.block(false), json.receipts(), ommers)
    });
    assert_eq!(found, expected);
}

fn compressed(list: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(list, 1).unwrap()
}

/// The hash of the block that something saved says it is.
fn stated_hash(saved: &[u8]) -> Option<B256> {
    let list = zstd::bulk::decompress(saved, LIST_BYTES_MAX).ok()?;
    let first = |list: &[u8]| match Header::decode_raw(&mut &*list).ok()? {
        PayloadView::List(members) => members.first().map(|member| member.to_vec()),
        PayloadView::String(_) => None,
    };
    Some(keccak256(first(&first(&list)?)?))
}

/// Compares hash and roots with what the block is in consensus.
fn check_consensus(hash: B256, block: &Arc<Block>) {
    let json = |item: RawItem| item.json(usize::MAX).unwrap().into_bytes();
    let text: String = serde_json::from_slice(&json(RawItem::Block(Arc::clone(block)))).unwrap();
    let rlp = hex::decode(text).unwrap();
    let mut rest = &*rlp;
    let raw = RawBlock::decode(&mut rest).unwrap();
    assert!(rest.is_empty());
    let RawBlock { header, body } = &raw;
    assert_eq!([header.hash_slow(), block.hash], [hash; 2]);
    assert_eq!(header, &block.header);
    let transactions: Vec<_> = (0..body.transactions.len())
        .map(|index| {
            let json = json(RawItem::Transaction(Arc::clone(block), index));
            hex::decode(serde_json::from_slice::<String>(&json).unwrap()).unwrap()
        })
        .collect();
    assert_eq!(root(&transactions), header.transactions_root);
    let receipts = json(RawItem::Receipts(Arc::clone(block)));
    let receipts: Vec<String> = serde_json::from_slice(&receipts).unwrap();
    let receipts = receipts.iter().map(|text| hex::decode(text).unwrap());
    assert_eq!(root(&receipts.collect::<Vec<_>>()), header.receipts_root);
    assert_eq!(calculate_ommers_root(&body.ommers), header.ommers_hash);
    let withdrawals = body
        .withdrawals
        .as_deref()
        .map(|all| calculate_withdrawals_root(all));
    assert_eq!(withdrawals, header.withdrawals_root);
}

fn root(items: &[Vec<u8>]) -> B256 {
    ordered_trie_root_with_encoder(items, |item, out| out.extend_from_slice(item))
}

/// The file of the saved window is opened or replaced, and gives nothing that is not of its hash.
///
/// The input is a file, or a script of the rows that a whole one has.
pub fn saved_window(input: &[u8]) {
    let scratch = Scratch::new("saved-window");
    if input.starts_with(SQLITE) {
        check_file(&scratch.0, input, &VERIFIER);
    } else {
        check_rows(&scratch.0, input);
    }
}
