//! Honest upstreams, and upstreams that answer something other than the request.

use alloy_primitives::{B256, U256, hex};
use serde_json::{Value, json};

use super::{
    super::{RequestedBlock, UpstreamFault},
    DEV, ExecutedChain, Statement, parsed, served,
};
#[cfg(feature = "all-tests")]
use super::{
    super::{StatedBlock, StatedReceipts},
    EXECUTION_APIS, verifier,
};
use crate::block::Block;
#[cfg(feature = "all-tests")]
use crate::network::FeeRules;

#[cfg(feature = "all-tests")]
fn chains() -> [&'static ExecutedChain; 2] {
    [&EXECUTION_APIS, &DEV]
}

/// Checks that the answers give `block`, and returns the names of ignored members.
#[track_caller]
fn check(
    chain: &ExecutedChain,
    requested: RequestedBlock,
    statement: &Statement,
    block: &Block,
) -> Vec<String> {
    let verified = statement.verify(&chain.verifier, requested).unwrap();
    let found = &verified.block;
    assert_eq!(served(found), served(block));
    assert_eq!(found.hash, block.hash);
    assert_eq!(found.header, block.header);
    assert_eq!(found.transaction_hashes, block.transaction_hashes);
    assert_eq!(found.total_difficulty, block.total_difficulty);
    assert_eq!(
        found.state.as_ref().unwrap().root(),
        block.header.state_root
    );
    assert_eq!(
        found.ancestors.first(),
        block.ancestors.first(),
        "the parent's hash is known"
    );
    verified.ignored
}

#[test]
#[cfg(feature = "all-tests")]
fn honest_answers_are_verified() {
    let mut count = 0;
    for chain in chains() {
        for block in &chain.blocks {
            let statement = Statement::of(block);
            let requests = [
                RequestedBlock::Hash(block.hash),
                RequestedBlock::Number(block.number()),
            ];
            // Members in another order: JSON that is equal byte for byte would skip the comparison.
            let sorted = Statement {
                block: parsed(&statement.block).to_string().into(),
                receipts: parsed(&statement.receipts).to_string().into(),
                ommers: statement
                    .ommers
                    .iter()
                    .map(|ommer| parsed(ommer).to_string().into())
                    .collect(),
            };
            for requested in requests {
                assert!(check(chain, requested, &statement, block).is_empty());
                assert!(check(chain, requested, &sorted, block).is_empty());
            }
            count += 1;
        }
        for pair in chain.blocks.windows(2) {
            let [parent, child] = pair else {
                unreachable!()
            };
            check(
                chain,
                RequestedBlock::Number(parent.number() + 1),
                &Statement::of(child),
                child,
            );
            check(
                chain,
                RequestedBlock::Hash(child.header.parent_hash),
                &Statement::of(parent),
                parent,
            );
        }
    }
    assert_eq!(count, 55 + 11);
}

#[test]
#[cfg(feature = "all-tests")]
fn only_the_total_difficulty_is_taken_from_the_upstream() {
    let chain = &EXECUTION_APIS;
    let [parent, child] = [&chain.blocks[20], &chain.blocks[21]];
    let mut statement = Statement::of(child);
    let mut stated = parsed(&statement.block);
    stated["totalDifficulty"] = json!("0x7");
    statement.block = stated.to_string().into();
    let verified = statement.verify(&chain.verifier, RequestedBlock::Hash(child.hash));
    let block = verified.unwrap().block;
    assert_eq!(block.total_difficulty, Some(U256::from(7)));
    assert_eq!(*block.ancestors, [parent.hash]);
}

/// Some clients omit members, or write them differently.
#[test]
fn harmless_differences_between_clients_are_accepted() {
    let chain = &DEV;
    let block = &chain.blocks[5];
    let mut statement = Statement::of(block);
    let mut full = parsed(&statement.block);
    let mut receipts = parsed(&statement.receipts);
    let remove = |value: &mut Value, name: &str| drop(value.as_object_mut().unwrap().remove(name));
    remove(&mut full, "size");
    full["author"] = full["miner"].clone();
    full["difficulty"] = json!("0x00");
    full["miner"] = json!(upper(&full["miner"]));
    for transaction in full["transactions"].as_array_mut().unwrap() {
        remove(transaction, "blockTimestamp");
        remove(transaction, "yParity");
        for name in ["r", "s"] {
            let value: U256 = transaction[name].as_str().unwrap().parse().unwrap();
            transaction[name] = json!(format!("0x{}", hex::encode(B256::from(value))));
        }
        transaction["from"] = json!(upper(&transaction["from"]));
        transaction["creates"] = Value::Null;
    }
    for receipt in receipts.as_array_mut().unwrap() {
        if receipt["contractAddress"].is_null() {
            remove(receipt, "contractAddress");
        }
        for log in receipt["logs"].as_array_mut().unwrap() {
            remove(log, "blockTimestamp");
            log["transactionLogIndex"] = json!("0x0");
        }
    }
    statement.block = full.to_string().into();
    statement.receipts = receipts.to_string().into();
    let ignored = check(chain, RequestedBlock::Hash(block.hash), &statement, block);
    let names = [
        "block.author",
        "log.transactionLogIndex",
        "transaction.creates",
    ];
    assert_eq!(ignored, names);
}

