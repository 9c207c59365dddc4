//! How often passwords may be tried, and how often people may log in.

use std::{
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

use nearhead_actors::budget::Attempts;
use nearhead_tenants::{account::ACCOUNTS_MAX, name::Name};

use super::known_networks::KnownNetworks;
use crate::{
    access::network_of,
    limits::{
        GUESS_EVERY, GUESSES_MAX, KNOWN_GUESS_EVERY, KNOWN_GUESSES_MAX, KNOWN_NETWORKS_MAX,
        LOGIN_EVERY, LOGINS_MAX, NETWORK_GUESS_EVERY, NETWORK_GUESSES_MAX, SITE_GUESS_EVERY,
        SITE_GUESSES_MAX, STRANGERS_GUESS_EVERY, STRANGERS_GUESSES_MAX, THROTTLED_MAX,
    },
};

/// Counts attempts to log in. One that succeeds is not counted as a guess, but as a login.
///
/// A bound on an account alone would let anybody keep its owner out. So a network from which
/// somebody has logged in to the account has a count of its own there, and what strangers do is no
/// concern of it. All of these networks share a bound on the account, and so do all others, so that
/// many of them guess no faster than some. (OWASP describes the same with a cookie in place of the
/// network; programs that log in keep none.)
#[derive(Debug)]
pub(super) struct LoginThrottle {
    known: KnownNetworks,
    /// Guesses at accounts, each from a network that is known there. They have room of their own,
    /// which strangers cannot fill.
    guesses_of_known: Attempts<(Name, IpAddr)>,
    /// Guesses at accounts from all networks that are known there.
    guesses_of_all_known: Attempts<Name>,
    /// Guesses at accounts, each from a network that is not known there.
    guesses: Attempts<(Name, IpAddr)>,
    /// Guesses at accounts from all networks that are not known there.
    guesses_of_strangers: Attempts<Name>,
    /// Guesses from networks at accounts where they are not known.
    guesses_of_networks: Attempts<IpAddr>,
    /// The same for what may be all networks of one customer of a provider.
    guesses_of_sites: Attempts<Ipv6Addr>,
    /// Logins to accounts.
    logins: Attempts<Name>,
}

/// An attempt that was allowed.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    account: Option<Name>,
    network: Option<IpAddr>,
    is_known: bool,
}

impl Attempt {
    fn pair(&self) -> Option<(Name, IpAddr)> {
        self.account.clone().zip(self.network)
    }

    /// The /48 of a network of IPv6.
    fn site(&self) -> Option<Ipv6Addr> {
        match self.network? {
            IpAddr::V6(network) => {
                let [a, b, c, ..] = network.segments();
                Some(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
            }
            IpAddr::V4(_) => None,
        }
    }
}

impl Default for LoginThrottle {
    fn default() -> Self {
        let known_max = ACCOUNTS_MAX * KNOWN_NETWORKS_MAX;
        Self {
            known: KnownNetworks::default(),
            guesses_of_known: Attempts::new(GUESSES_MAX, GUESS_EVERY, known_max),
            guesses_of_all_known: Attempts::new(
                KNOWN_GUESSES_MAX,
                KNOWN_GUESS_EVERY,
                THROTTLED_MAX,
            ),
            guesses: Attempts::new(GUESSES_MAX, GUESS_EVERY, THROTTLED_MAX),
            guesses_of_strangers: Attempts::new(
                STRANGERS_GUESSES_MAX,
                STRANGERS_GUESS_EVERY,
                THROTTLED_MAX,
            ),
            guesses_of_networks: Attempts::new(
                NETWORK_GUESSES_MAX,
                NETWORK_GUESS_EVERY,
                THROTTLED_MAX,
            ),
            guesses_of_sites: Attempts::new(SITE_GUESSES_MAX, SITE_GUESS_EVERY, THROTTLED_MAX),
            logins: Attempts::new(LOGINS_MAX, LOGIN_EVERY, THROTTLED_MAX),
        }
    }
}

impl LoginThrottle {
    /// Counts an attempt for an account, whether it exists or not, from an address. It is counted
    /// before the password is verified, so that many at once are bounded, too.
    ///
    /// # Errors
    /// There were too many; the next one is allowed after this time.
    pub(super) fn begin(
        &mut self,
        account: Option<&Name>,
        address: Option<IpAddr>,
        now: Instant,
    ) -> Result<Attempt, Duration> {
        let attempt = self.attempt(account, address);
        let login = account.and_then(|account| self.logins.wait(account, now));
        let guess = self.wait(&attempt, now);
        match login.max(guess) {
            Some(wait) => Err(wait),
            None => Ok(self.count(attempt, now)),
        }
    }

