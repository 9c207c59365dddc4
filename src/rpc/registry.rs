//! The registry of methods: name, set, cost class, rule for contracts, price and handler,
//! one line for each.

use std::{future::Future, pin::Pin};

use nearhead_actors::admission::CostClass;
use serde_json::value::RawValue;

use super::{
    context::{MethodResult, RequestContext},
    contracts::ContractRule,
    methods::{blocks, calls, companion, fees, filters, forwarded, logs, raw, state, subscribe},
    params::Params,
    price::FORWARDED_UNITS,
};
use crate::access::MethodSet;

/// One method.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name on the wire.
    pub name: &'static str,
    /// The smallest set that includes it.
    pub set: MethodSet,
    /// How it is admitted.
    pub(crate) class: CostClass,
    /// How a key's list of contracts is applied.
    pub contracts: ContractRule,
    /// What a call costs in units, before the surcharges of `rpc::price`.
    pub price: u64,
    /// `None`: a node answers it.
    handler: Option<Handler>,
}

/// The future that a handler returns.
type MethodFuture<'a> = Pin<Box<dyn Future<Output = MethodResult> + 'a>>;

type Handler = for<'a> fn(&'a RequestContext<'a>, Params<'a>) -> MethodFuture<'a>;

impl Method {
    /// A method of this name that nodes answer.
    pub(super) const fn passed_through(name: &'static str) -> Self {
        Self {
            name,
            set: MethodSet::Forwarded,
            class: CostClass::Measured,
            contracts: ContractRule::Refused,
            price: FORWARDED_UNITS,
            handler: None,
        }
    }

    /// Runs the handler, or passes the parameters to a node as they came.
    pub(super) async fn run<'a>(
        &self,
        context: &'a RequestContext<'a>,
        params: Params<'a>,
        raw: Option<&RawValue>,
    ) -> MethodResult {
        match self.handler {
            Some(handler) => handler(context, params).await,
            None => forwarded::pass_through(context, self.name, raw).await,
        }
    }
}

macro_rules! method {
    ($set:ident $class:ident $contracts:ident $price:literal $name:literal => $handler:path) => {
        Method {
            name: $name,
            set: MethodSet::$set,
            class: CostClass::$class,
            contracts: ContractRule::$contracts,
            price: $price,
            handler: Some(|context, params| Box::pin($handler(context, params))),
        }
    };
}

