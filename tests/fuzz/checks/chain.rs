//! Bytes from an upstream or a file: blocks, chain files, trie nodes.

use std::sync::{Arc, LazyLock};

use alloy_consensus::{Header, Receipt as PlainReceipt};
use alloy_primitives::{Address, B256, Log};
use alloy_rlp::Decodable;
use alloy_trie::{
    EMPTY_ROOT_HASH, KECCAK_EMPTY, TrieAccount,
    nodes::{RlpNode, TrieNode},
};
use nearhead_chain::{
    block::{Block, BlockParts, RawBlock, Receipt},
    chain_file::{ChainReader, read_genesis, write_block},
    encode::{BlockJson, EncodeOptions},
    import::Importer,
    network::HeaderFees,
    remote::StatedBlock,
    trie::{self, Reference},
};
use serde_json::Value;

/// A decoded block can be encoded as RLP and as JSON, and imported without a panic.
pub fn block_rlp(input: &[u8]) {
    let mut rest = input;
    let Ok(block) = RawBlock::decode(&mut rest) else {
        return;
    };
    check_rlp(&block);
    check_json(&block);
    check_import(block);
}

fn check_rlp(block: &RawBlock) {
    let rlp = alloy_rlp::encode(block);
    assert_eq!(
        rlp.len(),
        RawBlock::rlp_length_for(&block.header, &block.body)
    );
    let mut rest = rlp.as_slice();
    assert_eq!(RawBlock::decode(&mut rest).as_ref(), Ok(block));
    assert!(rest.is_empty());
}

/// Checks the block's JSON, with one log for each transaction.
fn check_json(block: &RawBlock) {
    let transactions = &block.body.transactions;
    let receipts: Vec<Receipt> = transactions
        .iter()
        .map(|transaction| {
            let log = Log::new_unchecked(Address::ZERO, vec![B256::ZERO], Default::default());
            let receipt = PlainReceipt {
                logs: vec![log],
                ..PlainReceipt::default()
            };
            Receipt::from_typed(transaction.tx_type(), receipt.with_bloom())
        })
        .collect();
    let parts = BlockParts {
        raw: block,
        hash: block.header.hash_slow(),
        rlp_length: RawBlock::rlp_length_for(&block.header, &block.body),
        senders: &vec![Address::ZERO; transactions.len()],
        receipts: &receipts,
        fees: HeaderFees::default(),
        total_difficulty: None,
    };
    let json = BlockJson::encode(&parts, EncodeOptions::default()).unwrap();
    let full: Value = serde_json::from_slice(&json.block(true)).unwrap();
    let hashes: Value = serde_json::from_slice(&json.block(false)).unwrap();
    let receipts: Value = serde_json::from_slice(&json.receipts()).unwrap();
    assert_eq!(full["hash"], parts.hash.to_string());
    // What is served of a header is read back as the same one, unless it is out of bounds.
    if let Ok(stated) = StatedBlock::read(&json.block(true)) {
        assert_eq!(stated.header(), &block.header);
    }
    for (index, transaction) in transactions.iter().enumerate() {
        let hash = transaction.tx_hash().to_string();
        let one: Value = serde_json::from_slice(&json.transaction(index).unwrap()).unwrap();
        assert_eq!(one["hash"], hash);
        assert_eq!(full["transactions"][index], one);
        assert_eq!(hashes["transactions"][index], hash);
        let log = &json.receipts()[json.log_range(index).unwrap()];
        let log: Value = serde_json::from_slice(log).unwrap();
        assert_eq!(receipts[index]["logs"][0], log);
    }
    for (index, uncle) in block.body.ommers.iter().enumerate() {
        let one: Value = serde_json::from_slice(&json.uncle(index).unwrap()).unwrap();
        assert_eq!(one["hash"], uncle.hash_slow().to_string());
        assert_eq!(full["uncles"][index], one["hash"]);
    }
}