    /// Counts a guess at one's own password by somebody who is logged in. It waits for guesses, and
    /// not for logins.
    ///
    /// # Errors
    /// There were too many; the next one is allowed after this time.
    pub(super) fn begin_change(
        &mut self,
        account: &Name,
        address: Option<IpAddr>,
        now: Instant,
    ) -> Result<Attempt, Duration> {
        let attempt = self.attempt(Some(account), address);
        match self.wait(&attempt, now) {
            Some(wait) => Err(wait),
            None => Ok(self.count(attempt, now)),
        }
    }

    fn attempt(&self, account: Option<&Name>, address: Option<IpAddr>) -> Attempt {
        let network = address.map(network_of);
        let is_known = account
            .zip(network)
            .is_some_and(|(account, network)| self.known.contains(account, network));
        Attempt {
            account: account.cloned(),
            network,
            is_known,
        }
    }

    /// The time until a guess is allowed; `None` if it is now.
    fn wait(&mut self, attempt: &Attempt, now: Instant) -> Option<Duration> {
        let Attempt {
            account,
            network,
            is_known,
        } = attempt;
        let (account, pair) = (account.as_ref(), attempt.pair());
        let waits = match is_known {
            true => [
                pair.and_then(|pair| self.guesses_of_known.wait(&pair, now)),
                account.and_then(|account| self.guesses_of_all_known.wait(account, now)),
                None,
                None,
            ],
            false => [
                pair.and_then(|pair| self.guesses.wait(&pair, now)),
                account.and_then(|account| self.guesses_of_strangers.wait(account, now)),
                network.and_then(|network| self.guesses_of_networks.wait(&network, now)),
                attempt
                    .site()
                    .and_then(|site| self.guesses_of_sites.wait(&site, now)),
            ],
        };
        waits.into_iter().flatten().max()
    }

    fn count(&mut self, attempt: Attempt, now: Instant) -> Attempt {
        match (attempt.is_known, attempt.pair()) {
            (true, Some(pair)) => {
                self.guesses_of_all_known.count(pair.0.clone(), now);
                self.guesses_of_known.count(pair, now);
            }
            (_, pair) => {
                if let Some(pair) = pair {
                    self.guesses.count(pair, now);
                }
                if let Some(account) = &attempt.account {
                    self.guesses_of_strangers.count(account.clone(), now);
                }
                if let Some(network) = attempt.network {
                    self.guesses_of_networks.count(network, now);
                }
                if let Some(site) = attempt.site() {
                    self.guesses_of_sites.count(site, now);
                }
            }
        }
        attempt
    }

    /// Takes an attempt back: the password was right. It is counted as a login.
    pub(super) fn succeeded(&mut self, attempt: Attempt, now: Instant) {
        let account = attempt.account.clone();
        self.was_right(attempt);
        if let Some(account) = account {
            self.logins.count(account, now);
        }
    }

    /// Takes an attempt back: the password was right, and nobody logged in by it.
    pub(super) fn was_right(&mut self, attempt: Attempt) {
        let pair = attempt.pair();
        match (attempt.is_known, &pair) {
            (true, Some(pair)) => {
                self.guesses_of_all_known.take_back(&pair.0);
                self.guesses_of_known.take_back(pair);
            }
            _ => {
                if let Some(pair) = &pair {
                    self.guesses.take_back(pair);
                }
                if let Some(account) = &attempt.account {
                    self.guesses_of_strangers.take_back(account);
                }
                if let Some(network) = &attempt.network {
                    self.guesses_of_networks.take_back(network);
                }
                if let Some(site) = attempt.site() {
                    self.guesses_of_sites.take_back(&site);
                }
            }
        }
        if let Some((account, network)) = pair {
            self.known.add(&account, network);
        }
    }

    /// Keeps in mind that somebody is logged in to an account from an address.
    pub(super) fn know(&mut self, account: &Name, address: IpAddr) {
        self.known.add(account, network_of(address));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