/// Every method, one per line.
#[rustfmt::skip]
pub static METHODS: [Method; 51] = [
    method!(Core Cheap Allowed 1 "eth_getBlockByHash" => blocks::get_block_by_hash),
    method!(Core Measured Checked 2 "eth_getLogs" => logs::get_logs),
    method!(Core Measured Checked 2 "eth_getProof" => state::get_proof),
    method!(Core Cheap Checked 1 "eth_getStorageAt" => state::get_storage_at),
    method!(Core Cheap Allowed 1 "eth_getTransactionByBlockNumberAndIndex" => blocks::get_transaction_by_block_number_and_index),
    method!(Core Cheap Allowed 1 "eth_getTransactionReceipt" => blocks::get_transaction_receipt),
    method!(Core Cheap Allowed 1 "eth_getUncleByBlockHashAndIndex" => blocks::get_uncle_by_block_hash_and_index),
    method!(Companion Measured Allowed 1 "debug_getRawBlock" => raw::get_block),
    method!(Companion Cheap Allowed 1 "debug_getRawHeader" => raw::get_header),
    method!(Companion Measured Refused 1 "debug_getRawReceipts" => raw::get_receipts),
    method!(Companion Measured Allowed 1 "debug_getRawTransaction" => raw::get_transaction),
    method!(Companion Cheap Allowed 1 "eth_accounts" => companion::accounts),
    method!(Companion Cheap Allowed 1 "eth_baseFee" => fees::base_fee),
    method!(Companion Cheap Allowed 1 "eth_blobBaseFee" => fees::blob_base_fee),
    method!(Companion Cheap Allowed 1 "eth_blockNumber" => companion::block_number),
    method!(Companion Measured Checked 3 "eth_call" => calls::call),
    method!(Companion Cheap Allowed 1 "eth_capabilities" => companion::capabilities),
    method!(Companion Cheap Allowed 1 "eth_chainId" => companion::chain_id),
    method!(Companion Cheap Allowed 1 "eth_config" => companion::config),
    method!(Companion Measured Checked 6 "eth_createAccessList" => calls::create_access_list),
    method!(Companion Measured Checked 6 "eth_estimateGas" => calls::estimate_gas),
    method!(Companion Cheap Allowed 2 "eth_feeHistory" => fees::fee_history),
    method!(Companion Cheap Allowed 1 "eth_gasPrice" => fees::gas_price),
    method!(Companion Cheap Checked 1 "eth_getBalance" => state::get_balance),
    method!(Companion Measured Refused 2 "eth_getBlockAccessList" => blocks::get_block_access_list),
    method!(Companion Cheap Allowed 1 "eth_getBlockByNumber" => blocks::get_block_by_number),
    method!(Companion Cheap Refused 1 "eth_getBlockReceipts" => blocks::get_block_receipts),
    method!(Companion Cheap Allowed 1 "eth_getBlockTransactionCountByHash" => blocks::get_block_transaction_count_by_hash),
    method!(Companion Cheap Allowed 1 "eth_getBlockTransactionCountByNumber" => blocks::get_block_transaction_count_by_number),
    method!(Companion Cheap Checked 1 "eth_getCode" => state::get_code),
    method!(Companion Measured Checked 2 "eth_getFilterChanges" => filters::get_filter_changes),
    method!(Companion Measured Checked 2 "eth_getFilterLogs" => filters::get_filter_logs),
    method!(Companion Measured Checked 1 "eth_getStorageValues" => state::get_storage_values),
    method!(Companion Cheap Allowed 1 "eth_getTransactionByBlockHashAndIndex" => blocks::get_transaction_by_block_hash_and_index),
    method!(Companion Cheap Allowed 1 "eth_getTransactionByHash" => blocks::get_transaction_by_hash),
    method!(Companion Cheap Checked 1 "eth_getTransactionCount" => state::get_transaction_count),
    method!(Companion Cheap Allowed 1 "eth_getUncleByBlockNumberAndIndex" => blocks::get_uncle_by_block_number_and_index),
    method!(Companion Cheap Allowed 1 "eth_getUncleCountByBlockHash" => blocks::get_uncle_count_by_block_hash),
    method!(Companion Cheap Allowed 1 "eth_getUncleCountByBlockNumber" => blocks::get_uncle_count_by_block_number),
    method!(Companion Cheap Allowed 1 "eth_maxPriorityFeePerGas" => fees::max_priority_fee_per_gas),
    method!(Companion Cheap Allowed 1 "eth_newBlockFilter" => filters::new_block_filter),
    method!(Companion Cheap Checked 1 "eth_newFilter" => filters::new_filter),
    method!(Companion Measured Refused 6 "eth_simulateV1" => calls::simulate),
    method!(Companion Cheap Checked 1 "eth_subscribe" => subscribe::subscribe),
    method!(Companion Cheap Allowed 1 "eth_syncing" => companion::syncing),
    method!(Companion Cheap Allowed 1 "eth_uninstallFilter" => filters::uninstall_filter),
    method!(Companion Cheap Allowed 1 "eth_unsubscribe" => subscribe::unsubscribe),
    method!(Companion Cheap Allowed 1 "net_listening" => companion::listening),
    method!(Companion Cheap Allowed 1 "net_version" => companion::network_version),
    method!(Companion Cheap Allowed 1 "rpc.discover" => companion::discover),
    method!(Companion Cheap Allowed 1 "web3_clientVersion" => companion::client_version),
];

/// Takes a transaction, if transactions are sent to nodes. It is in none of the sets of
/// [`METHODS`].
#[rustfmt::skip]
pub static SEND_RAW_TRANSACTION: Method =
    method!(Forwarded Cheap Refused 10 "eth_sendRawTransaction" => forwarded::send_raw_transaction);

/// The names of all methods, in the order of [`METHODS`].
pub fn method_names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|method| method.name)
}

/// Position in [`METHODS`] of the method of this name, if `set` includes it.
pub(super) fn find(name: &str, set: MethodSet) -> Option<usize> {
    METHODS
        .iter()
        .position(|method| method.name == name && set.includes(method.set))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_seven_methods_are_core() {
        let mut names: Vec<_> = METHODS.iter().map(|method| method.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METHODS.len());
        let count = |set: MethodSet| {
            METHODS
                .iter()
                .filter(|method| set.includes(method.set))
                .count()
        };
        assert_eq!(
            (count(MethodSet::Core), count(MethodSet::Companion)),
            (7, METHODS.len())
        );
    }
}
