//! How often passwords may be tried.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

use nearhead_tenants::name::Name;

use crate::limits::{
    ACCOUNT_LOGIN_EVERY, ACCOUNT_LOGINS_MAX, ADDRESS_LOGIN_EVERY, ADDRESS_LOGINS_MAX, THROTTLED_MAX,
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
            accounts: Attempts::new(ACCOUNT_LOGINS_MAX, ACCOUNT_LOGIN_EVERY),
            addresses: Attempts::new(ADDRESS_LOGINS_MAX, ADDRESS_LOGIN_EVERY),
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

/// What counts as one address: a customer of a provider has a whole /64 of IPv6.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

/// Attempts by some key: `at_once` in a row, then one every so often.
#[derive(Debug)]
struct Attempts<K> {
    every: Duration,
    /// The time that all but one of the attempts in a row take.
    leeway: Duration,
    /// When the attempts so far would be over at the steady pace. A key that is not here has made
    /// none.
    over: HashMap<K, Instant>,
    /// The same for all keys that have no room in the map.
    others_over: Option<Instant>,
}

impl<K: Eq + Hash> Attempts<K> {
    fn new(at_once: u32, every: Duration) -> Self {
        Self {
            every,
            leeway: every * at_once.saturating_sub(1),
            over: HashMap::new(),
            others_over: None,
        }
    }

    /// How long the next attempt has to wait, if it has to.
    fn wait(&mut self, key: &K, now: Instant) -> Option<Duration> {
        self.make_room(key, now);
        let over = match self.over.get(key) {
            Some(over) => Some(*over),
            None if self.over.len() >= THROTTLED_MAX => self.others_over,
            None => None,
        };
        let wait = over?.saturating_duration_since(now + self.leeway);
        (!wait.is_zero()).then_some(wait)
    }

    /// Counts an attempt that need not wait.
    fn count(&mut self, key: K, now: Instant) {
        let has_room = self.over.len() < THROTTLED_MAX || self.over.contains_key(&key);
        let over = match has_room {
            true => self.over.entry(key).or_insert(now),
            false => self.others_over.get_or_insert(now),
        };
        *over = (*over).max(now) + self.every;
    }

    fn take_back(&mut self, key: &K) {
        let over = match self.over.get_mut(key) {
            Some(over) => Some(over),
            None => self.others_over.as_mut(),
        };
        if let Some(over) = over
            && let Some(before) = over.checked_sub(self.every)
        {
            *over = before;
        }
    }

    /// Forgets the keys that need not be counted any more, if another one has no room.
    fn make_room(&mut self, key: &K, now: Instant) {
        if self.over.len() >= THROTTLED_MAX && !self.over.contains_key(key) {
            self.over.retain(|_, over| *over > now);
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

    #[test]
    fn memory_is_bounded_and_strangers_share_what_is_left() {
        let mut attempts = Attempts::new(2, Duration::from_secs(1));
        let now = Instant::now();
        for key in 0..THROTTLED_MAX {
            assert_eq!(attempts.wait(&key, now), None);
            attempts.count(key, now);
        }
        for key in [THROTTLED_MAX, THROTTLED_MAX + 1] {
            assert_eq!(attempts.wait(&key, now), None);
            attempts.count(key, now);
        }
        let next = THROTTLED_MAX + 2;
        assert_eq!(attempts.wait(&next, now), Some(Duration::from_secs(1)));
        assert_eq!(attempts.wait(&0, now), None, "it has room of its own");
        assert_eq!(attempts.over.len(), THROTTLED_MAX);
        // Those whose attempts are over make room.
        let later = now + Duration::from_secs(1);
        assert_eq!(attempts.wait(&next, later), None);
        attempts.count(next, later);
        assert_eq!(attempts.over.len(), 1);
    }
}
