//! A geth that makes blocks of given transactions, on a chain with access lists (EIP-7928).
//!
//! geth 1.17.4 makes such lists, and gives them to who builds a block, but has no
//! eth_getBlockAccessList. A proxy before it answers this method with them.

use std::path::Path;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde_json::{Value, json};

use super::{Genesis, Geth, proxy::Proxy, quantity};
use crate::harness::{Connection, check};

/// Seconds from one block to the next; a merge gets half of it.
const BLOCK_TIME: u64 = 12;

/// Who gets a withdrawal in each block.
pub(crate) const WITHDRAWAL_RECIPIENT: Address = Address::with_last_byte(0xaa);

/// A geth, the proxy before it, and what the next block needs.
pub(crate) struct ListingGeth {
    pub(crate) proxy: Proxy,
    connection: Connection,
    geth: Geth,
    time: u64,
}

impl ListingGeth {
    /// A geth at this genesis, in a folder below this one. Blocks have access lists from the second
    /// one on.
    pub(crate) fn at_genesis(folder: &Path, mut genesis: Genesis) -> Self {
        let time = genesis.timestamp();
        genesis.begin_amsterdam(time + BLOCK_TIME + 1);
        let geth = Geth::at_genesis(&folder.join("geth"), &genesis.write(folder));
        Self {
            proxy: Proxy::to(&[geth.address]),
            connection: geth.connect(),
            geth,
            time,
        }
    }

    /// Opens a connection for calls, to geth itself.
    pub(crate) fn connect(&self) -> Connection {
        self.geth.connect()
    }

    /// Makes a block of these transactions, and the proxy give its access list; returns its hash,
    /// and the list if it has one.
    pub(crate) fn make_block(&mut self, transactions: &[Bytes]) -> (B256, Option<Value>) {
        self.time += BLOCK_TIME;
        let latest = json!(["latest", false]);
        let parent = self.connection.result("eth_getBlockByNumber", &latest);
        let number = quantity(&parent["number"]) + 1;
        let attributes = json!({
            "timestamp": format!("{:#x}", self.time),
            "prevRandao": B256::from(U256::from(number)),
            "suggestedFeeRecipient": "0x000000000000000000000000000000000000fee5",
            "withdrawals": [{
                "index": format!("{number:#x}"),
                "validatorIndex": "0x7",
                "address": WITHDRAWAL_RECIPIENT,
                "amount": format!("{number:#x}"),
            }],
            "parentBeaconBlockRoot": B256::from(U256::from(self.time)),
            "slotNumber": format!("{number:#x}"),
        });
        let build = json!([parent["hash"], attributes, transactions, "0x"]);
        let built = self.connection.result("testing_buildBlockV1", &build);
        let payload = &built["executionPayload"];
        let included = payload["transactions"].as_array().unwrap().len();
        check("transactions", &included, &transactions.len());
        let list = payload["blockAccessList"].as_array();
        let hash = payload["blockHash"].as_str().unwrap();
        // Before it is the head, so that a follower finds it; in geth's own form.
        if let Some(list) = list {
            self.proxy
                .answer("eth_getBlockAccessList", hash, json!(list));
        }
        let list = list.map(|accounts| accounts.iter().map(as_specified).collect());
        let commit = json!([attributes, transactions, "0x"]);
        let committed = self.connection.result("testing_commitBlockV1", &commit);
        check("hash", &committed, &json!(hash));
        (hash.parse().unwrap(), list)
    }
}

/// An account of a list with the names and the forms of execution-apis, where geth has others.
fn as_specified(account: &Value) -> Value {
    let word = |value: &Value| json!(B256::from(value.as_str().unwrap().parse::<U256>().unwrap()));
    let changes = |of: &Value, theirs: &str, ours: &str, form: &dyn Fn(&Value) -> Value| {
        let change = |change: &Value| json!({"index": change["blockAccessIndex"], ours: form(&change[theirs])});
        of.as_array()
            .map_or(json!([]), |of| of.iter().map(change).collect())
    };
    let slot = |slot: &Value| {
        let changes = changes(&slot["slotChanges"], "postValue", "value", &word);
        json!({"key": word(&slot["slot"]), "changes": changes})
    };
    let each = |name: &str, form: &dyn Fn(&Value) -> Value| -> Value {
        let items = account[name].as_array();
        items.map_or(json!([]), |items| items.iter().map(form).collect())
    };
    json!({
        "address": account["address"],
        "storageChanges": each("storageChanges", &slot),
        "storageReads": each("storageReads", &word),
        "balanceChanges": changes(&account["balanceChanges"], "postBalance", "value", &Value::clone),
        "nonceChanges": changes(&account["nonceChanges"], "postNonce", "value", &Value::clone),
        "codeChanges": changes(&account["codeChanges"], "newCode", "code", &Value::clone),
    })
}
