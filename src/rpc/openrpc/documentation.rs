//! What the document says of each method, in the order of the registry. Names of parameters and
//! results are those of execution-apis where it has the method.

use nearhead_chain::call::SimulationErrorKind;

use super::errors::Error;

/// What the document says of a method besides its name, price and examples.
pub(super) struct Documentation {
    /// The method.
    pub(super) method: &'static str,
    /// What it answers, in one sentence.
    pub(super) summary: &'static str,
    /// The parameters in their order.
    pub(super) parameters: &'static [Parameter],
    /// Name and schema of the result.
    pub(super) result: (&'static str, &'static str),
    /// The errors of its own.
    pub(super) errors: &'static [Error],
}

/// A parameter.
pub(super) struct Parameter {
    /// Its name; parameters are given by position.
    pub(super) name: &'static str,
    /// The name of its schema.
    pub(super) schema: &'static str,
    /// Whether it has to be given. One that need not be may be null, too.
    pub(super) required: bool,
}

impl Parameter {
    const fn required(name: &'static str, schema: &'static str) -> Self {
        Self {
            name,
            schema,
            required: true,
        }
    }

    const fn optional(name: &'static str, schema: &'static str) -> Self {
        Self {
            name,
            schema,
            required: false,
        }
    }
}

const ADDRESS: Parameter = Parameter::required("Address", "AddressInput");
const AT: Parameter = Parameter::optional("Block", "OptionalBlockId");
const CALL: Parameter = Parameter::required("Transaction", "CallInput");
const ACCOUNTS: Parameter = Parameter::optional("State overrides", "OptionalStateOverrides");
const BY_HASH: Parameter = Parameter::required("Block hash", "HashInput");
const BY_NUMBER: Parameter = Parameter::required("Block", "BlockNumberOrTag");
const FILTER_ID: Parameter = Parameter::required("Filter identifier", "FilterIdInput");
const HYDRATED: Parameter = Parameter::required("Hydrated transactions", "Boolean");
const TRANSACTION_HASH: Parameter = Parameter::required("Transaction hash", "HashInput");
const TRANSACTION_INDEX: Parameter = Parameter::required("Transaction index", "IndexInput");
const UNCLE_INDEX: Parameter = Parameter::required("Uncle index", "IndexInput");

const BLOCK: (&str, &str) = ("Block information", "BlockOrNull");
const TRANSACTION: (&str, &str) = ("Transaction information", "TransactionOrNull");
const UNCLE: (&str, &str) = ("Uncle information", "UncleOrNull");
const TRANSACTION_COUNT: (&str, &str) = ("Transaction count", "QuantityOrNull");
const NEW_FILTER: (&str, &str) = ("Filter identifier", "Quantity");
const UNCLE_COUNT: (&str, &str) = ("Uncle count", "QuantityOrNull");

const OF_HASH: &[Error] = &[Error::Limit, Error::Pruned];
const OF_NUMBER: &[Error] = &[Error::Limit, Error::Pruned, Error::UnknownTag];
const OF_SERVED_NUMBER: &[Error] = &[
    Error::Limit,
    Error::Pruned,
    Error::UnknownTag,
    Error::AboveHead,
];
const OF_STATE: &[Error] = &[Error::Limit, Error::Pruned, Error::UnknownTag, Error::State];
const OF_CALL: &[Error] = &[
    Error::CallLimit,
    Error::Pruned,
    Error::UnknownTag,
    Error::Call,
    Error::Reverted,
];
const OF_SIMULATION: &[Error] = &[
    Error::CallLimit,
    Error::Pruned,
    Error::UnknownTag,
    Error::Call,
    Error::Simulation(SimulationErrorKind::NonceTooLow),
    Error::Simulation(SimulationErrorKind::NonceTooHigh),
    Error::Simulation(SimulationErrorKind::FeeTooLow),
    Error::Simulation(SimulationErrorKind::IntrinsicGas),
    Error::Simulation(SimulationErrorKind::InsufficientFunds),
    Error::Simulation(SimulationErrorKind::BlockGasLimit),
    Error::Simulation(SimulationErrorKind::BlockNumber),
    Error::Simulation(SimulationErrorKind::BlockTime),
    Error::Simulation(SimulationErrorKind::InitcodeTooLong),
    Error::Simulation(SimulationErrorKind::TooMuch),
];
const OF_FEE_RULES: &[Error] = &[Error::Limit, Error::OtherFeeRules];
const OF_NOTHING: &[Error] = &[Error::Limit];

