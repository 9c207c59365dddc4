//! The methods that one service passes to nodes, and those that it never passes.

use std::sync::Arc;

use super::registry::{METHODS, Method, SEND_RAW_TRANSACTION, find};
use crate::access::MethodSet;

/// What is forwarded to nodes, besides the methods that are answered here. Nothing is by default.
/// Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Forwarding {
    methods: Arc<[Method]>,
}

/// Why a method is not forwarded. The message says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardingError {
    /// It is answered here, from verified data.
    #[error("--forward {0}: nearhead answers this method itself, leave it out")]
    Own(Box<str>),
    /// It governs a node, or needs the keys that a node holds.
    #[error("--forward {0}: methods that govern a node or sign with its keys are never forwarded")]
    Governs(Box<str>),
    /// Its answers belong to a connection, or to a state that the node keeps for its client.
    #[error(
        "--forward {0}: filters and subscriptions of a node are never forwarded, use eth_newFilter \
         or eth_subscribe"
    )]
    Stateful(Box<str>),
    /// It is `eth_sendRawTransaction` in other letter case, which would not be checked.
    #[error("--forward {0}: write it eth_sendRawTransaction")]
    Spelling(Box<str>),
}

/// Beginnings of the names of methods that govern a node or its miner, in lower case.
const GOVERNING: [&str; 16] = [
    "admin_",
    "anvil_",
    "clique_",
    "debug_",
    "engine_",
    "eth_setetherbase",
    "eth_submitwork",
    "evm_",
    "hardhat_",
    "ibft_",
    "miner_",
    "parity_set",
    "perm_",
    "personal_",
    "plugins_",
    "qbft_",
];

/// Beginnings of the names of methods that sign with keys of a node, in lower case.
const SIGNING: [&str; 7] = [
    "eth_sign",
    "eth_sendtransaction",
    "eth_sendunsignedtransaction",
    "eth_resend",
    "account_",
    "wallet_",
    "clef_",
];

/// Beginnings of the names of methods of filters, in lower case.
const FILTERS: [&str; 5] = [
    "eth_newfilter",
    "eth_newblockfilter",
    "eth_newpendingtransactionfilter",
    "eth_uninstallfilter",
    "eth_getfilter",
];

/// Ends of the names of methods of subscriptions, in lower case.
const SUBSCRIPTIONS: [&str; 2] = ["subscribe", "_subscription"];

impl Forwarding {
    /// The methods with these names, each of them once.
    ///
    /// # Errors
    /// [`ForwardingError`]: one of them is answered here, or is never forwarded.
    pub fn new(names: &[Box<str>]) -> Result<Self, ForwardingError> {
        let methods = names.iter().map(|name| {
            check(name)?;
            Ok(match &**name {
                name if name == SEND_RAW_TRANSACTION.name => SEND_RAW_TRANSACTION,
                // A few names, read once at the start: they are used for as long as the process
                // runs, as those of the registry are.
                name => Method::passed_through(String::leak(name.to_owned())),
            })
        });
        Ok(Self {
            methods: methods.collect::<Result<_, _>>()?,
        })
    }

    /// Whether transactions are sent.
    pub(super) fn sends(&self) -> bool {
        let mut methods = self.methods.iter();
        methods.any(|method| method.name == SEND_RAW_TRANSACTION.name)
    }

    /// Position of the method of this name, if it is forwarded or in `set`: in [`METHODS`], or
    /// behind them.
    pub(super) fn find(&self, name: &str, set: MethodSet) -> Option<usize> {
        find(name, set).or_else(|| {
            let at = self.methods.iter().position(|method| method.name == name);
            at.map(|at| METHODS.len() + at)
        })
    }

    /// The method at a position that [`Self::find`] returned.
    pub(super) fn method(&self, position: usize) -> Option<&Method> {
        let behind = position.checked_sub(METHODS.len());
        match behind {
            None => METHODS.get(position),
            Some(behind) => self.methods.get(behind),
        }
    }

    /// How many methods there are, those of [`METHODS`] included.
    pub(super) fn count(&self) -> usize {
        METHODS.len() + self.methods.len()
    }

    /// The names of all methods, by position.
    pub fn method_names(&self) -> impl Iterator<Item = &'static str> {
        let all = METHODS.iter().chain(self.methods.iter());
        all.map(|method| method.name)
    }
}

/// The names that an allowlist of methods may have: all methods of a service, and
/// `eth_sendRawTransaction`, so that a key can be made before it is served.
#[must_use]
pub fn listed_names(forwarding: &Forwarding) -> Vec<String> {
    let mut names: Vec<_> = forwarding.method_names().map(str::to_owned).collect();
    if !forwarding.sends() {
        names.push(SEND_RAW_TRANSACTION.name.to_owned());
    }
    names
}

/// Whether this may be the name of a method that some service serves.
pub(crate) fn may_be_served(name: &str) -> bool {
    METHODS.iter().any(|method| method.name == name) || check(name).is_ok()
}

