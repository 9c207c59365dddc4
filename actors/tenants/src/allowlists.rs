//! To what a key is narrowed: origins, user agents, methods, contracts and networks.
//!
//! A request has to pass every list that is not empty, and passes a list if one entry fits.

mod entries;
mod entry;
mod origin_pattern;

use std::{fmt, net::IpAddr};

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};

pub use self::{
    entries::{ENTRIES_MAX, Entries, TooManyEntries},
    entry::{InvalidEntry, MethodName, Network, UserAgentPart},
    origin_pattern::OriginPattern,
};

/// What a list is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// The pages that a browser sends requests from.
    Origins,
    /// The programs that send requests.
    UserAgents,
    /// The methods that may be called.
    Methods,
    /// The contracts that may be read.
    Contracts,
    /// The networks that requests come from.
    Networks,
}

impl fmt::Display for ListKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Origins => "origin",
            Self::UserAgents => "user agent",
            Self::Methods => "method",
            Self::Contracts => "contract address",
            Self::Networks => "IP address",
        })
    }
}

/// The lists of a key. An empty one allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Allowlists {
    /// Pages.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub origins: Entries<OriginPattern>,
    /// Programs.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub user_agents: Entries<UserAgentPart>,
    /// Methods.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub methods: Entries<MethodName>,
    /// Contracts.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub contracts: Entries<Address>,
    /// Networks; an address alone is a network of one.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub networks: Entries<Network>,
}

impl Allowlists {
    /// Whether a page may send requests; `origin` is the header of that name.
    #[must_use]
    pub fn allow_origin(&self, origin: Option<&str>) -> bool {
        self.origins
            .allow(|pattern| origin.is_some_and(|origin| pattern.fits(origin)))
    }

    /// Whether a program may send requests; `user_agent` is the header of that name.
    #[must_use]
    pub fn allow_user_agent(&self, user_agent: Option<&str>) -> bool {
        self.user_agents
            .allow(|part| user_agent.is_some_and(|user_agent| part.fits(user_agent)))
    }

    /// Whether a method may be called.
    #[must_use]
    pub fn allow_method(&self, name: &str) -> bool {
        self.methods.allow(|method| method.as_str() == name)
    }

    /// Whether a contract may be read.
    #[must_use]
    pub fn allow_contract(&self, address: &Address) -> bool {
        self.contracts.allow(|contract| contract == address)
    }

    /// Whether requests may come from an address. An IPv4 address that is mapped to IPv6 counts as
    /// the IPv4 address.
    #[must_use]
    pub fn allow_address(&self, address: IpAddr) -> bool {
        self.networks.allow(|network| network.contains(address))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_to_allow_and_one_entry_is_enough() {
        let lists: Allowlists = serde_json::from_str(
            r#"{"origins":["https://a.org","https://b.org"],"userAgents":["Wallet/"],
                "methods":["eth_chainId"],"contracts":["0x0000000000000000000000000000000000000001"],
                "networks":["10.0.0.0/8"]}"#,
        )
        .unwrap();
        assert!(lists.allow_origin(Some("https://b.org")));
        assert!(!lists.allow_origin(Some("https://c.org")) && !lists.allow_origin(None));
        assert!(lists.allow_user_agent(Some("my wallet/2.0 (x)")));
        assert!(!lists.allow_user_agent(Some("wallet")) && !lists.allow_user_agent(None));
        assert!(lists.allow_method("eth_chainId") && !lists.allow_method("eth_chainid"));
        let [listed, other] = [1, 2].map(Address::with_last_byte);
        assert!(lists.allow_contract(&listed) && !lists.allow_contract(&other));
        assert!(lists.allow_address("10.0.0.1".parse().unwrap()));
        assert!(!lists.allow_address("::1".parse().unwrap()));
        let all = Allowlists::default();
        assert!(all.allow_origin(None) && all.allow_user_agent(None) && all.allow_method("x"));
        assert!(all.allow_contract(&other) && all.allow_address("::1".parse().unwrap()));
        assert_eq!(serde_json::to_string(&all).unwrap(), "{}");
        let text = serde_json::to_string(&lists).unwrap();
        assert_eq!(serde_json::from_str::<Allowlists>(&text).unwrap(), lists);
    }
}
