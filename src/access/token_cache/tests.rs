#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use nearhead_tenants::UnixMillis;
use serde_json::{Value, json};

use super::*;
use crate::access::issuer::Issuer;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const KEYS: [KeyId; 2] = [KeyId::of_bytes([1; 8]), KeyId::of_bytes([2; 8])];

fn read<const N: usize>(issuers: [&Issuer; N]) -> [Arc<VerifyingKey>; N] {
    issuers.map(|issuer| Arc::new(VerifyingKey::new(&issuer.public_key()).unwrap()))
}

/// The claims of a token for some keys that ends in ten seconds.
fn claims(aud: Value) -> Value {
    json!({"aud": aud, "exp": NOW.0 / 1_000 + 10})
}

/// A worker, and the clocks that it reads.
struct Worker {
    tokens: TokenCache,
    now: Now,
}

impl Default for Worker {
    fn default() -> Self {
        let (tokens, instant) = (TokenCache::default(), Instant::now());
        let now = Now { instant, unix: NOW };
        Self { tokens, now }
    }
}

impl Worker {
    /// A token of the first key, from a client without an address.
    fn admit(&self, token: &str, keys: &[Arc<VerifyingKey>]) -> Result<(), TokenError> {
        self.admit_from(token, (KEYS[0], keys), "")
    }

    fn admit_from(
        &self,
        token: &str,
        key: (KeyId, &[Arc<VerifyingKey>]),
        address: &str,
    ) -> Result<(), TokenError> {
        let address = || address.parse().ok();
        let admitted = self.tokens.admit(token, key, address, self.now);
        admitted.map(|_| ())
    }
}

#[test]
fn a_token_is_verified_once_for_each_key() {
    let [issuer, other] = ["one", "two"].map(Issuer::new);
    let keys = read([&issuer]);
    let exp = NOW.0 / 1_000 + 10;
    let token = |aud: Value, exp: u64| {
        let claims = json!({"aud": aud, "exp": exp, "nbf": exp - 10});
        issuer.token(&claims)
    };
    let (for_both, for_one) = (token(json!(KEYS), exp), token(json!(KEYS[0]), exp));
    let later = token(json!(KEYS[0]), exp + 100);
    let mut worker = Worker::default();
    let at = |millis: i64| UnixMillis(NOW.0.saturating_add_signed(millis));
    let (early, over) = (Err(TokenError::NotYetValid), Err(TokenError::Expired));
    for (what, token, key, now, expected, verifications) in [
        ("first", &for_both, 0, NOW, Ok(()), 1),
        ("again", &for_both, 0, NOW, Ok(()), 1),
        ("another key", &for_both, 1, NOW, Ok(()), 2),
        ("another key again", &for_both, 1, NOW, Ok(()), 2),
        ("another token", &for_one, 0, NOW, Ok(()), 3),
        (
            "of another key",
            &for_one,
            1,
            NOW,
            Err(TokenError::OtherAudience),
            4,
        ),
        ("before it", &for_one, 0, at(-60_001), early, 4),
        ("its last moment", &for_one, 0, at(69_999), Ok(()), 4),
        ("its end", &for_one, 0, at(70_000), over, 4),
        // One that is verified is kept also before its time.
        ("too early", &later, 0, NOW, early, 5),
        ("too early again", &later, 0, NOW, early, 5),
        ("in time", &later, 0, at(50_000), Ok(()), 5),
    ] {
        worker.now.unix = now;
        let admitted = worker.admit_from(token, (KEYS[key], &keys), "");
        assert_eq!(admitted, expected, "{what}");
        assert_eq!(worker.tokens.verifications(), verifications, "{what}");
    }
    // Public keys that have changed.
    worker.now.unix = NOW;
    for (keys, expected) in [
        (&read([&issuer, &other])[..], Ok(())),
        (&read([&other]), Err(TokenError::Invalid)),
        (&[], Err(TokenError::Invalid)),
        (&keys, Ok(())),
    ] {
        assert_eq!(worker.admit(&for_one, keys), expected);
    }
    assert_eq!(worker.tokens.len(), 4);
}

#[test]
fn tokens_are_bounded_and_those_in_use_stay() {
    let issuer = Issuer::new("one");
    let token = issuer.token(&claims(json!(KEYS[0])));
    let (worker, keys) = (Worker::default(), read([&issuer]));
    let key = (KEYS[0], &keys[..]);
    let verified = worker.tokens.admit(&token, key, || None, worker.now);
    let verified = verified.unwrap();
    let put = |number: usize| {
        let id = (KEYS[1], SecretDigest::of(&number.to_string()));
        let mut tokens = worker.tokens.0.borrow_mut();
        tokens.verified.put(id, verified.clone());
    };
    for number in 0..VERIFIED_TOKENS_MAX * 3 {
        put(number);
        assert!(worker.tokens.len() <= VERIFIED_TOKENS_MAX);
        if number % 1_000 == 0 {
            assert_eq!(worker.admit(&token, &keys), Ok(()));
        }
    }
    assert_eq!(worker.tokens.verifications(), 1, "it was always there");
    (0..VERIFIED_TOKENS_MAX).for_each(put);
    assert_eq!(worker.admit(&token, &keys), Ok(()));
    assert_eq!(worker.tokens.verifications(), 2, "it was dropped");
}

const TOO_MANY: Result<(), TokenError> = Err(TokenError::TooMany {
    retry_after_seconds: 1,
});

