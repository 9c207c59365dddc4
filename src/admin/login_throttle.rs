//! How often passwords may be tried.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use nearhead_actors::budget::Attempts;
use nearhead_tenants::name::Name;

use crate::{
    access::network_of,
    limits::{
        ACCOUNT_LOGIN_EVERY, ACCOUNT_LOGINS_MAX, ADDRESS_LOGIN_EVERY, ADDRESS_LOGINS_MAX,
        THROTTLED_MAX,
    },
};

/// Counts attempts to log in, by account and by address. A successful one is not counted.
#[derive(Debug)]
pub(super) struct LoginThrottle {
    accounts: Attempts<Name>,
    addresses: Attempts<IpAddr>,
}

/// An attempt that was allowed.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    account: Option<Name>,
    address: Option<IpAddr>,
}

impl Default for LoginThrottle {
    fn default() -> Self {
        Self {
            accounts: Attempts::new(ACCOUNT_LOGINS_MAX, ACCOUNT_LOGIN_EVERY, THROTTLED_MAX),
            addresses: Attempts::new(ADDRESS_LOGINS_MAX, ADDRESS_LOGIN_EVERY, THROTTLED_MAX),
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
        let address = address.map(network_of);
        let waits = [
            address.and_then(|address| self.addresses.wait(&address, now)),
            account.and_then(|account| self.accounts.wait(account, now)),
        ];
        if let Some(wait) = waits.into_iter().flatten().max() {
            return Err(wait);
        }
        if let Some(address) = address {
            self.addresses.count(address, now);
        }
        if let Some(account) = account {
            self.accounts.count(account.clone(), now);
        }
        let account = account.cloned();
        Ok(Attempt { account, address })
    }

    /// Takes an attempt back: the password was right.
    pub(super) fn succeeded(&mut self, attempt: &Attempt) {
        if let Some(account) = &attempt.account {
            self.accounts.take_back(account);
        }
        if let Some(address) = &attempt.address {
            self.addresses.take_back(address);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// How many attempts are allowed at once, and how long the next one waits.
    fn attempts(
        throttle: &mut LoginThrottle,
        now: Instant,
        who: impl Fn(u32) -> (String, String),
    ) -> (u32, Duration) {
        for attempt in 0.. {
            let (account, from) = who(attempt);
            let begun = throttle.begin(Some(&name(&account)), Some(address(&from)), now);
            if let Err(wait) = begun {
                return (attempt, wait);
            }
        }
        (0, Duration::ZERO)
    }

    #[test]
    fn an_account_is_tried_some_times_and_then_slowly() {
        let mut throttle = LoginThrottle::default();
        let start = Instant::now();
        // Every attempt comes from another address.
        let who = |at: u32| ("root".to_owned(), format!("10.0.{}.{}", at / 256, at % 256));
        let expected = (ACCOUNT_LOGINS_MAX, ACCOUNT_LOGIN_EVERY);
        assert_eq!(attempts(&mut throttle, start, who), expected);
        assert_eq!(
            attempts(&mut throttle, start, who),
            (0, ACCOUNT_LOGIN_EVERY)
        );
        let later = start + ACCOUNT_LOGIN_EVERY;
        assert_eq!(
            attempts(&mut throttle, later, who),
            (1, ACCOUNT_LOGIN_EVERY)
        );
        // Another account is not concerned.
        let other = throttle.begin(Some(&name("other")), Some(address("10.0.0.1")), later);
        assert!(other.is_ok());
        let much_later = later + ACCOUNT_LOGIN_EVERY * ACCOUNT_LOGINS_MAX;
        assert_eq!(attempts(&mut throttle, much_later, who), expected);
    }

    #[test]
    fn an_address_tries_some_accounts_and_then_slowly() {
        let now = Instant::now();
        for from in ["192.0.2.1", "::ffff:192.0.2.1"] {
            let mut throttle = LoginThrottle::default();
            let who = |at: u32| (format!("account {at}"), from.to_owned());
            let expected = (ADDRESS_LOGINS_MAX, ADDRESS_LOGIN_EVERY);
            assert_eq!(attempts(&mut throttle, now, who), expected);
        }
        // All addresses of a /64 count as one.
        let mut throttle = LoginThrottle::default();
        let who = |at: u32| (format!("account {at}"), format!("2001:db8::{at:x}"));
        let expected = (ADDRESS_LOGINS_MAX, ADDRESS_LOGIN_EVERY);
        assert_eq!(attempts(&mut throttle, now, who), expected);
        let next = Some(address("2001:db8:0:1::1"));
        assert!(throttle.begin(None, next, now).is_ok());
    }

    #[test]
    fn a_right_password_does_not_count() {
        let mut throttle = LoginThrottle::default();
        let now = Instant::now();
        for _ in 0..100 {
            let attempt = throttle.begin(Some(&name("root")), Some(address("::1")), now);
            throttle.succeeded(&attempt.unwrap());
        }
    }
}
