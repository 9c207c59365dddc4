//! Answers about the state: account proofs (EIP-1186) and code.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_trie::TrieAccount;

use super::{
    fault::{AnswerKind, MemberError, UpstreamFault},
    json::{Value, parse},
    reader::{Reader, array, bytes, fixed, u64, u256},
};
use crate::trie::{State, VerifiedProof};

/// An account and its slots, as an upstream states them.
struct Stated {
    address: Address,
    account: TrieAccount,
    nodes: Vec<Bytes>,
    storage: Vec<StatedSlot>,
}

/// A slot as an upstream states it.
struct StatedSlot {
    key: U256,
    value: U256,
    nodes: Vec<Bytes>,
}

/// Verifies the answer of eth_getProof for `address` and `slots` against a state.
///
/// The returned values are read from the trie nodes; the stated values are compared with them.
///
/// # Errors
/// An [`UpstreamFault`] if the trie nodes prove nothing, or something other than what is stated.
pub fn verify_proof(
    json: &[u8],
    state: &State,
    address: &Address,
    slots: &[U256],
) -> Result<VerifiedProof, UpstreamFault> {
    let wrong = |error: MemberError| error.of(AnswerKind::Proof);
    let stated = read(&parse(AnswerKind::Proof, json)?).map_err(wrong)?;
    equal("address", stated.address, *address).map_err(wrong)?;
    if stated.storage.len() != slots.len() {
        return Err(UpstreamFault::Count {
            items: "storage proofs",
            expected: slots.len(),
            found: stated.storage.len(),
        });
    }
    let mut values = Vec::with_capacity(slots.len());
    let mut storage = Vec::with_capacity(slots.len());
    for (index, (slot, asked)) in stated.storage.into_iter().zip(slots).enumerate() {
        equal("key", slot.key, *asked).map_err(|error| wrong(in_slot(index, error)))?;
        values.push(slot.value);
        storage.push((*asked, slot.nodes));
    }
    let verified = state.verify(address, stated.nodes, storage)?;
    let proof = &verified.proof;
    // An absent account is stated as an empty one; geth states zero for its hashes.
    let is_absent = proof.account.is_none();
    let stated_hash = |stated: B256, derived| match is_absent && stated.is_zero() {
        true => derived,
        false => stated,
    };
    let account = proof.account.unwrap_or_default();
    equal("nonce", stated.account.nonce, account.nonce).map_err(wrong)?;
    equal("balance", stated.account.balance, account.balance).map_err(wrong)?;
    let code_hash = stated_hash(stated.account.code_hash, account.code_hash);
    equal("codeHash", code_hash, account.code_hash).map_err(wrong)?;
    let storage_root = stated_hash(stated.account.storage_root, account.storage_root);
    equal("storageHash", storage_root, account.storage_root).map_err(wrong)?;
    for (index, (stated, proven)) in values.into_iter().zip(&proof.storage).enumerate() {
        equal("value", stated, proven.value).map_err(|error| wrong(in_slot(index, error)))?;
    }
    Ok(verified)
}

/// Verifies the answer of eth_getCode for an account with this code hash.
///
/// # Errors
/// An [`UpstreamFault`] if the answer is not code with this hash.
pub fn verify_code(json: &[u8], code_hash: B256) -> Result<Bytes, UpstreamFault> {
    let answer = AnswerKind::Code;
    let code = bytes(&parse(answer, json)?).map_err(|error| error.of(answer))?;
    let found = keccak256(&code);
    if found == code_hash {
        Ok(code)
    } else {
        Err(UpstreamFault::CodeHash {
            expected: code_hash,
            found,
        })
    }
}

fn read(value: &Value<'_>) -> Result<Stated, MemberError> {
    let answer = Reader::new(value)?;
    Ok(Stated {
        address: answer.get("address", fixed)?,
        account: TrieAccount {
            nonce: answer.get("nonce", u64)?,
            balance: answer.get("balance", u256)?,
            storage_root: answer.get("storageHash", fixed)?,
            code_hash: answer.get("codeHash", fixed)?,
        },
        nodes: answer.get("accountProof", |nodes| array(nodes, bytes))?,
        storage: answer.get("storageProof", |slots| array(slots, read_slot))?,
    })
}

/// Reads a slot. Clients echo its key in full or as a quantity, so the key is read by value.
fn read_slot(value: &Value<'_>) -> Result<StatedSlot, MemberError> {
    let slot = Reader::new(value)?;
    Ok(StatedSlot {
        key: slot.get("key", u256)?,
        value: slot.get("value", u256)?,
        nodes: slot.get("proof", |nodes| array(nodes, bytes))?,
    })
}

fn in_slot(index: usize, error: MemberError) -> MemberError {
    error.in_item(index).in_member("storageProof")
}

fn equal<T: PartialEq + std::fmt::Display>(
    name: &str,
    stated: T,
    derived: T,
) -> Result<(), MemberError> {
    if stated == derived {
        Ok(())
    } else {
        Err(MemberError::differs(stated, derived).in_member(name))
    }
}
