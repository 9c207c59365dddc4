//! How often passwords may be tried, and how often people may log in.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use nearhead_actors::budget::Attempts;
use nearhead_tenants::{account::ACCOUNTS_MAX, name::Name};

use super::known_networks::KnownNetworks;
use crate::{
    access::network_of,
    limits::{
        GUESS_EVERY, GUESSES_MAX, KNOWN_GUESS_EVERY, KNOWN_GUESSES_MAX, KNOWN_NETWORKS_MAX,
        LOGIN_EVERY, LOGINS_MAX, NETWORK_GUESS_EVERY, NETWORK_GUESSES_MAX, STRANGERS_GUESS_EVERY,
        STRANGERS_GUESSES_MAX, THROTTLED_MAX,
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
        let network = address.map(network_of);
        let pair = account.cloned().zip(network);
        let is_known = pair
            .as_ref()
            .is_some_and(|(account, network)| self.known.contains(account, *network));
        let attempt = Attempt {
            account: account.cloned(),
            network,
            is_known,
        };
        let waits = match is_known {
            true => [
                pair.as_ref()
                    .and_then(|pair| self.guesses_of_known.wait(pair, now)),
                account.and_then(|account| self.guesses_of_all_known.wait(account, now)),
                None,
            ],
            false => [
                pair.as_ref().and_then(|pair| self.guesses.wait(pair, now)),
                account.and_then(|account| self.guesses_of_strangers.wait(account, now)),
                network.and_then(|network| self.guesses_of_networks.wait(&network, now)),
            ],
        };
        let login = account.and_then(|account| self.logins.wait(account, now));
        if let Some(wait) = waits.into_iter().chain([login]).flatten().max() {
            return Err(wait);
        }
        match (is_known, pair) {
            (true, Some(pair)) => {
                self.guesses_of_all_known.count(pair.0.clone(), now);
                self.guesses_of_known.count(pair, now);
            }
            (_, pair) => {
                if let Some(pair) = pair {
                    self.guesses.count(pair, now);
                }
                if let Some(account) = account {
                    self.guesses_of_strangers.count(account.clone(), now);
                }
                if let Some(network) = network {
                    self.guesses_of_networks.count(network, now);
                }
            }
        }
        Ok(attempt)
    }

    /// Takes an attempt back: the password was right. It is counted as a login.
    pub(super) fn succeeded(&mut self, attempt: Attempt, now: Instant) {
        let Attempt {
            account,
            network,
            is_known,
        } = attempt;
        let pair = account.clone().zip(network);
        match (is_known, &pair) {
            (true, Some(pair)) => {
                self.guesses_of_all_known.take_back(&pair.0);
                self.guesses_of_known.take_back(pair);
            }
            _ => {
                if let Some(pair) = &pair {
                    self.guesses.take_back(pair);
                }
                if let Some(account) = &account {
                    self.guesses_of_strangers.take_back(account);
                }
                if let Some(network) = &network {
                    self.guesses_of_networks.take_back(network);
                }
            }
        }
        if let Some((account, network)) = pair {
            self.known.add(&account, network);
        }
        if let Some(account) = account {
            self.logins.count(account, now);
        }
    }

    /// Keeps in mind that somebody is logged in to an account from an address.
    pub(super) fn know(&mut self, account: &Name, address: IpAddr) {
        self.known.add(account, network_of(address));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const HOME: &str = "203.0.113.1";

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn begin(
        throttle: &mut LoginThrottle,
        account: &str,
        from: &str,
        now: Instant,
    ) -> Result<Attempt, Duration> {
        throttle.begin(Some(&name(account)), Some(from.parse().unwrap()), now)
    }

    /// How many attempts are allowed at once, and how long the next one waits.
    fn attempts(
        throttle: &mut LoginThrottle,
        now: Instant,
        who: impl Fn(u32) -> (String, String),
    ) -> (u32, Duration) {
        for attempt in 0.. {
            let (account, from) = who(attempt);
            if let Err(wait) = begin(throttle, &account, &from, now) {
                return (attempt, wait);
            }
        }
        (0, Duration::ZERO)
    }

    /// A throttle that has seen the owner of `root` at home.
    fn with_owner(now: Instant) -> LoginThrottle {
        let mut throttle = LoginThrottle::default();
        let attempt = begin(&mut throttle, "root", HOME, now).unwrap();
        throttle.succeeded(attempt, now);
        throttle
    }

    /// Every attempt comes from another network.
    fn many_networks(at: u32) -> (String, String) {
        ("root".to_owned(), format!("2001:db8:{at:x}::1"))
    }

    #[test]
    fn a_network_tries_an_account_some_times_and_then_slowly() {
        let start = Instant::now();
        for from in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", HOME] {
            let mut throttle = with_owner(start);
            let who = |_| ("root".to_owned(), from.to_owned());
            let expected = (GUESSES_MAX, GUESS_EVERY);
            assert_eq!(attempts(&mut throttle, start, who), expected, "{from}");
            assert_eq!(attempts(&mut throttle, start, who), (0, GUESS_EVERY));
            let later = start + GUESS_EVERY;
            assert_eq!(attempts(&mut throttle, later, who), (1, GUESS_EVERY));
            // Another account is not concerned.
            assert!(begin(&mut throttle, "other", from, later).is_ok());
            let much_later = later + GUESS_EVERY * GUESSES_MAX;
            assert_eq!(attempts(&mut throttle, much_later, who), expected, "{from}");
        }
        // All addresses of a /64 count as one.
        let mut throttle = LoginThrottle::default();
        let who = |at: u32| ("root".to_owned(), format!("2001:db8::{at:x}"));
        let expected = (GUESSES_MAX, GUESS_EVERY);
        assert_eq!(attempts(&mut throttle, start, who), expected);
    }

    #[test]
    fn many_networks_guess_no_faster_than_some() {
        let start = Instant::now();
        for mut throttle in [LoginThrottle::default(), with_owner(start)] {
            let expected = (STRANGERS_GUESSES_MAX, STRANGERS_GUESS_EVERY);
            assert_eq!(attempts(&mut throttle, start, many_networks), expected);
            let later = start + STRANGERS_GUESS_EVERY;
            let others = |at: u32| many_networks(at + 1_000);
            let expected = (1, STRANGERS_GUESS_EVERY);
            assert_eq!(attempts(&mut throttle, later, others), expected);
        }
    }

    /// Somebody with the cookie of another one's login, but not the password, moves on and on.
    #[test]
    fn many_known_networks_guess_no_faster_than_some() {
        let start = Instant::now();
        let mut throttle = LoginThrottle::default();
        let mut guesses = |first: u32, now| {
            (first..first + 1_000)
                .filter(|at| {
                    let (account, from) = many_networks(*at);
                    throttle.know(&name(&account), from.parse().unwrap());
                    begin(&mut throttle, &account, &from, now).is_ok()
                })
                .count()
        };
        let expected = usize::try_from(KNOWN_GUESSES_MAX).unwrap();
        assert_eq!(guesses(0, start), expected);
        assert_eq!(guesses(1_000, start + KNOWN_GUESS_EVERY), 1);
        // A right password is no guess.
        let mut throttle = LoginThrottle::default();
        throttle.know(&name("root"), HOME.parse().unwrap());
        for _ in 0..LOGINS_MAX {
            let attempt = begin(&mut throttle, "root", HOME, start).unwrap();
            throttle.succeeded(attempt, start);
        }
        let later = start + LOGIN_EVERY;
        throttle.know(&name("root"), "192.0.2.1".parse().unwrap());
        for _ in 0..GUESSES_MAX {
            assert!(begin(&mut throttle, "root", "192.0.2.1", later).is_ok());
        }
    }

    #[test]
    fn strangers_do_not_keep_the_owner_out() {
        let start = Instant::now();
        let mut throttle = with_owner(start);
        attempts(&mut throttle, start, many_networks);
        assert!(begin(&mut throttle, "root", "192.0.2.1", start).is_err());
        assert!(begin(&mut throttle, "root", HOME, start).is_ok());
        // Nor does what others at home do to other accounts.
        let others = |at: u32| (format!("account {at}"), HOME.to_owned());
        attempts(&mut throttle, start, others);
        assert!(begin(&mut throttle, "other", HOME, start).is_err());
        assert!(begin(&mut throttle, "root", HOME, start).is_ok());
        // One network alone does not keep out an owner who is elsewhere for the first time.
        let mut throttle = with_owner(start);
        let one = |_| ("root".to_owned(), "192.0.2.1".to_owned());
        attempts(&mut throttle, start, one);
        assert!(begin(&mut throttle, "root", "198.51.100.1", start).is_ok());
        // A login that is open is as good as a password.
        let mut throttle = LoginThrottle::default();
        throttle.know(&name("root"), HOME.parse().unwrap());
        attempts(&mut throttle, start, many_networks);
        assert!(begin(&mut throttle, "root", HOME, start).is_ok());
    }

    /// Strangers fill the memory for guesses.
    #[test]
    fn a_crowd_does_not_keep_the_owner_out() {
        let now = Instant::now();
        let mut throttle = with_owner(now);
        let most = u32::try_from(THROTTLED_MAX).unwrap();
        for at in 0..most + STRANGERS_GUESSES_MAX {
            let from = format!("2001:db8:{:x}:{:x}::1", at >> 16, at & 0xffff);
            // From the end of the memory on, some are refused.
            let _ = begin(&mut throttle, &format!("account {at}"), &from, now);
        }
        assert!(begin(&mut throttle, "another", "192.0.2.1", now).is_err());
        for _ in 0..GUESSES_MAX {
            assert!(begin(&mut throttle, "root", HOME, now).is_ok());
        }
    }

    #[test]
    fn a_network_tries_some_accounts_and_then_slowly() {
        let now = Instant::now();
        let expected = (NETWORK_GUESSES_MAX, NETWORK_GUESS_EVERY);
        for from in ["192.0.2.1", "::ffff:192.0.2.1"] {
            let mut throttle = LoginThrottle::default();
            let who = |at: u32| (format!("account {at}"), from.to_owned());
            assert_eq!(attempts(&mut throttle, now, who), expected);
        }
        let mut throttle = LoginThrottle::default();
        let who = |at: u32| (format!("account {at}"), format!("2001:db8::{at:x}"));
        assert_eq!(attempts(&mut throttle, now, who), expected);
        let next = "2001:db8:0:1::1".parse().unwrap();
        assert!(throttle.begin(None, Some(next), now).is_ok());
        // A text that is no name counts, too.
        let mut throttle = LoginThrottle::default();
        for _ in 0..NETWORK_GUESSES_MAX {
            assert!(throttle.begin(None, Some(next), now).is_ok());
        }
        assert!(throttle.begin(None, Some(next), now).is_err());
    }

    #[test]
    fn a_right_password_is_a_login_and_no_guess() {
        let start = Instant::now();
        // From home, and from another network each time.
        for is_home in [true, false] {
            let mut throttle = LoginThrottle::default();
            let mut log_in = |at: u32, now| {
                let from = if is_home {
                    HOME.to_owned()
                } else {
                    many_networks(at).1
                };
                let attempt = begin(&mut throttle, "root", &from, now)?;
                throttle.succeeded(attempt, now);
                Ok(())
            };
            for at in 0..LOGINS_MAX {
                assert_eq!(log_in(at, start), Ok(()), "{at}");
            }
            assert_eq!(log_in(LOGINS_MAX, start), Err(LOGIN_EVERY));
            assert_eq!(log_in(LOGINS_MAX, start + LOGIN_EVERY), Ok(()));
            let next = LOGINS_MAX + 1;
            assert_eq!(log_in(next, start + LOGIN_EVERY), Err(LOGIN_EVERY));
        }
    }
}
