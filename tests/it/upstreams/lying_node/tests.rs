use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::{
    encode::EncodeOptions,
    network::FeeRules,
    remote::{BlockAnswers, RequestedBlock, StatedBlock, StatedReceipts, Verifier},
    trie::NodeStore,
};
use serde_json::{Value, json};

use super::{Claims, INVENTED_ACCOUNT, InventedBlock, LyingNode};
use crate::{
    harness::{Connection, check},
    proofs,
    upstreams::Anvil,
};

/// An anvil with ten blocks, a node before it, and a connection to that.
fn before_anvil() -> (Anvil, LyingNode, Connection) {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(10);
    let node = LyingNode::before(anvil.address);
    let connection = Connection::open(node.address, "/");
    (anvil, node, connection)
}

fn hash_of(connection: &mut Connection, block: Value) -> Value {
    connection.result("eth_getBlockByNumber", &json!([block, false]))["hash"].clone()
}

/// Every check of a followed block but that of its place in the chain.
fn verify(node: &mut Connection, block: &InventedBlock) {
    let stated = node.result("eth_getBlockByHash", &json!([block.hash, true]));
    let receipts = node.result("eth_getBlockReceipts", &json!([block.hash]));
    let [stated, receipts] = [stated, receipts].map(|answer| answer.to_string());
    let verifier = Verifier::new(
        31_337,
        FeeRules::of_chain(31_337),
        EncodeOptions::default(),
        NodeStore::bounded(1 << 20),
    );
    let body = StatedBlock::read(stated.as_bytes()).unwrap();
    check("header", body.header(), &block.header);
    let body = verifier.verify_body(RequestedBlock::Hash(block.hash), body, &[]);
    let answers = BlockAnswers {
        block: stated.as_bytes(),
        receipts: receipts.as_bytes(),
        ommers: &[],
    };
    let read = StatedReceipts::read(receipts.as_bytes()).unwrap();
    let verified = verifier.verify_receipts(body.unwrap(), read, &answers);
    let verified = verified.unwrap();
    check("hash", &verified.block.hash, &block.hash);
    check("ignored", &verified.ignored, &Vec::new());
}

#[test]
fn invented_blocks_are_consistent() {
    let (_anvil, node, mut connection) = before_anvil();
    let real = hash_of(&mut connection, json!("0x9"));
    let chain = node.invent_chain(&node.real_header(8), 200);
    check(
        "parent",
        &json!(chain[1].header.parent_hash),
        &json!(chain[0].hash),
    );
    let large = node.invent(&chain[199].header, |header| {
        header.extra_data = vec![7; 10_000].into();
    });
    let highest = node.invent(&large.header, |header| header.number = u64::MAX);
    let blocks: Vec<_> = [&chain[..], &[large, Arc::clone(&highest)]].concat();
    node.claim(Claims::chain(&blocks));
    for block in [&blocks[0], &blocks[1], &blocks[200], &blocks[201]] {
        verify(&mut connection, block);
    }
    // One account is rich, and it is the only one.
    for (account, balance) in [
        (INVENTED_ACCOUNT, json!("0xd3c21bcecceda1000000")),
        (Default::default(), json!("0x0")),
    ] {
        let params = json!([account, [B256::ZERO], highest.hash]);
        let proof = connection.result("eth_getProof", &params);
        check("balance", &proof["balance"], &balance);
        proofs::verify(&params, &proof, highest.header.state_root);
    }
    check("named", &node.heads_named(), &0);
    check("given", &node.blocks_given(), &4);
    for (block, expected) in [
        (json!("latest"), json!(highest.hash)),
        (json!("0xffffffffffffffff"), json!(highest.hash)),
        (json!("0x9"), json!(chain[0].hash)),
        (json!("0x8"), json!(chain[0].header.parent_hash)),
    ] {
        check(
            &block.to_string(),
            &hash_of(&mut connection, block),
            &expected,
        );
    }
    check("named", &node.heads_named(), &1);
    node.be_honest();
    check("honest", &hash_of(&mut connection, json!("0x9")), &real);
}

#[test]
fn a_node_that_is_cut_off_answers_as_before() {
    let (anvil, node, mut connection) = before_anvil();
    let (first, invented) = (hash_of(&mut connection, json!("0x1")), node.real_header(10));
    let chain = node.invent_chain(&invented, 3);
    let brief = Claims {
        is_brief: true,
        ..Claims::chain(&chain[..2])
    };
    node.claim(brief);
    node.cut_off();
    anvil.process.freeze();
    check(
        "remembered",
        &hash_of(&mut connection, json!("0x1")),
        &first,
    );
    let latest = connection.result("eth_getBlockByNumber", &json!(["latest", false]));
    let expected = json!({
        "number": "0xc",
        "hash": chain[1].hash,
        "parentHash": chain[0].hash,
        "timestamp": format!("{:#x}", chain[1].header.timestamp),
    });
    check("brief", &latest, &expected);
    let above = connection.result("eth_getBlockByNumber", &json!(["0xd", false]));
    check("above its head", &above, &Value::Null);
    anvil.process.thaw();
    node.be_honest();
    let latest = hash_of(&mut connection, json!("latest"));
    check("honest", &latest, &json!(chain[0].header.parent_hash));
}
