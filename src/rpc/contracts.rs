//! How the list of contracts of a key is applied to a call.

use std::cell::Cell;

use alloy_primitives::Address;
use nearhead_chain::log_search::LogFilter;
use nearhead_tenants::allowlists::{Allowlists, ListKind};

use super::error::RpcError;

/// How a method is served to a key that has a list of contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractRule {
    /// Always: its answer is about the chain, a block or a transaction, not about one contract.
    Allowed,
    /// If every address that the call names is listed. Its handler asks `ContractCheck`.
    Checked,
    /// Never: its answer would have the logs or the state of all contracts.
    Refused,
}

impl ContractRule {
    /// Its name in the documentation.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Checked => "checked",
            Self::Refused => "refused",
        }
    }
}

/// The check of the call in progress against the list of contracts.
pub(crate) struct ContractCheck<'a> {
    allow: &'a Allowlists,
    is_done: Cell<bool>,
}

impl<'a> ContractCheck<'a> {
    pub(super) const fn new(allow: &'a Allowlists) -> Self {
        Self {
            allow,
            is_done: Cell::new(false),
        }
    }

    /// Checks what applies before the handler runs.
    pub(super) fn begin(&self, rule: ContractRule) -> Result<(), RpcError> {
        self.is_done.set(rule == ContractRule::Allowed);
        match rule {
            ContractRule::Refused if !self.allow.contracts.is_empty() => Err(NOT_LISTED),
            ContractRule::Allowed | ContractRule::Checked | ContractRule::Refused => Ok(()),
        }
    }

    /// Checks the addresses that the call names.
    pub(super) fn addresses<'b>(
        &self,
        addresses: impl IntoIterator<Item = &'b Address>,
    ) -> Result<(), RpcError> {
        self.is_done.set(true);
        let is_listed = self.allow.contracts.is_empty()
            || addresses
                .into_iter()
                .all(|address| self.allow.allow_contract(address));
        is_listed.then_some(()).ok_or(NOT_LISTED)
    }

    /// Checks a call that may read every contract.
    pub(super) fn all_contracts(&self) -> Result<(), RpcError> {
        self.is_done.set(true);
        let is_listed = self.allow.contracts.is_empty();
        is_listed.then_some(()).ok_or(NOT_LISTED)
    }

    /// Checks the addresses of a filter. One without addresses finds the logs of all contracts.
    pub(super) fn filter(&self, filter: &LogFilter) -> Result<(), RpcError> {
        self.addresses(&filter.addresses)?;
        match filter.addresses.is_empty() && !self.allow.contracts.is_empty() {
            true => Err(NOT_LISTED),
            false => Ok(()),
        }
    }

    /// Notes that this call is not about one contract, although others of its method are.
    pub(super) fn names_none(&self) {
        self.is_done.set(true);
    }

    /// Whether the call may be answered: a key with a list gets nothing that nobody checked.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.get() || self.allow.contracts.is_empty()
    }
}

const NOT_LISTED: RpcError = RpcError::NotListed(ListKind::Contracts);

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn listing(addresses: &[u8]) -> Allowlists {
        let addresses: Vec<_> = addresses
            .iter()
            .copied()
            .map(Address::with_last_byte)
            .collect();
        Allowlists {
            contracts: addresses.try_into().unwrap(),
            ..Allowlists::default()
        }
    }

    fn filter(addresses: &[u8]) -> LogFilter {
        let addresses = addresses.iter().copied().map(Address::with_last_byte);
        LogFilter {
            addresses: addresses.collect(),
            ..LogFilter::default()
        }
    }

    #[test]
    fn every_address_of_a_filter_has_to_be_listed() {
        for (listed, named, expected) in [
            (&[][..], &[][..], Ok(())),
            (&[], &[1, 2], Ok(())),
            (&[1, 2], &[1], Ok(())),
            (&[1, 2], &[2, 1, 1], Ok(())),
            (&[1, 2], &[1, 3], Err(NOT_LISTED)),
            (&[1, 2], &[3], Err(NOT_LISTED)),
            (&[1, 2], &[], Err(NOT_LISTED)),
        ] {
            let allow = listing(listed);
            let check = ContractCheck::new(&allow);
            assert_eq!(
                check.filter(&filter(named)),
                expected,
                "{listed:?} {named:?}"
            );
        }
    }

    #[test]
    fn what_nobody_checked_is_not_done_if_there_is_a_list() {
        use ContractRule::{Allowed, Checked, Refused};
        for (listed, rule, begun, is_done) in [
            (&[][..], Allowed, Ok(()), true),
            (&[], Checked, Ok(()), true),
            (&[], Refused, Ok(()), true),
            (&[1], Allowed, Ok(()), true),
            (&[1], Checked, Ok(()), false),
            (&[1], Refused, Err(NOT_LISTED), false),
        ] {
            let allow = listing(listed);
            let check = ContractCheck::new(&allow);
            // The call before it, of the same batch, was checked.
            check.names_none();
            assert_eq!(check.begin(rule), begun, "{listed:?} {rule:?}");
            assert_eq!(check.is_done(), is_done, "{listed:?} {rule:?}");
            check.addresses([]).unwrap();
            assert!(check.is_done());
        }
    }
}
