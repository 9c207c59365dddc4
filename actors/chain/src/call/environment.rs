//! Block and transaction as the EVM sees them.

use alloy_consensus::Header;
use alloy_eips::eip2930::AccessList;
use alloy_evm::EvmEnv;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::TxKind;
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::block::BlobExcessGasAndPrice,
};

use super::{
    error::CallError,
    limits::MEMORY_BYTES_MAX,
    request::{BlockOverrides, Call, CallRequest, GasPrice},
};
use crate::{
    block::Block,
    network::{Rules, ServedChain},
};

/// The block of a call, and the rules there.
#[derive(Debug)]
pub(super) struct Environment {
    /// Block and rules.
    pub(super) evm: EvmEnv,
    /// Whether SSTORE is metered as in Constantinople.
    pub(super) meters_net_gas: bool,
    /// Whether there are access lists (EIP-2930). Without, those of calls are ignored, as in geth.
    has_access_lists: bool,
    /// Whether there are blobs (EIP-4844). Without, those of calls are ignored, as in geth.
    pub(super) has_blobs: bool,
    /// Most gas of a transaction (EIP-7825), which a call may exceed and an estimate may not.
    pub(super) transaction_gas_max: Option<u64>,
}

impl Environment {
    /// The environment of a call on the state after `block`.
    ///
    /// # Errors
    /// [`CallError::OtherRules`], [`CallError::Amsterdam`].
    pub(super) fn new(chain: &ServedChain, block: &Block, call: &Call) -> Result<Self, CallError> {
        let spec = chain.spec.as_ref().ok_or(CallError::OtherRules)?;
        let header = overridden(&block.header, &call.block);
        let is_merged = block.header.difficulty.is_zero();
        // A call that says an earlier time does not go back before a fork: initcode, for one, would
        // have no bound there.
        let number = header.number.max(block.header.number);
        let timestamp = header.timestamp.max(block.header.timestamp);
        let rules = spec.rules(number, timestamp, is_merged);
        let mut environment = Self::of_header(chain, &header, rules)?;
        let evm = &mut environment.evm;
        let blob_gas_price = match call.request.max_fee_per_blob_gas.unwrap_or_default() {
            // A call that offers nothing for blobs gets them for nothing.
            0 if call.request.blob_hashes.is_some() => Some(0),
            _ => call.block.blob_gas_price,
        };
        if let Some(price) = blob_gas_price {
            set_blob_gas_price(&mut evm.block_env, price);
        }
        let is_free = call.request.price.is_free();
        if is_free {
            evm.block_env.basefee = 0;
        }
        // The proposer gets nothing then, so its account is not read.
        evm.cfg_env.disable_fee_charge = is_free && !call.request.pays_for_blobs();
        Ok(environment)
    }

    /// The environment of calls in a block with this header.
    ///
    /// # Errors
    /// [`CallError::Amsterdam`].
    pub(super) fn of_header(
        chain: &ServedChain,
        header: &Header,
        rules: Rules<'_>,
    ) -> Result<Self, CallError> {
        if rules.has(EthereumHardfork::Amsterdam) {
            return Err(CallError::Amsterdam);
        }
        let mut evm = EvmEnv::for_eth_block(header, rules, chain.id, rules.blob_params());
        if rules.has(EthereumHardfork::Cancun) {
            let blob_gas = &mut evm.block_env.blob_excess_gas_and_price;
            // The header is from before Cancun, and the call's own time is after it.
            blob_gas.get_or_insert(BlobExcessGasAndPrice {
                excess_blob_gas: 0,
                blob_gasprice: 1,
            });
        }
        let config = &mut evm.cfg_env;
        config.disable_nonce_check = true;
        config.disable_eip3607 = true;
        config.disable_block_gas_limit = true;
        config.memory_limit = MEMORY_BYTES_MAX;
        config.tx_gas_limit_cap = Some(u64::MAX);
        config.tx_chain_id_check = false;
        Ok(Self {
            evm,
            meters_net_gas: rules.meters_net_gas(),
            has_access_lists: rules.has(EthereumHardfork::Berlin),
            has_blobs: rules.has(EthereumHardfork::Cancun),
            transaction_gas_max: rules
                .has(EthereumHardfork::Osaka)
                .then_some(revm::primitives::eip7825::TX_GAS_LIMIT_CAP),
        })
    }
}

/// Sets the price of blob gas, if there are blobs.
pub(super) fn set_blob_gas_price(block: &mut BlockEnv, price: u128) {
    if let Some(blobs) = &mut block.blob_excess_gas_and_price {
        blobs.blob_gasprice = price;
    }
}

fn overridden(header: &Header, overrides: &BlockOverrides) -> Header {
    Header {
        number: overrides.number.unwrap_or(header.number),
        timestamp: overrides.timestamp.unwrap_or(header.timestamp),
        gas_limit: overrides.gas_limit.unwrap_or(header.gas_limit),
        beneficiary: overrides.beneficiary.unwrap_or(header.beneficiary),
        mix_hash: overrides.prev_randao.unwrap_or(header.mix_hash),
        difficulty: overrides.difficulty.unwrap_or(header.difficulty),
        base_fee_per_gas: overrides.base_fee.or(header.base_fee_per_gas),
        ..header.clone()
    }
}

impl Environment {
    /// The transaction that the EVM runs for a call with this limit of gas and this access list.
    pub(super) fn transaction(
        &self,
        request: &CallRequest,
        gas: u64,
        access_list: Option<AccessList>,
    ) -> TxEnv {
        let access_list = access_list.filter(|_| self.has_access_lists);
        let blob_hashes = request.blob_hashes.clone().filter(|_| self.has_blobs);
        let is_capped = matches!(request.price, GasPrice::Capped { .. });
        let tx_type = if request.authorizations.is_some() {
            4
        } else if blob_hashes.is_some() {
            3
        } else if is_capped {
            2
        } else {
            u8::from(access_list.is_some())
        };
        let mut transaction = TxEnv {
            tx_type,
            caller: request.from,
            gas_limit: gas,
            gas_price: request.price.most(),
            kind: request.to.map_or(TxKind::Create, TxKind::Call),
            value: request.value,
            data: request.input.clone(),
            nonce: 0,
            chain_id: None,
            access_list: access_list.unwrap_or_default(),
            gas_priority_fee: (tx_type >= 2).then(|| request.price.tip()),
            blob_hashes: blob_hashes.unwrap_or_default(),
            max_fee_per_blob_gas: request.max_fee_per_blob_gas.unwrap_or_default(),
            authorization_list: Vec::new(),
        };
        transaction.set_signed_authorization(request.authorizations.clone().unwrap_or_default());
        transaction
    }
}
