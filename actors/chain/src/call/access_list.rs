//! The accounts and slots that a call reads.
//!
//! Source: go-ethereum 1.17.4, `eth/tracers/logger/access_list_tracer.go`.

use std::collections::{BTreeMap, BTreeSet};

use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256, U256};
use revm::{
    Inspector,
    bytecode::opcode,
    interpreter::{
        Interpreter,
        interpreter_types::{InputsTr, Jumps},
    },
    precompile::{PrecompileSpecId, Precompiles},
    primitives::eip7702::PER_EMPTY_ACCOUNT_COST,
};

use super::{error::CallError, run::CallRunner};
use crate::{encode::writer::JsonWriter, json::Json, network::transaction::access_list};

/// Runs until the list no longer changes: what a call reads may depend on the gas that it has left.
const RUNS_MAX: usize = 16;

/// What a call reads, and what it uses with that list (eth_createAccessList).
#[derive(Debug)]
pub struct CallAccessList {
    /// Accounts with their slots, both ascending.
    pub access_list: AccessList,
    /// Gas that the call used.
    pub gas_used: u64,
    /// Why the call failed, if it did.
    pub error: Option<CallError>,
}

impl CallAccessList {
    /// `{"gasUsed":…,"accessList":[…],"error":…}`, with an error only if the call failed.
    #[must_use]
    pub fn json(&self) -> Json {
        let size_hint = 128 + access_list::size_hint(&self.access_list);
        let mut w = JsonWriter::with_capacity(size_hint);
        w.raw("{");
        w.member("gasUsed").number(self.gas_used);
        access_list::write(&mut w, &self.access_list);
        if let Some(error) = &self.error {
            w.member("error")
                .raw(serde_json::Value::from(error.end()).to_string());
        }
        w.raw("}");
        Json::own(w.finish())
    }
}

impl CallRunner<'_> {
    /// The access list of the call (eth_createAccessList). A call that reverts has one, too.
    ///
    /// # Errors
    /// Any [`CallError`] but [`CallError::Reverted`] and [`CallError::Halted`].
    pub fn access_list(&self) -> Result<CallAccessList, CallError> {
        let excluded = self.excluded()?;
        let own = self.call.request.access_list.clone().unwrap_or_default();
        let mut list = Accesses::of(&own, &excluded);
        let mut runs = 1;
        loop {
            let access_list = list.clone().into_list();
            let mut accesses = Accesses::of(&access_list, &excluded);
            let ran = self
                .run_inspected(self.gas_limit(), access_list.clone(), &mut accesses)
                .map_err(|error| {
                    error.with_words(|_, reason| format!("failed to apply transaction: {reason}"))
                })?;
            if accesses.slots == list.slots {
                return Ok(CallAccessList {
                    access_list,
                    gas_used: ran.gas_used,
                    error: ran.output.err(),
                });
            }
            if runs == RUNS_MAX {
                return Err(CallError::invalid("the access list changes with every run"));
            }
            list = accesses;
            runs += 1;
        }
    }

    /// Accounts that no list makes cheaper.
    fn excluded(&self) -> Result<BTreeSet<Address>, CallError> {
        let request = &self.call.request;
        let authorizations = request.authorizations.iter().flatten();
        // Before any signature is checked, which takes long.
        if authorizations.count() as u64 > self.gas_limit() / PER_EMPTY_ACCOUNT_COST {
            let message = "insufficient gas to process all authorizations";
            return Err(CallError::invalid(message));
        }
        let created = match request.to {
            Some(to) => to,
            None => request.from.create(self.nonce()?),
        };
        let spec = PrecompileSpecId::from_spec_id(self.environment.evm.cfg_env.spec);
        let mut excluded: BTreeSet<Address> = Precompiles::new(spec).addresses().copied().collect();
        excluded.extend([request.from, created]);
        let authorizations = request.authorizations.iter().flatten();
        excluded.extend(authorizations.filter_map(|signed| signed.recover_authority().ok()));
        Ok(excluded)
    }
}

/// Notes what is read.
#[derive(Clone, Debug)]
struct Accesses<'a> {
    slots: BTreeMap<Address, BTreeSet<U256>>,
    excluded: &'a BTreeSet<Address>,
}

impl<'a> Accesses<'a> {
    /// What a list has, but for excluded accounts.
    fn of(list: &AccessList, excluded: &'a BTreeSet<Address>) -> Self {
        let mut accesses = Self {
            slots: BTreeMap::new(),
            excluded,
        };
        let others = list.0.iter();
        for item in others.filter(|item| !excluded.contains(&item.address)) {
            accesses.account(item.address);
            for slot in &item.storage_keys {
                accesses.slot(item.address, (*slot).into());
            }
        }
        accesses
    }

    fn account(&mut self, address: Address) {
        if !self.excluded.contains(&address) {
            self.slots.entry(address).or_default();
        }
    }

    fn slot(&mut self, address: Address, slot: U256) {
        self.slots.entry(address).or_default().insert(slot);
    }

    fn into_list(self) -> AccessList {
        let items = self
            .slots
            .into_iter()
            .map(|(address, slots)| AccessListItem {
                address,
                storage_keys: slots.into_iter().map(B256::from).collect(),
            });
        AccessList(items.collect())
    }
}

impl<C> Inspector<C> for Accesses<'_> {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut C) {
        let word = |place| interpreter.stack.peek(place).ok();
        match interpreter.bytecode.opcode() {
            opcode::SLOAD | opcode::SSTORE => {
                if let Some(slot) = word(0) {
                    self.slot(interpreter.input.target_address(), slot);
                }
            }
            opcode::EXTCODECOPY
            | opcode::EXTCODEHASH
            | opcode::EXTCODESIZE
            | opcode::BALANCE
            | opcode::SELFDESTRUCT => {
                if let Some(word) = word(0) {
                    self.account(Address::from_word(word.into()));
                }
            }
            opcode::CALL | opcode::CALLCODE | opcode::DELEGATECALL | opcode::STATICCALL => {
                // All of their operands must be there.
                let operands = match interpreter.bytecode.opcode() {
                    opcode::CALL | opcode::CALLCODE => 7,
                    _ => 6,
                };
                if let (Some(word), Some(_)) = (word(1), word(operands - 1)) {
                    self.account(Address::from_word(word.into()));
                }
            }
            _ => {}
        }
    }
}
