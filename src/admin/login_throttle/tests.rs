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
        let from = format!("2001:{:x}:{:x}::1", at >> 16, at & 0xffff);
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

/// A customer of a provider has 65,536 networks of IPv6.
#[test]
fn the_networks_of_a_site_try_some_accounts_and_then_slowly() {
    let start = Instant::now();
    let expected = (SITE_GUESSES_MAX, SITE_GUESS_EVERY);
    let mut throttle = LoginThrottle::default();
    let who = |at: u32| (format!("account {at}"), format!("2001:db8:7:{at:x}::1"));
    assert_eq!(attempts(&mut throttle, start, who), expected);
    let later = start + SITE_GUESS_EVERY;
    let others = |at: u32| (format!("other {at}"), format!("2001:db8:7:f{at:03x}::1"));
    assert_eq!(attempts(&mut throttle, later, others).0, 1);
    // Other customers are not concerned, nor is who has logged in from there before.
    assert!(begin(&mut throttle, "root", "2001:db8:8::1", later).is_ok());
    assert!(begin(&mut throttle, "root", "192.0.2.1", later).is_ok());
    let home = "2001:db8:7:1::1";
    assert!(begin(&mut throttle, "root", home, later).is_err());
    throttle.know(&name("root"), home.parse().unwrap());
    assert!(begin(&mut throttle, "root", home, later).is_ok());
    // A right password is no guess.
    let mut throttle = LoginThrottle::default();
    for at in 0..2 * SITE_GUESSES_MAX {
        let (account, from) = who(at);
        let attempt = begin(&mut throttle, &account, &from, start).unwrap();
        throttle.succeeded(attempt, start);
    }
}

/// Somebody who is logged in changes the password: a wrong present one is a guess, a right one
/// is neither that nor a login.
#[test]
fn a_change_of_a_password_is_no_login() {
    let now = Instant::now();
    let mut throttle = LoginThrottle::default();
    let change = |throttle: &mut LoginThrottle| {
        throttle.begin_change(&name("root"), Some(HOME.parse().unwrap()), now)
    };
    for _ in 0..2 * LOGINS_MAX {
        let attempt = change(&mut throttle).unwrap();
        throttle.was_right(attempt);
    }
    for at in 0..LOGINS_MAX {
        let attempt = begin(&mut throttle, "root", HOME, now);
        assert!(attempt.is_ok(), "{at}");
        throttle.succeeded(attempt.unwrap(), now);
    }
    assert_eq!(
        begin(&mut throttle, "root", HOME, now).err(),
        Some(LOGIN_EVERY)
    );
    // That there were too many logins keeps nobody from a change; too many guesses do.
    for _ in 0..GUESSES_MAX {
        assert!(change(&mut throttle).is_ok());
    }
    assert_eq!(change(&mut throttle).err(), Some(GUESS_EVERY));
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
