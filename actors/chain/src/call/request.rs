//! A call, and what it overrides.

use std::collections::BTreeMap;

use alloy_eips::{eip2930::AccessList, eip7702::SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use revm::state::AccountInfo;

use crate::trie::bytecode;

/// A call with its overrides.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// What is called.
    pub request: CallRequest,
    /// Accounts that are not as they are in the state.
    pub accounts: StateOverrides,
    /// Members of the block that are not as they are in its header.
    pub block: BlockOverrides,
    /// The most gas that the call may use, also if it asks for more.
    pub gas_max: u64,
}

/// What a transaction would say.
///
/// Source: execution-apis, `GenericTransaction`.
#[derive(Clone, Debug, Default)]
pub struct CallRequest {
    /// The sender; it need not have a key.
    pub from: Address,
    /// `None` creates a contract.
    pub to: Option<Address>,
    /// Limit of gas; `None` for as much as is allowed.
    pub gas: Option<u64>,
    /// What is paid for gas.
    pub price: GasPrice,
    /// Wei that are sent.
    pub value: U256,
    /// Input of the contract, or its initcode.
    pub input: Bytes,
    /// The sender's number of transactions before this one; `None` for what it is. Only a
    /// simulation looks at it.
    pub nonce: Option<u64>,
    /// Accounts and slots that are paid for at the start (EIP-2930).
    pub access_list: Option<AccessList>,
    /// Versioned hashes of blobs (EIP-4844).
    pub blob_hashes: Option<Vec<B256>>,
    /// The most that is paid for a unit of blob gas, in wei.
    pub max_fee_per_blob_gas: Option<u128>,
    /// Delegations that are set first (EIP-7702).
    pub authorizations: Option<Vec<SignedAuthorization>>,
}

/// What is paid for a unit of gas, in wei.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GasPrice {
    /// Nothing; the block's base fee is zero then.
    #[default]
    Free,
    /// A fixed price.
    Fixed(u128),
    /// At most this, of which at most `tip` is above the base fee (EIP-1559).
    Capped {
        /// The most in all.
        most: u128,
        /// The most for the proposer.
        tip: u128,
    },
}

impl CallRequest {
    /// Whether blobs are paid for.
    pub(super) fn pays_for_blobs(&self) -> bool {
        let has_blobs = self
            .blob_hashes
            .as_ref()
            .is_some_and(|hashes| !hashes.is_empty());
        has_blobs && self.max_fee_per_blob_gas.is_some_and(|fee| fee > 0)
    }
}

impl GasPrice {
    /// The most that is paid.
    pub(super) const fn most(self) -> u128 {
        match self {
            Self::Free => 0,
            Self::Fixed(price) => price,
            Self::Capped { most, .. } => most,
        }
    }

    /// The most that the proposer gets.
    pub(super) const fn tip(self) -> u128 {
        match self {
            Self::Free => 0,
            Self::Fixed(price) => price,
            Self::Capped { tip, .. } => tip,
        }
    }

    /// Whether nothing is paid.
    pub(super) const fn is_free(self) -> bool {
        self.most() == 0 && self.tip() == 0
    }
}

/// The accounts that a call overrides.
pub type StateOverrides = BTreeMap<Address, AccountOverride>;

/// What is overridden of an account; the rest is as it is in the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountOverride {
    /// Its balance in wei.
    pub balance: Option<U256>,
    /// Its nonce.
    pub nonce: Option<u64>,
    /// Its code.
    pub code: Option<Bytes>,
    /// Its storage.
    pub storage: StorageOverride,
    /// Where the precompiled contract is that would be here.
    pub precompile_moved_to: Option<Address>,
}

impl AccountOverride {
    /// Overrides an account, but for its storage.
    pub(super) fn apply(&self, account: &mut AccountInfo) {
        account.balance = self.balance.unwrap_or(account.balance);
        account.nonce = self.nonce.unwrap_or(account.nonce);
        if let Some(code) = &self.code {
            account.code_hash = keccak256(code);
            account.code = Some(bytecode(code.clone()));
        }
    }
}

/// What is overridden of an account's storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StorageOverride {
    /// Nothing.
    #[default]
    Nothing,
    /// These slots.
    Slots(BTreeMap<U256, U256>),
    /// All of it: other slots are zero.
    Whole(BTreeMap<U256, U256>),
}

/// What is overridden of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockOverrides {
    /// Its number.
    pub number: Option<u64>,
    /// Seconds since 1970.
    pub timestamp: Option<u64>,
    /// Its limit of gas.
    pub gas_limit: Option<u64>,
    /// The recipient of its tips.
    pub beneficiary: Option<Address>,
    /// PREVRANDAO (EIP-4399).
    pub prev_randao: Option<B256>,
    /// Its difficulty, which only blocks before the merge have.
    pub difficulty: Option<U256>,
    /// Its base fee, in wei.
    pub base_fee: Option<u64>,
    /// Its price of blob gas, in wei.
    pub blob_gas_price: Option<u128>,
}
