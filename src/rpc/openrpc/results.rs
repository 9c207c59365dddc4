//! The JSON Schemas of results: what `nearhead_chain::encode` writes, and nothing else.

use serde_json::{Map, Value, json};

use crate::rpc::methods::companion::RESOURCES;

/// A reference to a schema of the document.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A schema of the document, or null.
pub(super) fn or_null(name: &str) -> Value {
    json!({"anyOf": [{"type": "null"}, reference(name)]})
}

/// A result that is null if there is no such thing.
fn found(name: &str) -> (String, Value) {
    (format!("{name}OrNull"), or_null(name))
}

fn list(name: &str) -> Value {
    json!({"type": "array", "items": reference(name)})
}

/// An object with these members and no others.
struct Members(Map<String, Value>, Vec<String>);

impl Members {
    fn none() -> Self {
        Self(Map::new(), Vec::new())
    }

    /// Adds members that every object has, each with the name of its schema.
    fn with<const N: usize>(mut self, members: [(&str, &str); N]) -> Self {
        for (name, schema) in members {
            self = self.and(name, reference(schema));
        }
        self
    }

    /// Adds a member that every object has.
    fn and(mut self, name: &str, schema: Value) -> Self {
        self.0.insert(name.to_owned(), schema);
        self.1.push(name.to_owned());
        self
    }

    /// Adds members that some objects have.
    fn perhaps<const N: usize>(mut self, members: [(&str, Value); N]) -> Self {
        let members = members.into_iter();
        self.0
            .extend(members.map(|(name, schema)| (name.to_owned(), schema)));
        self
    }

    fn object(self, title: &str) -> Value {
        json!({
            "title": title,
            "type": "object",
            "properties": self.0,
            "required": self.1,
            "additionalProperties": false,
        })
    }
}

/// The schemas by name.
pub(super) fn components() -> Map<String, Value> {
    let mut components: Map<String, Value> = values().into_iter().collect();
    components.extend(transactions());
    let named = [
        ("Withdrawal", withdrawal()),
        ("Block", block()),
        ("Uncle", uncle()),
        ("Log", log()),
        ("Logs", list("Log")),
        ("ChangedLog", changed_log()),
        ("FilterChanges", filter_changes()),
        ("Receipt", receipt()),
        ("Receipts", list("Receipt")),
        ("RawReceipts", list("Data")),
        ("AccountAccess", account_access()),
        ("BlockAccessList", list("AccountAccess")),
        ("StorageProof", storage_proof()),
        ("AccountProof", account_proof()),
        ("StorageValues", storage_values()),
        ("Syncing", syncing()),
        ("Capabilities", capabilities()),
        ("FeeHistory", fee_history()),
        ("ForkConfig", fork_config()),
        ("ForkConfigs", fork_configs()),
        ("CallAccessList", call_access_list()),
        ("SimulatedCall", simulated_call()),
        ("SimulatedBlock", simulated_block()),
        ("SimulatedBlocks", list("SimulatedBlock")),
        ("Accounts", json!({"type": "array", "maxItems": 0})),
        ("True", json!({"const": true})),
        ("Document", document()),
    ];
    components.extend(
        named
            .into_iter()
            .map(|(name, schema)| (name.to_owned(), schema)),
    );
    components.extend(
        [
            "Block",
            "Uncle",
            "Transaction",
            "Receipt",
            "Receipts",
            "BlockAccessList",
            "Quantity",
            "ForkConfig",
        ]
        .map(found),
    );
    components
}

/// Strings. All hex digits are in lower case.
fn values() -> [(String, Value); 12] {
    [
        ("Quantity", "^0x(0|[1-9a-f][0-9a-f]*)$", "a number"),
        ("Data", "^0x([0-9a-f]{2})*$", "bytes"),
        ("Address", "^0x[0-9a-f]{40}$", "an address"),
        ("Hash", "^0x[0-9a-f]{64}$", "32 bytes"),
        ("Bloom", "^0x[0-9a-f]{512}$", "a bloom filter"),
        ("Nonce", "^0x[0-9a-f]{16}$", "the nonce of a header"),
        ("ForkId", "^0x[0-9a-f]{8}$", "the id of a fork (EIP-6122)"),
        (
            "StorageKey",
            "^0x(0|[1-9a-f][0-9a-f]*|[0-9a-f]{64})$",
            "a storage key: as 32 bytes if the request has it so, otherwise as a number",
        ),
        ("Bit", "^0x[01]$", "0 or 1"),
        ("SubscriptionId", "^0x[0-9a-f]{32}$", "a subscription's id"),
        ("NetworkId", "^[0-9]+$", "the chain id in decimal digits"),
        ("ClientVersion", "^nearhead/v", "the name and the version"),
    ]
    .map(|(name, pattern, description)| {
        let schema = json!({"type": "string", "pattern": pattern, "description": description});
        (name.to_owned(), schema)
    })
}

