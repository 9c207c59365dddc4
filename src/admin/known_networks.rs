//! From where people have logged in.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
};

use nearhead_tenants::{account::ACCOUNTS_MAX, name::Name};

use crate::limits::KNOWN_NETWORKS_MAX;

/// The networks from which somebody has logged in to each account. Only who has logged in adds one,
/// so that nobody else can crowd them out.
#[derive(Debug, Default)]
pub(super) struct KnownNetworks(HashMap<Name, VecDeque<IpAddr>>);

impl KnownNetworks {
    /// Whether somebody has logged in to this account from this network.
    pub(super) fn contains(&self, account: &Name, network: IpAddr) -> bool {
        let networks = self.0.get(account);
        networks.is_some_and(|networks| networks.contains(&network))
    }

    /// Adds the network of somebody who has logged in.
    pub(super) fn add(&mut self, account: &Name, network: IpAddr) {
        if let Some(networks) = self.0.get_mut(account) {
            if networks.back() == Some(&network) {
                return;
            }
            networks.retain(|known| *known != network);
            if networks.len() >= KNOWN_NETWORKS_MAX {
                networks.pop_front();
            }
            networks.push_back(network);
            return;
        }
        if self.0.len() >= ACCOUNTS_MAX {
            // There are no more accounts than this, so some of these were removed. Which ones is
            // not known here.
            let some = self.0.keys().next().cloned();
            some.map(|some| self.0.remove(&some));
        }
        self.0.insert(account.clone(), VecDeque::from([network]));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let mut known = KnownNetworks::default();
        let network = |at: usize| IpAddr::from((at as u32).to_be_bytes());
        let name = |at: usize| -> Name { format!("account {at}").parse().unwrap() };
        for at in 0..KNOWN_NETWORKS_MAX {
            known.add(&name(0), network(at));
        }
        // The first one is used again, so the second one goes.
        known.add(&name(0), network(0));
        known.add(&name(0), network(KNOWN_NETWORKS_MAX));
        for (at, is_known) in [(0, true), (1, false), (2, true), (KNOWN_NETWORKS_MAX, true)] {
            assert_eq!(known.contains(&name(0), network(at)), is_known, "{at}");
        }
        assert!(!known.contains(&name(1), network(0)), "it is the account's");
        for at in 0..2 * ACCOUNTS_MAX {
            known.add(&name(at), network(at));
        }
        assert_eq!(known.0.len(), ACCOUNTS_MAX);
        let last = 2 * ACCOUNTS_MAX - 1;
        assert!(known.contains(&name(last), network(last)));
    }
}