fn upper(data: &Value) -> String {
    format!("0x{}", data.as_str().unwrap()[2..].to_uppercase())
}

#[test]
#[cfg(feature = "all-tests")]
fn a_block_that_was_not_requested_is_refused() {
    let chain = &EXECUTION_APIS;
    let [before, block, after] = [&chain.blocks[29], &chain.blocks[30], &chain.blocks[31]];
    let statement = Statement::of(block);
    for requested in [
        RequestedBlock::Hash(before.hash),
        RequestedBlock::Number(31),
        RequestedBlock::Number(after.number() + 1),
        RequestedBlock::Hash(before.header.parent_hash),
        RequestedBlock::Hash(block.header.parent_hash),
    ] {
        let fault = statement.verify(&chain.verifier, requested).unwrap_err();
        assert_eq!(fault.reason(), "another_block", "{requested:?}: {fault}");
    }
}

#[test]
#[cfg(feature = "all-tests")]
fn answers_of_two_blocks_are_not_mixed() {
    let chain = &EXECUTION_APIS;
    let mut refused = 0;
    for block in &chain.blocks {
        for other in &chain.blocks {
            if block.header.receipts_root == other.header.receipts_root {
                continue;
            }
            let statement = Statement {
                receipts: Statement::of(other).receipts,
                ..Statement::of(block)
            };
            let fault = statement.verify(&chain.verifier, RequestedBlock::Hash(block.hash));
            let fault = fault.unwrap_err();
            match fault.reason() {
                "count" => assert!(
                    fault.to_string().starts_with("receipts: expected "),
                    "{fault}"
                ),
                reason => assert_eq!(reason, "receipts_root"),
            }
            refused += 1;
        }
    }
    assert!(refused > 1_000, "{refused}");
}

/// A block whose hash and roots are right, and whose first plain transaction occurs again at the
/// end.
#[test]
#[cfg(feature = "all-tests")]
fn a_block_that_repeats_a_transaction_is_refused() {
    let chain = &DEV;
    let block = &chain.blocks[4];
    let mut statement = Statement::of(block);
    let mut raw = StatedBlock::read(&statement.block).unwrap().raw;
    let mut stated = parsed(&statement.block);
    let transactions = stated["transactions"].as_array_mut().unwrap();
    // A blob would change the header's blob gas.
    let first = transactions.iter().position(|one| one["type"] == "0x2");
    let first = first.unwrap();
    transactions.push(transactions[first].clone());
    let list = &mut raw.body.transactions;
    list.push(list[first].clone());
    raw.header.transactions_root = alloy_consensus::proofs::calculate_transaction_root(list);
    stated["transactionsRoot"] = json!(raw.header.transactions_root.to_string());
    stated["hash"] = json!(raw.header.hash_slow().to_string());
    statement.block = stated.to_string().into();
    let fault = statement.verify(&chain.verifier, RequestedBlock::Number(4));
    let fault = fault.unwrap_err();
    assert_eq!(fault.reason(), "duplicate_transaction", "{fault}");
    let (index, hash) = (
        raw.body.transactions.len() - 1,
        block.transaction_hashes[first],
    );
    let message = format!("transaction {index} {hash} is in the block already");
    assert_eq!(fault.to_string(), message);
}

#[test]
fn an_unknown_transaction_type_is_named_with_its_block() {
    let chain = &DEV;
    let block = &chain.blocks[3];
    let mut statement = Statement::of(block);
    let mut stated = parsed(&statement.block);
    // A deposit transaction of the OP stack.
    stated["transactions"][0]["type"] = json!("0x7e");
    statement.block = stated.to_string().into();
    let fault = statement
        .verify(&chain.verifier, RequestedBlock::Number(3))
        .unwrap_err();
    assert!(matches!(
        fault,
        UpstreamFault::TransactionType {
            number: 3,
            found: 0x7e
        }
    ));
    assert_eq!(
        fault.to_string(),
        "block 3 has a transaction of type 0x7e, which is not supported"
    );
    assert_eq!(fault.reason(), "transaction_type");
}