/// A stranger's tokens, each another one, of which none is accepted.
struct Strangers {
    issuer: Issuer,
    signed: u32,
}

impl Strangers {
    fn new() -> Self {
        let (issuer, signed) = (Issuer::new("one"), 0);
        Self { issuer, signed }
    }

    fn token(&mut self) -> String {
        self.signed += 1;
        let mut claims = claims(json!(KEYS[0]));
        claims["jti"] = json!(self.signed);
        self.issuer.token(&claims)
    }
}

/// What a stranger has verified in vain is bounded, and keeps nobody out who is elsewhere.
#[test]
fn tokens_that_are_not_accepted_make_their_network_wait_for_the_key() {
    let (issuer, mut strangers) = (Issuer::new("one"), Strangers::new());
    let keys = read([&issuer]);
    let [key, other_key] = KEYS.map(|id| (id, &keys[..]));
    let mut worker = Worker::default();
    let known = issuer.token(&claims(json!(KEYS)));
    assert_eq!(worker.admit_from(&known, key, "192.0.2.1"), Ok(()));
    let attempts = u64::from(TOKEN_REFUSALS_MAX);
    for _ in 0..attempts {
        let found = worker.admit_from(&strangers.token(), key, "192.0.2.1");
        assert_eq!(found, Err(TokenError::Invalid));
    }
    let verifications = worker.tokens.verifications();
    for address in ["192.0.2.1", "::ffff:192.0.2.1"] {
        let found = worker.admit_from(&strangers.token(), key, address);
        assert_eq!(found, TOO_MANY, "{address}");
    }
    assert_eq!(worker.tokens.verifications(), verifications, "none of them");
    // What is no token at all costs nothing, and a token that was verified before waits for nobody.
    let unreadable = worker.admit_from("a.b.c", key, "192.0.2.1");
    assert_eq!(unreadable, Err(TokenError::Invalid));
    assert_eq!(worker.admit_from(&known, key, "192.0.2.1"), Ok(()));
    // A new token is verified for another network, and for another key.
    let new = issuer.token(&claims(json!([KEYS[0], KEYS[1], "new"])));
    assert_eq!(worker.admit_from(&new, key, "192.0.2.1"), TOO_MANY);
    assert_eq!(worker.admit_from(&new, other_key, "192.0.2.1"), Ok(()));
    assert_eq!(worker.admit_from(&new, key, "192.0.2.2"), Ok(()));
    // From then on it is one that was verified.
    assert_eq!(worker.admit_from(&new, key, "192.0.2.1"), Ok(()));
    // One more so often.
    worker.now.instant += TOKEN_REFUSAL_EVERY;
    for expected in [Err(TokenError::Invalid), TOO_MANY] {
        let found = worker.admit_from(&strangers.token(), key, "192.0.2.1");
        assert_eq!(found, expected);
    }
}

/// Tokens that are accepted count nothing, however many there are.
#[test]
fn tokens_that_are_accepted_never_wait() {
    let issuer = Issuer::new("one");
    let (worker, keys) = (Worker::default(), read([&issuer]));
    for number in 0..3 * TOKEN_REFUSALS_MAX {
        let mut claims = claims(json!(KEYS[0]));
        claims["jti"] = json!(number);
        assert_eq!(worker.admit(&issuer.token(&claims), &keys), Ok(()));
    }
    // One that has ended is verified, and counted, once.
    let over = issuer.token(&json!({"aud": KEYS[0], "exp": NOW.0 / 1_000 - 100}));
    for _ in 0..3 * TOKEN_REFUSALS_MAX {
        assert_eq!(worker.admit(&over, &keys), Err(TokenError::Expired));
    }
}

/// Strangers in ever more networks share one count when those of their own are used up.
#[test]
fn verifications_in_vain_are_bounded_for_all_networks() {
    let (issuer, mut strangers) = (Issuer::new("one"), Strangers::new());
    let keys = read([&issuer]);
    let mut worker = Worker::default();
    let mut networks = 0..;
    let mut attempts = |worker: &Worker, count: usize| {
        let before = worker.tokens.verifications();
        for network in networks.by_ref().take(count) {
            let address = format!("2001:db8:{:x}:{:x}::1", network / 65_536, network % 65_536);
            let found = worker.admit_from(&strangers.token(), (KEYS[0], &keys), &address);
            assert!(found.is_err());
        }
        worker.tokens.verifications() - before
    };
    let shared = TOKEN_REFUSALS_MAX as usize;
    let first = attempts(&worker, TOKEN_NETWORKS_MAX + 2 * shared);
    assert_eq!(first, TOKEN_NETWORKS_MAX + shared);
    assert_eq!(attempts(&worker, 100), 0);
    worker.now.instant += TOKEN_REFUSAL_EVERY - Duration::from_nanos(1);
    assert_eq!(attempts(&worker, 100), 0);
    worker.now.instant += Duration::from_nanos(1);
    let next = attempts(&worker, TOKEN_NETWORKS_MAX + 2 * shared);
    assert_eq!(next, TOKEN_NETWORKS_MAX + 1, "the shared count goes on");
    // They share it for their key alone: clients of another key come in from anywhere.
    let [mine, other] = [KEYS[0], KEYS[1]].map(|key| issuer.token(&claims(json!(key))));
    let admit = |token: &str, key| worker.admit_from(token, (key, &keys), "192.0.2.9");
    assert_eq!(admit(&mine, KEYS[0]), TOO_MANY);
    assert_eq!(admit(&other, KEYS[1]), Ok(()));
}
