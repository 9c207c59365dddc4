//! Header members: the table of their JSON, and the fork from which each is present.
//!
//! Their order in RLP is alloy's ([`Header`]).

use alloy_consensus::Header;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::Bytes;

use crate::{
    encode::writer::JsonWriter,
    remote::{
        fault::{Flaw, MemberError},
        json::Value,
        reader::{Reader, bytes_of_at_most, fixed, u64, u256},
    },
    verify::VerifyError,
};

/// A member of which only the presence is checked: its value comes from outside the chain, or from
/// execution.
pub(crate) struct ForkMember {
    /// The fork that adds the member.
    pub(crate) since: EthereumHardfork,
    pub(crate) is_present: fn(&Header) -> bool,
    /// Makes the error from whether the member was expected and whether it was found.
    pub(crate) error: fn(bool, bool) -> VerifyError,
}

/// Members that forks add. Base fee, blob gas and withdrawals root are not in this table: their
/// expected values decide whether they must be present.
pub(crate) const FORK_MEMBERS: &[ForkMember] = &[
    ForkMember {
        since: EthereumHardfork::Cancun,
        is_present: |header| header.parent_beacon_block_root.is_some(),
        error: |expected, found| VerifyError::ParentBeaconBlockRoot { expected, found },
    },
    ForkMember {
        since: EthereumHardfork::Prague,
        is_present: |header| header.requests_hash.is_some(),
        error: |expected, found| VerifyError::RequestsHashPresence { expected, found },
    },
    ForkMember {
        since: EthereumHardfork::Amsterdam,
        is_present: |header| header.block_access_list_hash.is_some(),
        error: |expected, found| VerifyError::BlockAccessListHash { expected, found },
    },
    ForkMember {
        since: EthereumHardfork::Amsterdam,
        is_present: |header| header.slot_number.is_some(),
        error: |expected, found| VerifyError::SlotNumber { expected, found },
    },
];

/// A member of a header in JSON.
struct HeaderMember {
    name: &'static str,
    is_quantity: bool,
    is_present: fn(&Header) -> bool,
    read: fn(&mut Header, Reader<'_, '_>) -> Result<(), MemberError>,
    write: fn(&mut JsonWriter, &Header),
}

/// A line of the table: name, whether every header has it, field, and how the value is read and
/// written.
macro_rules! member {
    ($name:literal, required, $field:ident: $read:ident, $write:ident) => {
        HeaderMember {
            name: $name,
            is_quantity: member!(@is_quantity $write),
            is_present: |_| true,
            read: |header, block| {
                header.$field = block.get($name, $read)?;
                Ok(())
            },
            write: |w, header| {
                member!(@write $write, w, header.$field);
            },
        }
    };
    ($name:literal, optional, $field:ident: $read:ident, $write:ident) => {
        HeaderMember {
            name: $name,
            is_quantity: member!(@is_quantity $write),
            is_present: |header| header.$field.is_some(),
            read: |header, block| {
                header.$field = block.find($name, $read)?;
                Ok(())
            },
            write: |w, header| {
                if let Some(value) = header.$field {
                    member!(@write $write, w, value);
                }
            },
        }
    };
    (@is_quantity data) => { false };
    (@is_quantity $write:ident) => { true };
    (@write data, $w:ident, $value:expr) => { $w.data(&$value) };
    (@write $write:ident, $w:ident, $value:expr) => { $w.$write($value) };
}

/// The members that are served, by name.
#[rustfmt::skip]
static MEMBERS: &[HeaderMember] = &[
    member!("baseFeePerGas", optional, base_fee_per_gas: u64, number),
    member!("blobGasUsed", optional, blob_gas_used: u64, number),
    member!("blockAccessListHash", optional, block_access_list_hash: fixed, data),
    member!("difficulty", required, difficulty: u256, quantity),
    member!("excessBlobGas", optional, excess_blob_gas: u64, number),
    member!("extraData", required, extra_data: extra_data, data),
    member!("gasLimit", required, gas_limit: u64, number),
    member!("gasUsed", required, gas_used: u64, number),
    member!("logsBloom", required, logs_bloom: fixed, data),
    member!("miner", required, beneficiary: fixed, data),
    member!("mixHash", required, mix_hash: fixed, data),
    member!("nonce", required, nonce: fixed, data),
    member!("number", required, number: u64, number),
    member!("parentBeaconBlockRoot", optional, parent_beacon_block_root: fixed, data),
    member!("parentHash", required, parent_hash: fixed, data),
    member!("receiptsRoot", required, receipts_root: fixed, data),
    member!("requestsHash", optional, requests_hash: fixed, data),
    member!("sha3Uncles", required, ommers_hash: fixed, data),
    member!("slotNumber", optional, slot_number: u64, number),
    member!("stateRoot", required, state_root: fixed, data),
    member!("timestamp", required, timestamp: u64, number),
    member!("transactionsRoot", required, transactions_root: fixed, data),
    member!("withdrawalsRoot", optional, withdrawals_root: fixed, data),
];