const fn method(
    method: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
    result: (&'static str, &'static str),
    errors: &'static [Error],
) -> Documentation {
    Documentation {
        method,
        summary,
        parameters,
        result,
        errors,
    }
}

/// `eth_sendRawTransaction`, which is served if it is forwarded.
#[rustfmt::skip]
pub(super) static SENDING: Documentation =
    method("eth_sendRawTransaction",
        "Checks a transaction, sends it to the nodes, and returns its hash, which is computed here.",
        &[Parameter::required("Transaction", "DataInput")], ("Transaction hash", "Hash"),
        &[Error::Limit, Error::Transaction]);

/// Every method, in the order of the registry.
#[rustfmt::skip]
pub(super) static DOCUMENTATION: &[Documentation] = &[
    method("eth_getBlockByHash",
        "Returns a block, with its transactions or their hashes.",
        &[BY_HASH, HYDRATED], BLOCK, OF_HASH),
    method("eth_getLogs",
        "Returns the logs that match a filter, in a block or in a range of blocks.",
        &[Parameter::required("Filter", "Filter")], ("Log objects", "Logs"),
        &[Error::QueryLimit, Error::Pruned, Error::UnknownTag, Error::UnknownLogsBlock]),
    method("eth_getProof",
        "Returns an account and storage slots with their Merkle proofs.",
        &[ADDRESS, Parameter::required("StorageKeys", "StorageKeysInput"), AT],
        ("Account", "AccountProof"), OF_STATE),
    method("eth_getStorageAt",
        "Returns a storage slot.",
        &[ADDRESS, Parameter::required("Storage slot", "StorageKeyInput"), AT],
        ("Value", "Hash"), OF_STATE),
    method("eth_getTransactionByBlockNumberAndIndex",
        "Returns a transaction, by its position in a block.",
        &[BY_NUMBER, TRANSACTION_INDEX], TRANSACTION, OF_NUMBER),
    method("eth_getTransactionReceipt",
        "Returns the receipt of a transaction.",
        &[TRANSACTION_HASH], ("Receipt information", "ReceiptOrNull"), OF_HASH),
    method("eth_getUncleByBlockHashAndIndex",
        "Returns an uncle's header, by its position in a block.",
        &[BY_HASH, UNCLE_INDEX], UNCLE, OF_HASH),
    method("debug_getRawBlock",
        "Returns a block in RLP.",
        &[BY_NUMBER], ("Block RLP", "Data"), OF_SERVED_NUMBER),
    method("debug_getRawHeader",
        "Returns a block's header in RLP.",
        &[BY_NUMBER], ("Header RLP", "Data"), OF_SERVED_NUMBER),
    method("debug_getRawReceipts",
        "Returns the receipts of a block, each in the encoding of EIP-2718.",
        &[BY_NUMBER], ("Receipts", "RawReceipts"), OF_SERVED_NUMBER),
    method("debug_getRawTransaction",
        "Returns a transaction in the encoding of EIP-2718, without blobs; no bytes if it is unknown.",
        &[TRANSACTION_HASH], ("EIP-2718 binary-encoded transaction", "Data"), OF_HASH),
    method("eth_accounts",
        "Returns an empty array: the service has no accounts of its own.",
        &[], ("Accounts", "Accounts"), OF_NOTHING),
    method("eth_baseFee",
        "Returns the base fee of the next block, in wei per unit of gas; null before London.",
        &[], ("Base fee", "QuantityOrNull"), OF_FEE_RULES),
    method("eth_blobBaseFee",
        "Returns the price of blob gas at the head, in wei per unit; null before Cancun.",
        &[], ("Blob gas base fee", "QuantityOrNull"), OF_FEE_RULES),
    method("eth_blockNumber",
        "Returns the number of the head.",
        &[], ("Block number", "Quantity"), OF_NOTHING),
    method("eth_call",
        "Returns what a call of a contract returns, on the state after a block.",
        &[CALL, AT, ACCOUNTS, Parameter::optional("Block overrides", "OptionalBlockOverrides")],
        ("Return data", "Data"), OF_CALL),
    method("eth_capabilities",
        "Returns the head, and the oldest block of which each kind of data is served.",
        &[], ("Capabilities", "Capabilities"), OF_NOTHING),
    method("eth_chainId",
        "Returns the chain id.",
        &[], ("Chain ID", "Quantity"), OF_NOTHING),
    method("eth_config",
        "Returns the configurations of the current fork, of the next one and of the last one.",
        &[], ("Configuration", "ForkConfigs"), &[Error::Limit, Error::Pruned, Error::OtherRules]),
    method("eth_createAccessList",
        "Returns the accounts and slots that a call reads, and the gas that it uses with that list.",
        &[CALL, AT, ACCOUNTS], ("Gas used", "CallAccessList"), OF_CALL),
    method("eth_estimateGas",
        "Returns the gas with which a call succeeds, up to 1.5% too much.",
        &[CALL, AT, ACCOUNTS, Parameter::optional("Block overrides", "OptionalBlockOverrides")],
        ("Gas used", "Quantity"), OF_CALL),
    method("eth_feeHistory",
        "Returns the fees of blocks that follow each other, of those of them that are in the window.",
        &[
            Parameter::required("blockCount", "IndexInput"),
            Parameter::required("newestBlock", "BlockNumberOrTag"),
            Parameter::required("rewardPercentiles", "PercentilesInput"),
        ],
        ("Fee history result", "FeeHistory"),
        &[Error::Limit, Error::Pruned, Error::UnknownTag, Error::AboveHead]),
    method("eth_gasPrice",
        "Returns the suggested priority fee and the head's base fee in one, in wei per unit of gas.",
        &[], ("Gas price", "Quantity"), OF_NOTHING),
    method("eth_getBalance",
        "Returns the balance of an account.",
        &[ADDRESS, AT], ("Balance", "Quantity"), OF_STATE),
    method("eth_getBlockAccessList",
        "Returns what a block read and changed, account by account (EIP-7928).",
        &[Parameter::required("Block", "BlockId")], ("Block access list", "BlockAccessListOrNull"),
        &[
            Error::Limit, Error::AccessListPruned, Error::UnknownTag, Error::NotCanonical,
            Error::NoAccessList,
        ]),
    method("eth_getBlockByNumber",
        "Returns a block, with its transactions or their hashes.",
        &[BY_NUMBER, HYDRATED], BLOCK, OF_NUMBER),
    method("eth_getBlockReceipts",
        "Returns the receipts of a block.",
        &[Parameter::required("Block", "BlockId")], ("Receipts information", "ReceiptsOrNull"),
        &[Error::Limit, Error::Pruned, Error::UnknownTag, Error::NotCanonical]),
    method("eth_getBlockTransactionCountByHash",
        "Returns the number of transactions in a block.",
        &[BY_HASH], TRANSACTION_COUNT, OF_HASH),
    method("eth_getBlockTransactionCountByNumber",
        "Returns the number of transactions in a block.",
        &[BY_NUMBER], TRANSACTION_COUNT, OF_NUMBER),
    method("eth_getCode",
        "Returns the code of an account.",
        &[ADDRESS, AT], ("Bytecode", "Data"), OF_STATE),
    method("eth_getFilterChanges",
        "Returns what a filter has found since the last answer: hashes of new blocks, or logs.",
        &[FILTER_ID], ("Log objects", "FilterChanges"),
        &[Error::QueryLimit, Error::FilterBehind, Error::UnknownFilter]),
    method("eth_getFilterLogs",
        "Returns the logs that match the filter of eth_newFilter now, as eth_getLogs does.",
        &[FILTER_ID], ("Log objects", "Logs"),
        &[Error::QueryLimit, Error::Pruned, Error::UnknownTag, Error::FilterWithoutLogs]),
    method("eth_getStorageValues",
        "Returns storage slots of several accounts.",
        &[Parameter::required("Requests", "StorageRequests"), AT],
        ("Values", "StorageValues"), OF_STATE),
    method("eth_getTransactionByBlockHashAndIndex",
        "Returns a transaction, by its position in a block.",
        &[BY_HASH, TRANSACTION_INDEX], TRANSACTION, OF_HASH),
    method("eth_getTransactionByHash",
        "Returns a transaction.",
        &[TRANSACTION_HASH], TRANSACTION, OF_HASH),
    method("eth_getTransactionCount",
        "Returns the nonce of an account.",
        &[ADDRESS, AT], ("Account nonce", "Quantity"), OF_STATE),
    method("eth_getUncleByBlockNumberAndIndex",
        "Returns an uncle's header, by its position in a block.",
        &[BY_NUMBER, UNCLE_INDEX], UNCLE, OF_NUMBER),
    method("eth_getUncleCountByBlockHash",
        "Returns the number of uncles in a block.",
        &[BY_HASH], UNCLE_COUNT, OF_HASH),
    method("eth_getUncleCountByBlockNumber",
        "Returns the number of uncles in a block.",
        &[BY_NUMBER], UNCLE_COUNT, OF_NUMBER),
    method("eth_maxPriorityFeePerGas",
        "Returns the suggested priority fee, in wei per unit of gas.",
        &[], ("Max priority fee per gas", "Quantity"), OF_NOTHING),
    method("eth_newBlockFilter",
        "Makes a filter that finds the hashes of new blocks, and returns its id.",
        &[], NEW_FILTER, &[Error::Limit, Error::FilterLimit]),
    method("eth_newFilter",
        "Makes a filter that finds the logs of new blocks, and those that are removed; returns its id.",
        &[Parameter::required("Filter", "Filter")], NEW_FILTER,
        &[Error::Limit, Error::FilterLimit]),
    method("eth_simulateV1",
        "Returns blocks of calls that do not exist, as they would follow a block, and what each call \
         does there. A state root that cannot be computed is zero.",
        &[
            Parameter::required("Payload", "SimulationInput"),
            Parameter::optional("Block tag", "OptionalBlockId"),
        ],
        ("Result of calls", "SimulatedBlocks"), OF_SIMULATION),
    method("eth_subscribe",
        "Subscribes a WebSocket session to new heads, logs or reorgs, and returns the id.",
        &[
            Parameter::required("Kind", "SubscriptionKind"),
            Parameter::optional("Filter or options", "SubscriptionFilterOrOptions"),
            Parameter::optional("Options", "SubscriptionOptions"),
        ],
        ("Subscription ID", "SubscriptionId"),
        &[Error::Limit, Error::Pruned, Error::NeedsSession, Error::SessionLimit]),
    method("eth_syncing",
        "Returns false, or the number of the head if it is stale.",
        &[], ("Syncing status", "Syncing"), OF_NOTHING),
    method("eth_uninstallFilter",
        "Removes a filter. Returns whether there was one.",
        &[FILTER_ID], ("Success", "Boolean"), OF_NOTHING),
    method("eth_unsubscribe",
        "Ends a subscription of the session.",
        &[Parameter::required("Subscription ID", "SubscriptionIdInput")], ("Ended", "True"),
        &[Error::Limit, Error::NeedsSession, Error::UnknownSubscription]),
    method("net_listening",
        "Returns true.",
        &[], ("Listening", "True"), OF_NOTHING),
    method("net_version",
        "Returns the chain id in decimal digits.",
        &[], ("Network ID", "NetworkId"), OF_NOTHING),
    method("rpc.discover",
        "Returns this document.",
        &[], ("OpenRPC document", "Document"), OF_NOTHING),
    method("web3_clientVersion",
        "Returns the name and the version of the service.",
        &[], ("Client version", "ClientVersion"), OF_NOTHING),
];
