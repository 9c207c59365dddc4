//! Our answers on the chain of execution-apis equal geth's byte for byte, including the order of
//! members.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use alloy_primitives::{B256, map::B256Map};
use serde_json::{Value, json};

use super::parsed;
use crate::{
    block::Block,
    encode::{BlockJson, EncodeOptions},
    fixture,
    import::Importer,
};

/// Every block of the chain by its hash.
static BLOCKS: LazyLock<B256Map<Arc<Block>>> = LazyLock::new(|| {
    let genesis = fixture::genesis();
    let options = EncodeOptions {
        omit_total_difficulty: true,
    };
    let importer = Importer::new(&genesis, options).unwrap();
    let mut head = importer.genesis(&genesis.alloc).unwrap();
    let mut blocks = B256Map::default();
    for raw in fixture::blocks() {
        let block = importer.import(raw, &head).unwrap();
        blocks.insert(head.hash, std::mem::replace(&mut head, block));
    }
    blocks.insert(head.hash, head);
    blocks
});

/// An answer of geth.
struct VectorAnswer {
    path: PathBuf,
    /// The result, not null.
    result: Value,
    /// The text of the result.
    text: String,
}

fn answers(method: &str) -> Vec<VectorAnswer> {
    let folder = fixture::path(method);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut answers = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        let file = fs::read_to_string(&path).unwrap();
        let lines = file.lines().filter_map(|line| line.strip_prefix("<< "));
        for text in lines.filter_map(|line| Some(line.split_once(r#""result":"#)?.1)) {
            let text = text.strip_suffix('}').unwrap().to_owned();
            let result: Value = serde_json::from_str(&text).unwrap();
            let path = path.clone();
            answers.push(VectorAnswer { path, result, text });
        }
    }
    answers.retain(|answer| !answer.result.is_null());
    assert!(!answers.is_empty(), "{method} has no answers");
    answers
}

/// The number of a QUANTITY.
fn index(value: &Value) -> usize {
    let digits = value.as_str().unwrap().strip_prefix("0x").unwrap();
    usize::from_str_radix(digits, 16).unwrap()
}

fn block(hash: &Value) -> &'static BlockJson {
    let hash: B256 = hash.as_str().unwrap().parse().unwrap();
    BLOCKS[&hash].json()
}

/// Compares each answer of `methods` with the bytes that `ours` gives for it.
fn check(methods: &[&str], ours: impl Fn(&Value) -> Vec<u8>) {
    for answer in methods.iter().flat_map(|method| answers(method)) {
        let ours = String::from_utf8(ours(&answer.result)).unwrap();
        assert_eq!(ours, answer.text, "{}", answer.path.display());
    }
}

#[test]
fn blocks_match_geth() {
    check(&["eth_getBlockByHash", "eth_getBlockByNumber"], |result| {
        let full = result["transactions"][0].is_object();
        block(&result["hash"]).block(full).to_vec()
    });
}

#[test]
fn transactions_match_geth() {
    let methods = [
        "eth_getTransactionByBlockHashAndIndex",
        "eth_getTransactionByBlockNumberAndIndex",
        "eth_getTransactionByHash",
    ];
    check(&methods, |result| {
        let transaction =
            block(&result["blockHash"]).transaction(index(&result["transactionIndex"]));
        transaction.unwrap().to_vec()
    });
}

#[test]
fn receipts_match_geth() {
    check(&["eth_getTransactionReceipt"], |result| {
        let receipt = block(&result["blockHash"]).receipt(index(&result["transactionIndex"]));
        receipt.unwrap().to_vec()
    });
    check(&["eth_getBlockReceipts"], |result| match result.get(0) {
        Some(first) => block(&first["blockHash"]).receipts().to_vec(),
        None => b"[]".to_vec(),
    });
}

#[test]
fn logs_match_geth() {
    check(&["eth_getLogs"], |result| {
        let logs = result.as_array().unwrap().iter().map(|log| {
            let block = block(&log["blockHash"]);
            let range = block.log_range(index(&log["logIndex"])).unwrap();
            block.receipts().slice(range)
        });
        [b"[".as_slice(), &logs.collect::<Vec<_>>().join(&b','), b"]"].concat()
    });
}

/// Uncles have no vectors in execution-apis.
#[test]
fn uncles_have_the_size_of_an_empty_block() {
    let third = BLOCKS.values().find(|block| block.number() == 3).unwrap();
    let uncle = parsed(&third.json().uncle(0).unwrap());
    let hash = "0xcab48fb1cd7699dde0792164545f50ed725d38080c929a7391a2f34647e68310";
    assert_eq!(uncle["hash"], hash);
    assert_eq!(uncle["size"], "0x20d");
    assert_eq!(parsed(&third.json().block(false))["uncles"], json!([hash]));
}