/// The names of the members that hold a number.
pub(crate) fn quantities() -> impl Iterator<Item = &'static str> {
    let members = MEMBERS.iter().filter(|member| member.is_quantity);
    members.map(|member| member.name)
}

/// The members that forks added, in their order in RLP.
static ADDED: &[&str] = &[
    "baseFeePerGas",
    "withdrawalsRoot",
    "blobGasUsed",
    "excessBlobGas",
    "parentBeaconBlockRoot",
    "requestsHash",
    "blockAccessListHash",
    "slotNumber",
];

/// Reads a header from an upstream's JSON.
///
/// A member that a fork adds is read if it is present. The header's hash then shows whether
/// it belongs there.
///
/// # Errors
/// A required member is missing, a member is malformed, or a fork's member is missing while a later
/// one is present.
pub(crate) fn read(block: Reader<'_, '_>) -> Result<Header, MemberError> {
    let mut header = Header::default();
    for member in MEMBERS {
        (member.read)(&mut header, block)?;
    }
    check_no_gap(&header)?;
    Ok(header)
}

/// Extra data of a length that some chain has: Ethereum allows 32 bytes, clique and BSC list their
/// validators in some KiB. A header keeps it, so its length decides what a header costs to hold.
fn extra_data(value: &Value<'_>) -> Result<Bytes, MemberError> {
    const BYTES_MAX: usize = 16 << 10;
    bytes_of_at_most(BYTES_MAX, value, "data of at most 16 KiB")
}

/// Checks that no member of a fork is missing while a later one is present.
///
/// RLP has no names: a header with `requestsHash` and without `parentBeaconBlockRoot` has the hash
/// of one in which the same value is the `parentBeaconBlockRoot`. The hash cannot show which of the
/// two is stated falsely.
fn check_no_gap(header: &Header) -> Result<(), MemberError> {
    let mut missing = None;
    for name in ADDED {
        match (missing, is_present(header, name)) {
            (None, false) => missing = Some(name),
            (Some(missing), true) => {
                return Err(MemberError::new(Flaw::Missing).in_member(missing));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_present(header: &Header, name: &str) -> bool {
    let at = MEMBERS.binary_search_by(|member| member.name.cmp(name));
    at.is_ok_and(|at| (MEMBERS[at].is_present)(header))
}

/// Writes an object with a header's members. geth orders them by name, together with the other
/// members of a block.
pub(crate) struct HeaderWriter<'w, 'h> {
    w: &'w mut JsonWriter,
    header: &'h Header,
    rest: &'static [HeaderMember],
}

impl<'w, 'h> HeaderWriter<'w, 'h> {
    /// Begins the object.
    pub(crate) fn open(w: &'w mut JsonWriter, header: &'h Header) -> Self {
        w.raw("{");
        Self {
            w,
            header,
            rest: MEMBERS,
        }
    }

    /// Begins a member that is not the header's, after writing the header's members that sort
    /// before it. A header's member of a later fork is left out, not null.
    pub(crate) fn member(&mut self, name: &str) -> &mut JsonWriter {
        let before = self.rest.partition_point(|member| member.name < name);
        self.write(before);
        self.w.member(name)
    }

    /// Writes the rest and ends the object.
    pub(crate) fn close(mut self) {
        self.write(self.rest.len());
        self.w.raw("}");
    }

    fn write(&mut self, count: usize) {
        let (members, rest) = self.rest.split_at(count);
        self.rest = rest;
        for member in members {
            if (member.is_present)(self.header) {
                self.w.member(member.name);
                (member.write)(self.w, self.header);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn members_are_in_order() {
        assert!(MEMBERS.is_sorted_by_key(|member| member.name));
    }

    #[test]
    fn added_members_are_those_that_a_header_may_lack() {
        let lacking = Header::default();
        let may_lack = MEMBERS
            .iter()
            .filter(|member| !(member.is_present)(&lacking));
        let may_lack: BTreeSet<_> = may_lack.map(|member| member.name).collect();
        let added: BTreeSet<_> = ADDED.iter().copied().collect();
        assert_eq!(added, may_lack);
        assert_eq!(added.len(), ADDED.len());
    }
}
