//! The parameters of calls: the call itself, and what it overrides.
//!
//! Source: execution-apis, `GenericTransaction`; overrides as geth reads them
//! (`internal/ethapi/override/override.go`).

use std::collections::BTreeMap;

use alloy_eips::{
    eip2930::{AccessList, AccessListItem},
    eip4895::Withdrawal,
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use nearhead_chain::call::{
    AccountOverride, BlockCalls, BlockOverrides, CallRequest, GasPrice, Simulation, StateOverrides,
    StorageOverride,
};
use serde_json::value::RawValue;

use super::params::{self, ParamError};

/// Accounts and slots of one access list, authorizations of one call, and overridden accounts and
/// slots: each list is bounded by what a body can hold, and this bounds the work that it makes.
const ITEMS_MAX: usize = 10_000;

/// A call, and the chain that it names.
#[derive(Debug)]
pub(crate) struct Request {
    /// The call.
    pub(crate) request: CallRequest,
    /// The chain id, if the call has one.
    pub(crate) chain_id: Option<u64>,
}

/// Blocks of calls, and the chains that they name.
#[derive(Debug)]
pub(crate) struct SimulationRequest {
    /// The blocks.
    pub(crate) simulation: Simulation,
    /// The chain id of each call that has one.
    pub(crate) chain_ids: Vec<u64>,
}

/// Reads blocks of calls.
pub(crate) fn simulation(raw: &RawValue) -> Result<SimulationRequest, ParamError> {
    let [blocks, transfers, validation, full] = params::members(
        raw,
        [
            "blockStateCalls",
            "traceTransfers",
            "validation",
            "returnFullTransactions",
        ],
    )?;
    let mut chain_ids = Vec::new();
    let blocks = needed(blocks, "blockStateCalls", |raw| {
        list(raw, |raw| block_calls(raw, &mut chain_ids))
    })?;
    let flag = |raw| Ok::<_, ParamError>(read(raw, params::boolean)?.unwrap_or_default());
    let simulation = Simulation {
        blocks,
        traces_transfers: flag(transfers)?,
        validates: flag(validation)?,
        full_transactions: flag(full)?,
        gas_max: 0,
    };
    Ok(SimulationRequest {
        simulation,
        chain_ids,
    })
}

fn block_calls(raw: &RawValue, chain_ids: &mut Vec<u64>) -> Result<BlockCalls, ParamError> {
    let [calls, accounts, overrides] =
        params::members(raw, ["calls", "stateOverrides", "blockOverrides"])?;
    let calls = read(calls, |raw| {
        list(raw, |raw| {
            let Request { request, chain_id } = self::request(raw)?;
            chain_ids.extend(chain_id);
            Ok(request)
        })
    })?;
    let [beacon_root, withdrawals] = match overrides {
        Some(raw) => params::members(raw, ["beaconRoot", "withdrawals"])?,
        None => [None; 2],
    };
    Ok(BlockCalls {
        calls: calls.unwrap_or_default(),
        accounts: read(accounts, self::accounts)?.unwrap_or_default(),
        block: read(overrides, block)?.unwrap_or_default(),
        parent_beacon_block_root: read(beacon_root, params::hash)?,
        withdrawals: read(withdrawals, |raw| list(raw, withdrawal))?.unwrap_or_default(),
    })
}

fn withdrawal(raw: &RawValue) -> Result<Withdrawal, ParamError> {
    let [index, validator_index, address, amount] =
        params::members(raw, ["index", "validatorIndex", "address", "amount"])?;
    Ok(Withdrawal {
        index: needed(index, "index", params::quantity)?,
        validator_index: needed(validator_index, "validatorIndex", params::quantity)?,
        address: needed(address, "address", params::address)?,
        amount: needed(amount, "amount", params::quantity)?,
    })
}

/// Reads a call.
pub(crate) fn request(raw: &RawValue) -> Result<Request, ParamError> {
    let [
        from,
        to,
        gas,
        gas_price,
        max_fee,
        tip,
        value,
        input,
        data,
        nonce,
        access_list,
        blob_hashes,
        max_fee_per_blob_gas,
        authorizations,
        chain_id,
    ] = params::members(
        raw,
        [
            "from",
            "to",
            "gas",
            "gasPrice",
            "maxFeePerGas",
            "maxPriorityFeePerGas",
            "value",
            "input",
            "data",
            "nonce",
            "accessList",
            "blobVersionedHashes",
            "maxFeePerBlobGas",
            "authorizationList",
            "chainId",
        ],
    )?;
    Ok(Request {
        chain_id: read(chain_id, params::quantity)?,
        request: CallRequest {
            from: read(from, params::address)?.unwrap_or_default(),
            to: read(to, params::address)?,
            gas: read(gas, params::quantity)?,
            price: price(
                read(gas_price, params::wide_quantity)?,
                read(max_fee, params::wide_quantity)?,
                read(tip, params::wide_quantity)?,
            )?,
            value: read(value, params::word)?.unwrap_or_default(),
            input: input_of(read(input, params::data)?, read(data, params::data)?)?,
            nonce: read(nonce, params::quantity)?,
            access_list: read(access_list, access_list_of)?,
            blob_hashes: read(blob_hashes, |raw| list(raw, params::hash))?,
            max_fee_per_blob_gas: read(max_fee_per_blob_gas, params::wide_quantity)?,
            authorizations: read(authorizations, |raw| list(raw, authorization))?,
        },
    })
}

fn price(
    fixed: Option<u128>,
    most: Option<u128>,
    tip: Option<u128>,
) -> Result<GasPrice, ParamError> {
    match (fixed, most, tip) {
        (None, None, None) => Ok(GasPrice::Free),
        (Some(price), None, None) => Ok(GasPrice::Fixed(price)),
        (Some(_), ..) => {
            Err("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified".into())
        }
        (None, most, tip) => Ok(GasPrice::Capped {
            most: most.unwrap_or_default(),
            tip: tip.unwrap_or_default(),
        }),
    }
}

/// `input` is the newer name of `data`; both may be given if they are equal.
fn input_of(input: Option<Bytes>, data: Option<Bytes>) -> Result<Bytes, ParamError> {
    match (input, data) {
        (Some(input), Some(data)) if input != data => Err(
            r#"both "data" and "input" are set and not equal. Please use "input" to pass transaction call data"#.into(),
        ),
        (input, data) => Ok(input.or(data).unwrap_or_default()),
    }
}

fn access_list_of(raw: &RawValue) -> Result<AccessList, ParamError> {
    let items = list(raw, |raw| {
        let [address, keys] = params::members(raw, ["address", "storageKeys"])?;
        Ok(AccessListItem {
            address: needed(address, "address", params::address)?,
            storage_keys: read(keys, |raw| list(raw, params::hash))?.unwrap_or_default(),
        })
    })?;
    Ok(AccessList(items))
}

fn authorization(raw: &RawValue) -> Result<SignedAuthorization, ParamError> {
    let [chain_id, address, nonce, y_parity, r, s] =
        params::members(raw, ["chainId", "address", "nonce", "yParity", "r", "s"])?;
    let inner = Authorization {
        chain_id: needed(chain_id, "chainId", params::word)?,
        address: needed(address, "address", params::address)?,
        nonce: needed(nonce, "nonce", params::quantity)?,
    };
    let y_parity = needed(y_parity, "yParity", params::quantity)?;
    let y_parity = u8::try_from(y_parity).map_err(|_| "want a yParity of at most 8 bits")?;
    let (r, s) = (needed(r, "r", params::word)?, needed(s, "s", params::word)?);
    Ok(SignedAuthorization::new_unchecked(inner, y_parity, r, s))
}

/// Reads the accounts that a call overrides.
pub(crate) fn accounts(raw: &RawValue) -> Result<StateOverrides, ParamError> {
    let mut accounts = StateOverrides::new();
    let mut slots = 0;
    each(raw, |name, raw| {
        let address = params::address_text(name)?;
        let account = account(raw)?;
        slots += match &account.storage {
            StorageOverride::Nothing => 0,
            StorageOverride::Slots(slots) | StorageOverride::Whole(slots) => slots.len(),
        };
        accounts.insert(address, account);
        match accounts.len() > ITEMS_MAX || slots > ITEMS_MAX {
            true => Err(too_many()),
            false => Ok(()),
        }
    })?;
    Ok(accounts)
}

fn account(raw: &RawValue) -> Result<AccountOverride, ParamError> {
    let [balance, nonce, code, state, state_diff, moved] = params::members(
        raw,
        [
            "balance",
            "nonce",
            "code",
            "state",
            "stateDiff",
            "movePrecompileToAddress",
        ],
    )?;
    Ok(AccountOverride {
        balance: read(balance, params::word)?,
        nonce: read(nonce, params::quantity)?,
        code: read(code, params::data)?,
        storage: match (read(state, slots)?, read(state_diff, slots)?) {
            (Some(_), Some(_)) => return Err("an account has both 'state' and 'stateDiff'".into()),
            (Some(slots), None) => StorageOverride::Whole(slots),
            (None, Some(slots)) => StorageOverride::Slots(slots),
            (None, None) => StorageOverride::Nothing,
        },
        precompile_moved_to: read(moved, params::address)?,
    })
}

fn slots(raw: &RawValue) -> Result<BTreeMap<U256, U256>, ParamError> {
    let mut slots = BTreeMap::new();
    each(raw, |name, raw| {
        let slot: B256 = params::hash_text(name)?;
        let value: B256 = params::hash(raw)?;
        slots.insert(slot.into(), value.into());
        match slots.len() > ITEMS_MAX {
            true => Err(too_many()),
            false => Ok(()),
        }
    })?;
    Ok(slots)
}

/// Reads what a call overrides of its block.
pub(crate) fn block(raw: &RawValue) -> Result<BlockOverrides, ParamError> {
    let [
        number,
        timestamp,
        gas_limit,
        beneficiary,
        prev_randao,
        difficulty,
        base_fee,
        blob_gas_price,
    ] = params::members(
        raw,
        [
            "number",
            "time",
            "gasLimit",
            "feeRecipient",
            "prevRandao",
            "difficulty",
            "baseFeePerGas",
            "blobBaseFee",
        ],
    )?;
    Ok(BlockOverrides {
        number: read(number, params::quantity)?,
        timestamp: read(timestamp, params::quantity)?,
        gas_limit: read(gas_limit, params::quantity)?,
        beneficiary: read::<Address>(beneficiary, params::address)?,
        prev_randao: read(prev_randao, params::hash)?,
        difficulty: read(difficulty, params::word)?,
        base_fee: read(base_fee, params::quantity)?,
        blob_gas_price: read(blob_gas_price, params::wide_quantity)?,
    })
}

/// Reads a member that may be absent.
fn read<T>(
    raw: Option<&RawValue>,
    read: impl FnOnce(&RawValue) -> Result<T, ParamError>,
) -> Result<Option<T>, ParamError> {
    raw.map(read).transpose()
}

/// Reads a member that must be there.
fn needed<T>(
    raw: Option<&RawValue>,
    name: &str,
    read: impl FnOnce(&RawValue) -> Result<T, ParamError>,
) -> Result<T, ParamError> {
    read(raw.ok_or_else(|| format!("want a member {name}"))?)
}

fn list<T>(
    raw: &RawValue,
    read: impl FnMut(&RawValue) -> Result<T, ParamError>,
) -> Result<Vec<T>, ParamError> {
    let items = params::array(raw)?;
    if items.len() > ITEMS_MAX {
        return Err(too_many());
    }
    items.into_iter().map(read).collect()
}

/// Calls `visit` with every member, until it fails.
fn each<'a>(
    raw: &'a RawValue,
    mut visit: impl FnMut(&str, &'a RawValue) -> Result<(), ParamError>,
) -> Result<(), ParamError> {
    let mut outcome = Ok(());
    params::each_member(raw, |name, value| {
        if outcome.is_ok() {
            outcome = visit(name, value);
        }
    })?;
    outcome
}

fn too_many() -> ParamError {
    format!("want at most {ITEMS_MAX} items").into()
}