/// The genesis file of a chain in which every fork is active from the start.
const GENESIS: &[u8] = br#"{
    "config": {
        "chainId": 1337, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
        "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0,
        "berlinBlock": 0, "londonBlock": 0, "mergeNetsplitBlock": 0, "shanghaiTime": 0, "cancunTime": 0,
        "pragueTime": 0, "osakaTime": 0, "terminalTotalDifficulty": 0, "terminalTotalDifficultyPassed": true,
        "depositContractAddress": "0x00000000219ab540356cbb839cbe05303d7705fa",
        "blobSchedule": {
            "cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3338477},
            "prague": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716},
            "osaka": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716}
        }
    },
    "nonce": "0x0", "timestamp": "0x0", "extraData": "0x", "gasLimit": "0xf4240", "difficulty": "0x0",
    "mixHash": "0x0000000000000000000000000000000000000000000000000000000000000000",
    "coinbase": "0x0000000000000000000000000000000000000000", "alloc": {}
}"#;

/// The importer of the chain, and its genesis block.
static CHAIN: LazyLock<(Importer, Arc<Block>)> = LazyLock::new(|| {
    let genesis = read_genesis(GENESIS).unwrap();
    let importer = Importer::new(&genesis, EncodeOptions::default()).unwrap();
    let block = importer.genesis(&genesis.alloc).unwrap();
    (importer, block)
});

/// Imports the block as a child of the genesis: first unchanged, then with a header that fits the
/// parent, so that the import also checks the body.
fn check_import(block: RawBlock) {
    let (importer, genesis) = &*CHAIN;
    let parent = &genesis.header;
    let adopted = Header {
        parent_hash: genesis.hash,
        number: 1,
        gas_limit: parent.gas_limit,
        timestamp: block.header.timestamp.max(1),
        ..block.header.clone()
    };
    let body = block.body.clone();
    for block in [
        block,
        RawBlock {
            header: adopted,
            body,
        },
    ] {
        let hash = block.header.hash_slow();
        match importer.import(block, genesis) {
            Ok(held) => assert_eq!(held.hash, hash),
            Err(error) => assert_eq!(error.hash, hash),
        }
    }
}

/// The blocks of a file survive encoding and decoding, and the reader stops at the first error.
pub fn chain_file(input: &[u8]) {
    // Alloy parses a genesis, so only a panic is a failure here.
    drop(read_genesis(input));
    let Ok(reader) = ChainReader::new(input) else {
        return;
    };
    let mut blocks = Vec::new();
    let mut failed = false;
    for block in reader {
        assert!(!failed, "a block after an error");
        match block {
            Ok(block) => blocks.push(block),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                failed = true;
            }
        }
    }
    let mut file = Vec::new();
    for block in &blocks {
        write_block(&mut file, block).unwrap();
    }
    let again: Vec<_> = ChainReader::new(file.as_slice())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(again, blocks);
}

/// The references of an accepted trie node are those that alloy's decoder finds.
pub fn trie_nodes(input: &[u8]) {
    let Ok(found) = trie::references(input) else {
        return;
    };
    let mut rest = input;
    let node = TrieNode::decode(&mut rest).unwrap();
    assert!(rest.is_empty());
    let mut expected = Vec::new();
    match &node {
        TrieNode::EmptyRoot => panic!("the empty trie has no node"),
        TrieNode::Branch(branch) => {
            expected.extend(branch.stack.iter().filter_map(RlpNode::as_hash))
        }
        TrieNode::Extension(extension) => expected.extend(extension.child.as_hash()),
        TrieNode::Leaf(leaf) => return check_leaf(&leaf.value, &found),
    }
    let expected: Vec<_> = expected.into_iter().map(Reference::Node).collect();
    assert_eq!(found, expected);
    assert_eq!(alloy_rlp::encode(&node), input);
}

/// The leaf of an account references its storage and code; the leaf of a slot references nothing.
fn check_leaf(mut value: &[u8], found: &[Reference]) {
    let mut expected = Vec::new();
    if value
        .first()
        .is_some_and(|code| *code >= alloy_rlp::EMPTY_LIST_CODE)
    {
        let account = TrieAccount::decode(&mut value).unwrap();
        if account.storage_root != EMPTY_ROOT_HASH {
            expected.push(Reference::Node(account.storage_root));
        }
        if account.code_hash != KECCAK_EMPTY {
            expected.push(Reference::Code(account.code_hash));
        }
    }
    assert_eq!(found, expected);
}
