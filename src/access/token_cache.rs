//! Tokens that one worker has verified: a signature takes as long as some requests.

use std::{cell::RefCell, collections::HashMap, mem, sync::Arc};

use nearhead_tenants::{UnixMillis, id::KeyId, public_key::VerifyingKey, secret::SecretDigest};

use super::token::{TokenError, VerifiedToken};
use crate::limits::VERIFIED_TOKENS_MAX;

/// The tokens that a worker has verified. Nobody else touches it, so a look-up takes no lock.
///
/// A token that was not used while half of the bound were added is dropped.
#[derive(Default)]
pub(crate) struct TokenCache(RefCell<Generations>);

/// A token is known by its digest, so that the memory of a worker has no token.
type Tokens = HashMap<(KeyId, SecretDigest), VerifiedToken>;

#[derive(Default)]
struct Generations {
    young: Tokens,
    old: Tokens,
    /// Tokens that were verified.
    #[cfg(test)]
    verified: usize,
}

impl TokenCache {
    /// Lets a token in for the key with this id and these public keys.
    ///
    /// # Errors
    /// The token is not accepted at `now`.
    pub(super) fn admit(
        &self,
        token: &str,
        key: KeyId,
        public_keys: &[Arc<VerifyingKey>],
        now: UnixMillis,
    ) -> Result<VerifiedToken, TokenError> {
        let id = (key, SecretDigest::of(token));
        let mut tokens = self.0.borrow_mut();
        if let Some(verified) = tokens.get(&id) {
            match verified.check(public_keys, now) {
                Ok(()) => return Ok(verified),
                // Public keys have come or gone since.
                Err(TokenError::Invalid) => {}
                Err(error) => return Err(error),
            }
        }
        let verified = VerifiedToken::new(token, public_keys, key)?;
        verified.check(public_keys, now)?;
        #[cfg(test)]
        {
            tokens.verified += 1;
        }
        tokens.put(id, verified.clone());
        Ok(verified)
    }

    /// How many tokens were verified.
    #[cfg(test)]
    fn verified(&self) -> usize {
        self.0.borrow().verified
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let tokens = self.0.borrow();
        tokens.young.len() + tokens.old.len()
    }
}

impl Generations {
    fn get(&mut self, id: &(KeyId, SecretDigest)) -> Option<VerifiedToken> {
        if let Some(token) = self.young.get(id) {
            return Some(token.clone());
        }
        let token = self.old.remove(id)?;
        self.put(*id, token.clone());
        Some(token)
    }

    fn put(&mut self, id: (KeyId, SecretDigest), token: VerifiedToken) {
        if self.young.len() >= VERIFIED_TOKENS_MAX / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(id, token);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::issuer::Issuer;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    const KEYS: [KeyId; 2] = [KeyId::of_bytes([1; 8]), KeyId::of_bytes([2; 8])];

    fn read<const N: usize>(issuers: [&Issuer; N]) -> [Arc<VerifyingKey>; N] {
        issuers.map(|issuer| Arc::new(VerifyingKey::new(&issuer.public_key()).unwrap()))
    }

    #[test]
    fn a_token_is_verified_once_for_each_key() {
        let [issuer, other] = ["one", "two"].map(Issuer::new);
        let keys = read([&issuer]);
        let exp = NOW.0 / 1_000 + 10;
        let [for_both, for_one] = [json!(KEYS), json!(KEYS[0])]
            .map(|aud| issuer.token(&json!({"aud": aud, "exp": exp, "nbf": exp - 10})));
        let tokens = TokenCache::default();
        let at = |millis: i64| UnixMillis(NOW.0.saturating_add_signed(millis));
        for (what, token, key, now, expected, verified) in [
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
                3,
            ),
            (
                "before it",
                &for_one,
                0,
                at(-60_001),
                Err(TokenError::NotYetValid),
                3,
            ),
            ("its last moment", &for_one, 0, at(69_999), Ok(()), 3),
            (
                "its end",
                &for_one,
                0,
                at(70_000),
                Err(TokenError::Expired),
                3,
            ),
        ] {
            let admitted = tokens.admit(token, KEYS[key], &keys, now);
            assert_eq!(admitted.map(|_| ()), expected, "{what}");
            assert_eq!(tokens.verified(), verified, "{what}");
        }
        // Public keys that have changed.
        for (keys, expected) in [
            (&read([&issuer, &other])[..], Ok(())),
            (&read([&other]), Err(TokenError::Invalid)),
            (&[], Err(TokenError::Invalid)),
            (&keys, Ok(())),
        ] {
            let admitted = tokens.admit(&for_one, KEYS[0], keys, NOW);
            assert_eq!(admitted.map(|_| ()), expected);
        }
        assert_eq!(tokens.len(), 3);
    }

    #[test]
    fn tokens_are_bounded_and_those_in_use_stay() {
        let issuer = Issuer::new("one");
        let exp = NOW.0 / 1_000 + 10;
        let token = issuer.token(&json!({"aud": KEYS[0], "exp": exp}));
        let (tokens, keys) = (TokenCache::default(), read([&issuer]));
        let verified = tokens.admit(&token, KEYS[0], &keys, NOW).unwrap();
        for number in 0..VERIFIED_TOKENS_MAX * 3 {
            let id = (KEYS[1], SecretDigest::of(&number.to_string()));
            tokens.0.borrow_mut().put(id, verified.clone());
            assert!(tokens.len() <= VERIFIED_TOKENS_MAX);
            if number % 1_000 == 0 {
                assert!(tokens.admit(&token, KEYS[0], &keys, NOW).is_ok());
            }
        }
        assert_eq!(tokens.verified(), 1, "it was always there");
        for number in 0..VERIFIED_TOKENS_MAX {
            let id = (KEYS[1], SecretDigest::of(&number.to_string()));
            tokens.0.borrow_mut().put(id, verified.clone());
        }
        assert!(tokens.admit(&token, KEYS[0], &keys, NOW).is_ok());
        assert_eq!(tokens.verified(), 2, "it was dropped");
    }
}
