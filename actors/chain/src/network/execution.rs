//! What executes a block: EVM, executor and receipts are Ethereum's.

use std::borrow::Cow;

use alloy_consensus::{BlockBody, Eip658Value, Header};
use alloy_evm::{
    Database, EthEvm, Evm, EvmEnv, EvmFactory, FromRecoveredTx, FromTxWithEncoded,
    eth::{
        EthBlockExecutionCtx, EthBlockExecutor, EthEvmFactory,
        receipt_builder::{ReceiptBuilder, ReceiptBuilderCtx},
    },
    precompiles::PrecompilesMap,
};
use alloy_primitives::{Address, Bytes};
use revm::{context::TxEnv, inspector::NoOpInspector};

use super::{Receipt, Rules, Transaction, TxType, net_gas::with_net_gas, with_bloom};

/// Executes the transactions of one block on a database.
pub(crate) type Executor<'a, DB> =
    EthBlockExecutor<'a, EthEvm<DB, NoOpInspector, PrecompilesMap>, Rules<'a>, Receipts>;

/// The executor of a block with these rules.
pub(crate) fn executor<'a, DB: Database>(
    rules: Rules<'a>,
    header: &Header,
    body: &'a BlockBody<Transaction>,
    database: DB,
) -> Executor<'a, DB> {
    let env = EvmEnv::for_eth_block(header, rules, rules.spec().chain_id(), rules.blob_params());
    let context = EthBlockExecutionCtx {
        parent_hash: header.parent_hash,
        parent_beacon_block_root: header.parent_beacon_block_root,
        ommers: &body.ommers,
        withdrawals: body
            .withdrawals
            .as_ref()
            .map(|list| Cow::Borrowed(list.as_slice())),
        extra_data: header.extra_data.clone(),
        tx_count_hint: Some(body.transactions.len()),
        slot_number: None,
    };
    let mut evm = EthEvmFactory::default().create_evm(database, env);
    if rules.meters_net_gas() {
        evm = with_net_gas(evm, false);
    }
    EthBlockExecutor::new(evm, context, rules, Receipts)
}

/// Makes [`Receipt`]s; alloy's own builder is for transactions with blob sidecars.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipts;

impl ReceiptBuilder for Receipts {
    type Transaction = Transaction;
    type Receipt = Receipt;

    fn build_receipt<E: Evm>(&self, context: ReceiptBuilderCtx<'_, TxType, E>) -> Receipt {
        let receipt = alloy_consensus::Receipt {
            status: Eip658Value::Eip658(context.result.is_success()),
            cumulative_gas_used: context.cumulative_gas_used,
            logs: context.result.into_logs(),
        };
        with_bloom(context.tx_type, receipt)
    }
}

// The executor requires these two. A transaction that cannot be executed is refused earlier.
impl FromRecoveredTx<Transaction> for TxEnv {
    fn from_recovered_tx(transaction: &Transaction, sender: Address) -> Self {
        transaction.tx_env(sender).unwrap_or_default()
    }
}

impl FromTxWithEncoded<Transaction> for TxEnv {
    fn from_encoded_tx(transaction: &Transaction, sender: Address, _: Bytes) -> Self {
        Self::from_recovered_tx(transaction, sender)
    }
}
