use std::borrow::Cow;

use alloy_eips::eip7928::{
    AccountChanges, BalanceChange, CodeChange, NonceChange, SlotChanges,
    compute_block_access_list_hash,
};
use alloy_primitives::{Address, B256, U256, keccak256};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, de::Error};

use crate::{
    encode::writer::JsonWriter,
    remote::{AnswerKind, UpstreamFault, malformed},
    trie::{AccountChange, StateChanges},
};

/// What a block read and changed: its access list (EIP-7928), as its header commits to it.
#[derive(Clone, Debug)]
pub struct AccessList {
    accounts: Vec<AccountChanges>,
}

/// An account as a node writes it. Some nodes leave out a list that is empty, some have null.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeAccount {
    address: Address,
    storage_changes: Option<Vec<SlotChanges>>,
    storage_reads: Option<Vec<Slot>>,
    balance_changes: Option<Vec<BalanceChange>>,
    nonce_changes: Option<Vec<NonceChange>>,
    code_changes: Option<Vec<CodeChange>>,
}

/// A slot as text: a JSON number would be read too, and may be 16 times smaller than its value in
/// memory.
struct Slot(U256);

impl<'de> Deserialize<'de> for Slot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl From<NodeAccount> for AccountChanges {
    fn from(account: NodeAccount) -> Self {
        let reads = account.storage_reads.unwrap_or_default().into_iter();
        Self {
            address: account.address,
            storage_changes: account.storage_changes.unwrap_or_default(),
            storage_reads: reads.map(|Slot(slot)| slot).collect(),
            balance_changes: account.balance_changes.unwrap_or_default(),
            nonce_changes: account.nonce_changes.unwrap_or_default(),
            code_changes: account.code_changes.unwrap_or_default(),
        }
    }
}

impl AccessList {
    /// Verifies the answer of eth_getBlockAccessList: `hash` is the one in the block's header.
    ///
    /// # Errors
    /// [`UpstreamFault::Malformed`]: the answer has another form, as that of a node of another
    /// version may have. [`UpstreamFault::Absent`]: it is null, or empty where the list is not, as
    /// some nodes answer if they do not have it. [`UpstreamFault::AccessListHash`]: it is another
    /// list.
    pub fn verify(json: &[u8], hash: B256) -> Result<Self, UpstreamFault> {
        let answer = AnswerKind::AccessList;
        let accounts: Option<Vec<NodeAccount>> =
            serde_json::from_slice(json).map_err(|error| malformed(answer, &error))?;
        let accounts = accounts.ok_or(UpstreamFault::Absent { answer })?;
        let accounts: Vec<_> = accounts.into_iter().map(AccountChanges::from).collect();
        let found = compute_block_access_list_hash(&accounts);
        match found == hash {
            true => Ok(Self { accounts }),
            false if accounts.is_empty() => Err(UpstreamFault::Absent { answer }),
            false => Err(UpstreamFault::AccessListHash {
                expected: hash,
                found,
            }),
        }
    }

    /// The list of this RLP, as [`Self::rlp`] writes it; `None` if it has another hash.
    #[must_use]
    pub fn of_rlp(rlp: &[u8], hash: B256) -> Option<Self> {
        if keccak256(rlp) != hash {
            return None;
        }
        let accounts = alloy_rlp::decode_exact(rlp).ok()?;
        Some(Self { accounts })
    }

    /// The RLP, of which the hash in the block's header is.
    #[must_use]
    pub fn rlp(&self) -> Bytes {
        alloy_rlp::encode(&self.accounts).into()
    }

    /// What the block changed, with the values after it, also outside of transactions. One change
    /// is not in it: EIP-161 deletes an empty account that the block touches, and the list names
    /// that account without a change.
    #[must_use]
    pub fn changes(&self) -> StateChanges {
        let changed = self.accounts.iter().filter(|account| account.has_changes());
        StateChanges {
            accounts: changed
                .map(|account| (account.address, change_of(account)))
                .collect(),
        }
    }

    /// The answer of eth_getBlockAccessList, as execution-apis has it: all lists, also empty ones.
    #[must_use]
    pub fn json(&self) -> Bytes {
        let mut writer = JsonWriter::with_capacity(512 * self.accounts.len());
        writer.array(&self.accounts, write_account);
        writer.finish()
    }
}

/// The last change of each value counts.
fn change_of(account: &AccountChanges) -> AccountChange {
    AccountChange {
        nonce: account.nonce_post_state(),
        balance: account.balance_post_state(),
        code_hash: account.code_hash_post_state(),
        storage: account.storage_post_states().collect(),
        ..AccountChange::default()
    }
}

fn write_account(out: &mut JsonWriter, account: &AccountChanges) {
    let word = |value: U256| B256::from(value);
    out.raw("{").member("address").data(account.address);
    let storage = out.member("storageChanges");
    storage.array(&account.storage_changes, |out, slot| {
        out.raw("{").member("key").data(word(slot.slot));
        out.member("changes").array(&slot.changes, |out, change| {
            write_index(out, change.block_access_index.get());
            out.member("value").data(word(change.new_value)).raw("}");
        });
        out.raw("}");
    });
    let reads = out.member("storageReads");
    reads.array(&account.storage_reads, |out, slot| {
        out.data(word(*slot));
    });
    let balances = out.member("balanceChanges");
    balances.array(&account.balance_changes, |out, change| {
        write_index(out, change.block_access_index.get());
        out.member("value").quantity(change.post_balance).raw("}");
    });
    let nonces = out.member("nonceChanges");
    nonces.array(&account.nonce_changes, |out, change| {
        write_index(out, change.block_access_index.get());
        out.member("value").number(change.new_nonce).raw("}");
    });
    let codes = out.member("codeChanges");
    codes.array(&account.code_changes, |out, change| {
        write_index(out, change.block_access_index.get());
        out.member("code").data(&change.new_code).raw("}");
    });
    out.raw("}");
}

/// Begins a change: its place among the block's transactions.
fn write_index(out: &mut JsonWriter, index: u64) {
    out.raw("{").member("index").number(index);
}