#[test]
#[cfg(feature = "all-tests")]
fn another_chain_id_and_a_wrong_blob_gas_price_are_refused() {
    let chain = &EXECUTION_APIS;
    let other = verifier(1, FeeRules::of_chain(1));
    let with_chain_id = chain.blocks.iter().find(|block| {
        let stated = parsed(&block.json().block(true));
        stated["transactions"][0]["chainId"].is_string()
    });
    let block = with_chain_id.unwrap();
    let fault = Statement::of(block)
        .verify(&other, RequestedBlock::Hash(block.hash))
        .unwrap_err();
    assert_eq!(fault.reason(), "chain_id");
    let with_blobs = chain
        .blocks
        .iter()
        .find(|block| block.header.blob_gas_used > Some(0));
    let block = with_blobs.unwrap();
    let mut statement = Statement::of(block);
    let mut stated = parsed(&statement.receipts);
    let receipts = stated.as_array_mut().unwrap().iter_mut();
    let mut with_price = receipts.filter(|receipt| receipt["blobGasPrice"].is_string());
    with_price.next().unwrap()["blobGasPrice"] = json!("0x2");
    statement.receipts = stated.to_string().into();
    let chain_id = 3_503_995_874_084_926;
    let guessing = verifier(chain_id, FeeRules::of_chain(chain_id));
    let fault = statement
        .verify(&guessing, RequestedBlock::Hash(block.hash))
        .unwrap_err();
    assert_eq!(fault.reason(), "blob_gas_price");
    assert_eq!(
        fault.to_string(),
        "blob gas price is 0x2, expected 0x1: if the node is right, name the chain's genesis with --genesis"
    );
}

#[test]
#[cfg(feature = "all-tests")]
fn a_stated_block_gives_its_header_hash_and_ommers() {
    let chain = &EXECUTION_APIS;
    for block in &chain.blocks {
        let stated = StatedBlock::read(&block.json().block(true)).unwrap();
        assert_eq!(
            (stated.header(), stated.hash(), stated.ommer_count()),
            (&block.header, block.hash, block.json().uncle_count())
        );
        let ommers = Statement::of(block).ommers;
        let ommers: Vec<_> = ommers.iter().map(Vec::as_slice).collect();
        let body = chain
            .verifier
            .verify_body(RequestedBlock::Hash(block.hash), stated, &ommers)
            .unwrap();
        assert_eq!(body.hash(), block.hash);
        assert_eq!(body.transaction_hashes(), *block.transaction_hashes);
    }
    let block = &chain.blocks[9].json().block(true);
    let check = |name: &str, value: Value, reason: Option<&str>| {
        let mut stated = parsed(block);
        stated[name] = value;
        let read = StatedBlock::read(stated.to_string().as_bytes());
        assert_eq!(read.err().map(|fault| fault.reason()), reason, "{name}");
    };
    check("gasLimit", json!("0x1"), Some("block_hash"));
    check("uncles", json!(null), Some("missing_member"));
    // The number of further requests is bounded.
    let hashes = |count| json!(vec![B256::ZERO; count]);
    check("uncles", hashes(2), None);
    check("uncles", hashes(3), Some("malformed_member"));
    check("transactions", json!([]), None);
    check("transactions", hashes(1), Some("malformed_member"));
    check("transactions", hashes(163_841), Some("malformed_member"));
    let fault = StatedBlock::read(b"null").unwrap_err();
    assert_eq!(
        (fault.reason(), fault.to_string().as_str()),
        ("absent", "block is null")
    );
}

#[test]
#[cfg(feature = "all-tests")]
fn receipts_are_read_without_their_block() {
    let chain = &EXECUTION_APIS;
    for block in &chain.blocks {
        let stated = StatedReceipts::read(&block.json().receipts()).unwrap();
        assert_eq!(stated.receipts.len(), block.transaction_hashes.len());
        stated.commitment.check(&block.header).unwrap();
    }
    let check = |json: &[u8], reason: &str| {
        assert_eq!(StatedReceipts::read(json).unwrap_err().reason(), reason);
    };
    check(b"null", "absent");
    check(b"[null]", "absent");
    check(b"{}", "malformed_member");
    check(
        format!("[{}0]", "0,".repeat(163_840)).as_bytes(),
        "malformed_member",
    );
    let block = chain.blocks.last().unwrap();
    for (kind, reason) in [
        (json!("0x5"), "malformed_member"),
        (json!("0x100"), "malformed_member"),
        (json!(null), "missing_member"),
    ] {
        let mut stated = parsed(&block.json().receipts());
        stated[0]["type"] = kind;
        check(stated.to_string().as_bytes(), reason);
    }
}