fn withdrawal() -> Value {
    let members = [
        ("index", "Quantity"),
        ("validatorIndex", "Quantity"),
        ("address", "Address"),
        ("amount", "Quantity"),
    ];
    Members::none().with(members).object("withdrawal")
}

fn capabilities() -> Value {
    let strategy = Members::none()
        .and("type", json!({"const": "window"}))
        .with([("retentionBlocks", "Quantity")])
        .object("delete strategy");
    let resource = Members::none()
        .and("disabled", json!({"const": false}))
        .with([("oldestBlock", "Quantity")])
        .and("deleteStrategy", strategy)
        .object("resource");
    let head = Members::none().with([("number", "Quantity"), ("hash", "Hash")]);
    let mut members = Members::none().and("head", head.object("head"));
    for name in RESOURCES {
        members = members.and(name, resource.clone());
    }
    members.object("capabilities")
}

/// The configuration of a fork (EIP-7910), of which only those before Cancun have no blobs.
fn fork_config() -> Value {
    let number = json!({"type": "integer", "minimum": 0});
    let blobs = ["target", "max", "baseFeeUpdateFraction"];
    let blobs = blobs.into_iter().fold(Members::none(), |members, name| {
        members.and(name, number.clone())
    });
    let blobs = blobs.object("blob schedule");
    let addresses = json!({"type": "object", "additionalProperties": reference("Address")});
    Members::none()
        .and("activationTime", json!({"type": "number", "minimum": 0}))
        .and("blobSchedule", json!({"anyOf": [blobs, {"type": "null"}]}))
        .with([("chainId", "Quantity"), ("forkId", "ForkId")])
        .and("precompiles", addresses.clone())
        .and("systemContracts", addresses)
        .object("configuration of a fork")
}

fn fork_configs() -> Value {
    let names = ["current", "next", "last"];
    let members = names.map(|name| (name, "ForkConfigOrNull"));
    Members::none()
        .with(members)
        .object("configurations of forks")
}

fn call_access_list() -> Value {
    Members::none()
        .with([("gasUsed", "Quantity")])
        .and("accessList", list("AccessListItem"))
        .perhaps([("error", json!({"type": "string"}))])
        .object("access list of a call")
}

/// What a block did with an account (EIP-7928).
fn account_access() -> Value {
    let changes = |title: &str, value: (&str, &str)| {
        let members = [("index", "Quantity"), value];
        json!({"type": "array", "items": Members::none().with(members).object(title)})
    };
    let slot = Members::none()
        .with([("key", "Hash")])
        .and("changes", changes("storage change", ("value", "Hash")))
        .object("changes of a slot");
    let value = ("value", "Quantity");
    Members::none()
        .with([("address", "Address")])
        .and("storageChanges", json!({"type": "array", "items": slot}))
        .and("storageReads", list("Hash"))
        .and("balanceChanges", changes("balance change", value))
        .and("nonceChanges", changes("nonce change", value))
        .and("codeChanges", changes("code change", ("code", "Data")))
        .object("account access")
}

