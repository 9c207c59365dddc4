//! The JSON Schemas of parameters: they accept what `rpc::params` and `rpc::log_query` read.
//!
//! What a schema cannot say, descriptions do: the sum of several lengths, and the order of blocks.

use nearhead_chain::fees::PERCENTILES_MAX;
use serde_json::{Map, Value, json};

use super::results::{or_null, reference};
use crate::limits::{STORAGE_KEYS_MAX, TOPICS_MAX};

/// The schemas by name.
pub(super) fn components() -> Map<String, Value> {
    let mut components = values();
    components.extend(blocks());
    components.extend(storage());
    components.extend(filters());
    components.extend(subscriptions());
    components
}

/// A list of named schemas.
pub(super) fn named<const N: usize>(schemas: [(&str, Value); N]) -> Map<String, Value> {
    let schemas = schemas.into_iter();
    schemas
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect()
}

fn values() -> Map<String, Value> {
    named([
        (
            "AddressInput",
            json!({
                "title": "address",
                "description": "20 bytes in hex of either case; a checksum is not checked",
                "type": "string",
                "pattern": "^0[xX][0-9a-fA-F]{40}$",
            }),
        ),
        (
            "HashInput",
            json!({
                "title": "hash",
                "description": "32 bytes in hex of either case",
                "type": "string",
                "pattern": "^0[xX][0-9a-fA-F]{64}$",
            }),
        ),
        (
            "IndexInput",
            json!({
                "title": "index",
                "description": "a quantity of up to 64 bits, without leading zeros",
                "type": "string",
                "pattern": "^0[xX](0|[1-9a-fA-F][0-9a-fA-F]{0,15})$",
            }),
        ),
        (
            "PercentilesInput",
            json!({
                "title": "percentiles",
                "description": "they ascend",
                "type": "array",
                "items": {"type": "number", "minimum": 0, "maximum": 100},
                "maxItems": PERCENTILES_MAX,
            }),
        ),
        ("Boolean", json!({"title": "boolean", "type": "boolean"})),
    ])
}

fn blocks() -> Map<String, Value> {
    let number_or_tag = reference("BlockNumberOrTag");
    named([
        (
            "BlockNumberInput",
            json!({
                "title": "block number",
                "description": "a quantity of at most 2^63-1, without leading zeros",
                "type": "string",
                "pattern": "^0[xX](0|[1-9a-fA-F][0-9a-fA-F]{0,14}|[1-7][0-9a-fA-F]{15})$",
            }),
        ),
        (
            "BlockTag",
            json!({
                "title": "block tag",
                "description": "earliest is the oldest block that is served; there is no pending \
                                block: as a block it is null, and as state it is the head's",
                "type": "string",
                "enum": ["latest", "safe", "finalized", "earliest", "pending"],
            }),
        ),
        (
            "BlockNumberOrTag",
            json!({
                "title": "block number or tag",
                "anyOf": [reference("BlockNumberInput"), reference("BlockTag")],
            }),
        ),
        (
            "BlockId",
            json!({
                "title": "block number, tag or hash, or an object of EIP-1898",
                "anyOf": [
                    number_or_tag,
                    reference("HashInput"),
                    {
                        "title": "block by hash",
                        "type": "object",
                        "required": ["blockHash"],
                        "properties": {
                            "blockHash": reference("HashInput"),
                            "blockNumber": {"type": "null"},
                            "requireCanonical": or_null("Boolean"),
                        },
                    },
                    {
                        "title": "block by number",
                        "type": "object",
                        "required": ["blockNumber"],
                        "properties": {
                            "blockHash": {"type": "null"},
                            "blockNumber": reference("BlockNumberOrTag"),
                        },
                    },
                ],
            }),
        ),
        ("OptionalBlockId", or_null("BlockId")),
    ])
}

fn storage() -> Map<String, Value> {
    named([
        (
            "StorageKeyInput",
            json!({
                "title": "storage key",
                "description": "up to 32 bytes in hex, padded on the left; the prefix is optional",
                "type": "string",
                "pattern": "^(0[xX])?[0-9a-fA-F]{0,64}$",
            }),
        ),
        (
            "StorageKeysInput",
            json!({
                "title": "storage keys",
                "description": "null is an empty array",
                "anyOf": [
                    {"type": "null"},
                    {
                        "type": "array",
                        "maxItems": STORAGE_KEYS_MAX,
                        "items": reference("StorageKeyInput"),
                    },
                ],
            }),
        ),
        (
            "StorageRequests",
            json!({
                "title": "storage keys by address",
                "description": format!("at most {STORAGE_KEYS_MAX} keys in all"),
                "type": "object",
                "minProperties": 1,
                "maxProperties": STORAGE_KEYS_MAX,
                "propertyNames": reference("AddressInput"),
                "additionalProperties": {
                    "type": "array",
                    "maxItems": STORAGE_KEYS_MAX,
                    "items": reference("StorageKeyInput"),
                },
            }),
        ),
    ])
}

fn filters() -> Map<String, Value> {
    let addresses = json!({
        "title": "addresses",
        "description": "null and an empty array match any",
        "anyOf": [
            {"type": "null"},
            reference("AddressInput"),
            {"type": "array", "items": reference("AddressInput")},
        ],
    });
    let topics = json!({
        "title": "topics by position",
        "description": "null, an empty array and one with null in it match any",
        "anyOf": [
            {"type": "null"},
            {
                "type": "array",
                "maxItems": TOPICS_MAX,
                "items": {
                    "anyOf": [
                        {"type": "null"},
                        reference("HashInput"),
                        {"type": "array", "items": or_null("HashInput")},
                    ],
                },
            },
        ],
    });
    let filter = json!({
        "title": "filter",
        "description": "of one block, or of a range whose bounds are latest unless they are given; \
                        at most 5,000 addresses and topics",
        "type": "object",
        "properties": {"address": addresses, "topics": topics},
        "anyOf": [
            {
                "title": "of one block",
                "required": ["blockHash"],
                "properties": {
                    "blockHash": reference("HashInput"),
                    "fromBlock": {"type": "null"},
                    "toBlock": {"type": "null"},
                },
            },
            {
                "title": "of a range of blocks",
                "properties": {
                    "blockHash": {"type": "null"},
                    "fromBlock": or_null("BlockNumberOrTag"),
                    "toBlock": or_null("BlockNumberOrTag"),
                },
            },
        ],
    });
    let id = json!({"title": "id of a filter", "type": "string"});
    named([("Filter", filter), ("FilterIdInput", id)])
}

fn subscriptions() -> Map<String, Value> {
    named([
        (
            "SubscriptionKind",
            json!({
                "title": "what to subscribe to",
                "type": "string",
                "enum": ["newHeads", "logs", "reorgs"],
            }),
        ),
        (
            "SubscriptionOptions",
            json!({
                "title": "options",
                "type": ["object", "null"],
                "properties": {"since": or_null("HashInput")},
                "additionalProperties": false,
            }),
        ),
        (
            "SubscriptionFilterOrOptions",
            json!({
                "title": "filter or options",
                "description": "of logs, a filter, whose blocks are ignored; of other kinds, the \
                                options",
                "anyOf": [
                    {"type": "null"},
                    {
                        "allOf": [reference("Filter")],
                        "properties": {"since": {"type": "null"}},
                    },
                    reference("SubscriptionOptions"),
                ],
            }),
        ),
        (
            "SubscriptionIdInput",
            json!({"title": "id of a subscription", "type": "string"}),
        ),
    ])
}