/// Checks that a method may be forwarded. Some nodes ignore the case of names, so it does not
/// count.
fn check(name: &str) -> Result<(), ForwardingError> {
    let lower = name.to_ascii_lowercase();
    let begins = |beginnings: &[&str]| beginnings.iter().any(|start| lower.starts_with(start));
    let is_own = |method: &Method| method.name.eq_ignore_ascii_case(name);
    if METHODS.iter().any(is_own) {
        return Err(ForwardingError::Own(name.into()));
    }
    let sends = SEND_RAW_TRANSACTION.name;
    if name != sends && name.eq_ignore_ascii_case(sends) {
        return Err(ForwardingError::Spelling(name.into()));
    }
    if begins(&GOVERNING) || begins(&SIGNING) {
        return Err(ForwardingError::Governs(name.into()));
    }
    if begins(&FILTERS) || SUBSCRIPTIONS.iter().any(|end| lower.ends_with(end)) {
        return Err(ForwardingError::Stateful(name.into()));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    type Reason = fn(Box<str>) -> ForwardingError;

    #[test]
    fn what_is_never_forwarded_is_an_error() {
        const OWN: Option<Reason> = Some(ForwardingError::Own);
        const GOVERNS: Option<Reason> = Some(ForwardingError::Governs);
        const STATEFUL: Option<Reason> = Some(ForwardingError::Stateful);
        const SPELLING: Option<Reason> = Some(ForwardingError::Spelling);
        for (name, reason) in [
            ("eth_sendRawTransaction", None),
            ("txpool_status", None),
            ("trace_block", None),
            ("eth_sendRawTransactionSync", None),
            ("eth_getWork", None),
            ("eth_sendrawtransaction", SPELLING),
            ("ETH_sendRawTransaction", SPELLING),
            ("parity_pendingTransactions", None),
            ("administrator_x", None),
            ("eth_chainId", OWN),
            ("ETH_CHAINID", OWN),
            ("eth_accounts", OWN),
            ("eth_subscribe", OWN),
            ("rpc.discover", OWN),
            ("debug_getRawHeader", OWN),
            ("debug_traceTransaction", GOVERNS),
            ("Debug_setHead", GOVERNS),
            ("admin_addPeer", GOVERNS),
            ("ADMIN_stopHTTP", GOVERNS),
            ("engine_newPayloadV4", GOVERNS),
            ("miner_start", GOVERNS),
            ("personal_unlockAccount", GOVERNS),
            ("personal_sign", GOVERNS),
            ("clique_propose", GOVERNS),
            ("qbft_proposeValidatorVote", GOVERNS),
            ("ibft_proposeValidatorVote", GOVERNS),
            ("perm_addNodesToAllowlist", GOVERNS),
            ("plugins_reloadPluginConfig", GOVERNS),
            ("parity_setMode", GOVERNS),
            ("anvil_setBalance", GOVERNS),
            ("hardhat_reset", GOVERNS),
            ("evm_mine", GOVERNS),
            ("eth_setEtherbase", GOVERNS),
            ("eth_submitWork", GOVERNS),
            ("eth_sendUnsignedTransaction", GOVERNS),
            ("eth_sign", GOVERNS),
            ("eth_signTransaction", GOVERNS),
            ("eth_signTypedData_v4", GOVERNS),
            ("eth_sendTransaction", GOVERNS),
            ("eth_resend", GOVERNS),
            ("account_signTransaction", GOVERNS),
            ("wallet_addEthereumChain", GOVERNS),
            ("eth_newFilter", OWN),
            ("eth_newBlockFilter", OWN),
            ("eth_newPendingTransactionFilter", STATEFUL),
            ("eth_uninstallFilter", OWN),
            ("eth_getFilterChanges", OWN),
            ("eth_getFilterLogs", OWN),
            ("parity_subscribe", STATEFUL),
            ("parity_unsubscribe", STATEFUL),
            ("eth_subscription", STATEFUL),
        ] {
            let found = Forwarding::new(&[name.into()]).err();
            let expected = reason.map(|reason| reason(name.into()));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn forwarded_methods_are_behind_the_others_in_every_set() {
        let names = ["txpool_status".into(), "eth_sendRawTransaction".into()];
        let forwarding = Forwarding::new(&names).unwrap();
        assert!(forwarding.sends());
        assert_eq!(forwarding.count(), METHODS.len() + 2);
        for set in [MethodSet::Core, MethodSet::Companion] {
            for (name, expected) in [
                ("eth_getLogs", find("eth_getLogs", set)),
                ("eth_chainId", find("eth_chainId", set)),
                ("txpool_status", Some(METHODS.len())),
                ("eth_sendRawTransaction", Some(METHODS.len() + 1)),
                ("eth_sendTransaction", None),
                ("TXPOOL_status", None),
            ] {
                let found = forwarding.find(name, set);
                assert_eq!(found, expected, "{name}");
                let method = found.and_then(|at| forwarding.method(at));
                assert_eq!(method.map(|method| method.name), found.map(|_| name));
            }
        }
        let names: Vec<_> = forwarding.method_names().collect();
        assert_eq!(
            names[METHODS.len()..],
            ["txpool_status", "eth_sendRawTransaction"]
        );
        assert!(forwarding.method(names.len()).is_none());
        let none = Forwarding::default();
        assert!(!none.sends() && none.count() == METHODS.len());
        assert_eq!(
            none.find("eth_sendRawTransaction", MethodSet::Companion),
            None
        );
    }
}