fn fee_history() -> Value {
    let ratios = json!({"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}});
    let fees = list("Quantity");
    Members::none()
        .with([("oldestBlock", "Quantity")])
        .and("baseFeePerGas", fees.clone())
        .and("gasUsedRatio", ratios.clone())
        .perhaps([
            ("reward", json!({"type": "array", "items": fees})),
            ("baseFeePerBlobGas", fees),
            ("blobGasUsedRatio", ratios),
        ])
        .object("fee history")
}

/// The members of a header, some of which came with forks.
fn header() -> Members {
    let quantity = || reference("Quantity");
    let hash = || reference("Hash");
    Members::none()
        .with([
            ("difficulty", "Quantity"),
            ("extraData", "Data"),
            ("gasLimit", "Quantity"),
            ("gasUsed", "Quantity"),
            ("hash", "Hash"),
            ("logsBloom", "Bloom"),
            ("miner", "Address"),
            ("mixHash", "Hash"),
            ("nonce", "Nonce"),
            ("number", "Quantity"),
            ("parentHash", "Hash"),
            ("receiptsRoot", "Hash"),
            ("sha3Uncles", "Hash"),
            ("size", "Quantity"),
            ("stateRoot", "Hash"),
            ("timestamp", "Quantity"),
            ("transactionsRoot", "Hash"),
        ])
        .perhaps([
            ("baseFeePerGas", quantity()),
            ("blobGasUsed", quantity()),
            ("blockAccessListHash", hash()),
            ("excessBlobGas", quantity()),
            ("parentBeaconBlockRoot", hash()),
            ("requestsHash", hash()),
            ("slotNumber", quantity()),
            ("totalDifficulty", or_null("Quantity")),
            ("withdrawalsRoot", hash()),
        ])
}

fn block() -> Value {
    block_members().object("block")
}

fn block_members() -> Members {
    let transactions = json!({"anyOf": [list("Hash"), list("Transaction")]});
    header()
        .and("transactions", transactions)
        .and("uncles", list("Hash"))
        .perhaps([("withdrawals", list("Withdrawal"))])
}

fn simulated_block() -> Value {
    block_members()
        .and("calls", list("SimulatedCall"))
        .object("simulated block")
}

fn simulated_call() -> Value {
    let error = Members::none()
        .and("message", json!({"type": "string"}))
        .and("code", json!({"type": "integer"}))
        .perhaps([("data", reference("Data"))])
        .object("why a call failed");
    Members::none()
        .with([
            ("returnData", "Data"),
            ("gasUsed", "Quantity"),
            ("maxUsedGas", "Quantity"),
            ("status", "Bit"),
        ])
        .and("logs", list("Log"))
        .perhaps([("error", error)])
        .object("call of a simulated block")
}

fn uncle() -> Value {
    let none = json!({"type": "array", "maxItems": 0});
    header().and("uncles", none).object("uncle")
}

/// The members that transactions of all types have; `kind` is the type.
fn transaction(kind: &str) -> Members {
    Members::none()
        .with([
            ("blockHash", "Hash"),
            ("blockNumber", "Quantity"),
            ("blockTimestamp", "Quantity"),
            ("from", "Address"),
            ("gas", "Quantity"),
            ("gasPrice", "Quantity"),
            ("hash", "Hash"),
            ("input", "Data"),
            ("nonce", "Quantity"),
            ("r", "Quantity"),
            ("s", "Quantity"),
            ("transactionIndex", "Quantity"),
            ("v", "Quantity"),
            ("value", "Quantity"),
        ])
        .and("to", or_null("Address"))
        .and("type", json!({"const": kind}))
}

/// The members that transactions of all types but the first one have.
fn typed(kind: &str) -> Members {
    transaction(kind)
        .and("accessList", list("AccessListItem"))
        .with([("chainId", "Quantity"), ("yParity", "Bit")])
}

fn dynamic_fee(kind: &str) -> Members {
    typed(kind).with([
        ("maxFeePerGas", "Quantity"),
        ("maxPriorityFeePerGas", "Quantity"),
    ])
}

fn transactions() -> Map<String, Value> {
    let item = Members::none()
        .with([("address", "Address")])
        .and("storageKeys", list("Hash"));
    let authorization = Members::none().with([
        ("address", "Address"),
        ("chainId", "Quantity"),
        ("nonce", "Quantity"),
        ("r", "Quantity"),
        ("s", "Quantity"),
        ("yParity", "Quantity"),
    ]);
    let legacy = transaction("0x0").perhaps([("chainId", reference("Quantity"))]);
    let blob = dynamic_fee("0x3")
        .with([("maxFeePerBlobGas", "Quantity")])
        .and("blobVersionedHashes", list("Hash"));
    let set_code = dynamic_fee("0x4").and("authorizationList", list("Authorization"));
    let types = [
        ("LegacyTransaction", legacy.object("legacy transaction")),
        (
            "AccessListTransaction",
            typed("0x1").object("transaction of EIP-2930"),
        ),
        (
            "DynamicFeeTransaction",
            dynamic_fee("0x2").object("transaction of EIP-1559"),
        ),
        ("BlobTransaction", blob.object("transaction of EIP-4844")),
        (
            "SetCodeTransaction",
            set_code.object("transaction of EIP-7702"),
        ),
    ];
    let any: Vec<Value> = types.iter().map(|(name, _)| reference(name)).collect();
    let others = [
        ("AccessListItem", item.object("item of an access list")),
        ("Authorization", authorization.object("authorization")),
        ("Transaction", json!({"title": "transaction", "oneOf": any})),
    ];
    let all = types.into_iter().chain(others);
    all.map(|(name, schema)| (name.to_owned(), schema))
        .collect()
}

fn log() -> Value {
    log_members()
        .and("removed", json!({"const": false}))
        .object("log")
}

/// A log that a filter found: `removed` is true if its block was reverted.
fn changed_log() -> Value {
    log_members()
        .and("removed", reference("Boolean"))
        .object("log, or removed log")
}

fn filter_changes() -> Value {
    json!({
        "title": "hashes of blocks, or logs: first those that were removed",
        "anyOf": [list("Hash"), list("ChangedLog")],
    })
}

fn log_members() -> Members {
    Members::none()
        .with([
            ("address", "Address"),
            ("blockHash", "Hash"),
            ("blockNumber", "Quantity"),
            ("blockTimestamp", "Quantity"),
            ("data", "Data"),
            ("logIndex", "Quantity"),
            ("transactionHash", "Hash"),
            ("transactionIndex", "Quantity"),
        ])
        .and("topics", list("Hash"))
}

fn receipt() -> Value {
    let mut receipt = Members::none()
        .with([
            ("blockHash", "Hash"),
            ("blockNumber", "Quantity"),
            ("cumulativeGasUsed", "Quantity"),
            ("effectiveGasPrice", "Quantity"),
            ("from", "Address"),
            ("gasUsed", "Quantity"),
            ("logsBloom", "Bloom"),
            ("transactionHash", "Hash"),
            ("transactionIndex", "Quantity"),
            ("type", "Quantity"),
        ])
        .and("contractAddress", or_null("Address"))
        .and("logs", list("Log"))
        .and("to", or_null("Address"))
        .perhaps([
            ("blobGasPrice", reference("Quantity")),
            ("blobGasUsed", reference("Quantity")),
            ("root", reference("Hash")),
            ("status", reference("Bit")),
        ])
        .object("receipt");
    // Before Byzantium, a receipt has a state root instead of a status.
    receipt["oneOf"] = json!([{"required": ["status"]}, {"required": ["root"]}]);
    receipt
}

fn storage_proof() -> Value {
    Members::none()
        .with([("key", "StorageKey"), ("value", "Quantity")])
        .and("proof", list("Data"))
        .object("storage proof")
}

fn account_proof() -> Value {
    Members::none()
        .with([
            ("address", "Address"),
            ("balance", "Quantity"),
            ("codeHash", "Hash"),
            ("nonce", "Quantity"),
            ("storageHash", "Hash"),
        ])
        .and("accountProof", list("Data"))
        .and("storageProof", list("StorageProof"))
        .object("account proof")
}

fn storage_values() -> Value {
    json!({
        "title": "slots by address",
        "type": "object",
        "propertyNames": reference("Address"),
        "additionalProperties": list("Hash"),
    })
}

fn syncing() -> Value {
    let stale = Members::none().with([
        ("currentBlock", "Quantity"),
        ("highestBlock", "Quantity"),
        ("startingBlock", "Quantity"),
    ]);
    json!({
        "title": "false, or an object while the head is stale",
        "anyOf": [{"const": false}, stale.object("numbers of the head")],
    })
}

fn document() -> Value {
    json!({
        "title": "OpenRPC document",
        "type": "object",
        "required": ["openrpc", "info", "methods"],
    })
}
