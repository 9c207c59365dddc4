//! The JSON Schemas of calls and their overrides: they accept what `rpc::call_params` reads.

use serde_json::{Map, Value, json};

use super::{
    parameters::named,
    results::{or_null, reference},
};

/// The schemas by name.
pub(super) fn components() -> Map<String, Value> {
    let mut components = named([
        ("CallInput", call()),
        ("StateOverrides", state_overrides()),
        ("BlockOverrides", block_overrides()),
        ("SimulationInput", simulation()),
        ("OptionalStateOverrides", or_null("StateOverrides")),
        ("OptionalBlockOverrides", or_null("BlockOverrides")),
        (
            "DataInput",
            json!({
                "title": "data",
                "description": "bytes in hex of either case",
                "type": "string",
                "pattern": "^0[xX]([0-9a-fA-F]{2})*$",
            }),
        ),
    ]);
    components.extend(named([
        ("QuantityOf128Bits", quantity(128)),
        ("QuantityOf256Bits", quantity(256)),
    ]));
    components
}

fn quantity(bits: usize) -> Value {
    let further = bits / 4 - 1;
    json!({
        "title": format!("quantity of up to {bits} bits"),
        "description": "without leading zeros",
        "type": "string",
        "pattern": format!("^0[xX](0|[1-9a-fA-F][0-9a-fA-F]{{0,{further}}})$"),
    })
}

/// Members that may be absent or null.
fn optional<const N: usize>(members: [(&str, &str); N]) -> Map<String, Value> {
    named(members.map(|(name, schema)| (name, or_null(schema))))
}

fn lists(of: Value) -> Value {
    json!({"anyOf": [{"type": "null"}, {"type": "array", "items": of}]})
}

fn call() -> Value {
    let access_list_item = json!({
        "title": "account and slots",
        "type": "object",
        "required": ["address"],
        "properties": {
            "address": reference("AddressInput"),
            "storageKeys": lists(reference("HashInput")),
        },
    });
    let authorization = json!({
        "title": "authorization",
        "type": "object",
        "required": ["chainId", "address", "nonce", "yParity", "r", "s"],
        "properties": {
            "chainId": reference("QuantityOf256Bits"),
            "address": reference("AddressInput"),
            "nonce": reference("IndexInput"),
            "yParity": reference("IndexInput"),
            "r": reference("QuantityOf256Bits"),
            "s": reference("QuantityOf256Bits"),
        },
    });
    let mut members = optional([
        ("from", "AddressInput"),
        ("to", "AddressInput"),
        ("gas", "IndexInput"),
        ("gasPrice", "QuantityOf128Bits"),
        ("maxFeePerGas", "QuantityOf128Bits"),
        ("maxPriorityFeePerGas", "QuantityOf128Bits"),
        ("maxFeePerBlobGas", "QuantityOf128Bits"),
        ("value", "QuantityOf256Bits"),
        ("input", "DataInput"),
        ("data", "DataInput"),
        ("nonce", "IndexInput"),
        ("chainId", "IndexInput"),
    ]);
    members.extend(named([
        ("accessList", lists(access_list_item)),
        ("blobVersionedHashes", lists(reference("HashInput"))),
        ("authorizationList", lists(authorization)),
    ]));
    json!({
        "title": "call",
        "description": "what a transaction would say; its nonce is checked by a simulation that \
                        validates alone, data is the older name of input, and gasPrice excludes \
                        the other two prices of gas",
        "type": "object",
        "properties": members,
    })
}

fn state_overrides() -> Value {
    let slots = json!({
        "anyOf": [
            {"type": "null"},
            {
                "type": "object",
                "propertyNames": reference("HashInput"),
                "additionalProperties": reference("HashInput"),
            },
        ],
    });
    let mut members = optional([
        ("balance", "QuantityOf256Bits"),
        ("nonce", "IndexInput"),
        ("code", "DataInput"),
        ("movePrecompileToAddress", "AddressInput"),
    ]);
    members.extend(named([("state", slots.clone()), ("stateDiff", slots)]));
    json!({
        "title": "state overrides",
        "description": "by address; state is the whole storage, stateDiff some slots of it",
        "type": "object",
        "propertyNames": reference("AddressInput"),
        "additionalProperties": {"title": "account", "type": "object", "properties": members},
    })
}

fn block_overrides() -> Value {
    json!({
        "title": "block overrides",
        "type": "object",
        "properties": overridden_members(),
    })
}

fn overridden_members() -> Map<String, Value> {
    optional([
        ("number", "IndexInput"),
        ("time", "IndexInput"),
        ("gasLimit", "IndexInput"),
        ("feeRecipient", "AddressInput"),
        ("prevRandao", "HashInput"),
        ("difficulty", "QuantityOf256Bits"),
        ("baseFeePerGas", "IndexInput"),
        ("blobBaseFee", "QuantityOf128Bits"),
    ])
}

fn simulation() -> Value {
    let withdrawal = json!({
        "title": "withdrawal",
        "type": "object",
        "required": ["index", "validatorIndex", "address", "amount"],
        "properties": named([
            ("index", reference("IndexInput")),
            ("validatorIndex", reference("IndexInput")),
            ("address", reference("AddressInput")),
            ("amount", reference("IndexInput")),
        ]),
    });
    let mut overrides = overridden_members();
    overrides.extend(optional([("beaconRoot", "HashInput")]));
    overrides.extend(named([("withdrawals", lists(withdrawal))]));
    let overrides = json!({
        "anyOf": [{"type": "null"}, {"type": "object", "properties": overrides}],
    });
    let block = json!({
        "title": "block to simulate",
        "type": "object",
        "properties": named([
            ("calls", lists(reference("CallInput"))),
            ("stateOverrides", reference("OptionalStateOverrides")),
            ("blockOverrides", overrides),
        ]),
    });
    let flag = json!({"type": ["boolean", "null"]});
    json!({
        "title": "simulation",
        "description": "at most 256 blocks, those in gaps included, 5,000 calls in a block and \
                        10,000 in all",
        "type": "object",
        "required": ["blockStateCalls"],
        "properties": named([
            ("blockStateCalls", json!({"type": "array", "minItems": 1, "items": block})),
            ("traceTransfers", flag.clone()),
            ("validation", flag.clone()),
            ("returnFullTransactions", flag),
        ]),
    })
}
