//! Tokens that one worker has verified: a signature takes as long as some requests.

use std::{cell::RefCell, collections::HashMap, mem, net::IpAddr, sync::Arc};

use nearhead_actors::budget::Attempts;
use nearhead_tenants::{id::KeyId, public_key::VerifyingKey, secret::SecretDigest};

use super::{
    caller::network_of,
    meter::{Now, seconds},
    token::{SignedToken, TokenError, VerifiedToken},
};
use crate::limits::{
    TOKEN_KEYS_MAX, TOKEN_NETWORKS_MAX, TOKEN_REFUSAL_EVERY, TOKEN_REFUSALS_MAX,
    VERIFIED_TOKENS_MAX,
};

/// The tokens that a worker has verified. Nobody else touches it, so a look-up takes no lock.
///
/// A token is dropped if it is not used while [`VERIFIED_TOKENS_MAX`] / 2 others are added.
///
/// # Tokens that are not accepted
/// A signature is verified before any quota is taken, because a stranger must not use up the quota
/// of a key. So that a stranger cannot use up the worker either, tokens that were verified in vain
/// are counted by key and by the client's network, and after some of them that network waits for
/// the key. The clients of other networks do not wait, nor do tokens that were verified before,
/// from wherever they come. A count for each key alone would let a stranger lock out every client
/// that has a new token, and so it does if strangers come from more networks than are counted: then
/// those that have no count of their own share one for each key, so that they lock out nobody who
/// comes with another key.
pub(crate) struct TokenCache(RefCell<Tokens>);

struct Tokens {
    verified: Generations,
    /// What was verified in vain, by the key and the network that it came from.
    refused: Attempts<(KeyId, Option<IpAddr>)>,
    /// The same of networks that have no room there, by the key alone.
    refused_beyond: Attempts<KeyId>,
}

impl Default for TokenCache {
    fn default() -> Self {
        Self(RefCell::new(Tokens {
            verified: Generations::default(),
            refused: Attempts::new(TOKEN_REFUSALS_MAX, TOKEN_REFUSAL_EVERY, TOKEN_NETWORKS_MAX),
            refused_beyond: Attempts::new(TOKEN_REFUSALS_MAX, TOKEN_REFUSAL_EVERY, TOKEN_KEYS_MAX),
        }))
    }
}

/// A token is known by its digest, so that the memory of a worker has no token.
type Generation = HashMap<(KeyId, SecretDigest), VerifiedToken>;

#[derive(Default)]
struct Generations {
    young: Generation,
    old: Generation,
    /// How often a signature was verified.
    #[cfg(test)]
    verifications: usize,
}

impl TokenCache {
    /// Lets a token in for the key with this id and these public keys. Where it comes from is
    /// looked up only if it has to be verified.
    ///
    /// # Errors
    /// The token is not accepted at `now`.
    pub(super) fn admit(
        &self,
        token: &str,
        (key, public_keys): (KeyId, &[Arc<VerifyingKey>]),
        address: impl FnOnce() -> Option<IpAddr>,
        now: Now,
    ) -> Result<VerifiedToken, TokenError> {
        let id = (key, SecretDigest::of(token));
        let mut tokens = self.0.borrow_mut();
        if let Some(verified) = tokens.verified.get(&id) {
            match verified.check(public_keys, now.unix) {
                Ok(()) => return Ok(verified),
                // Public keys have come or gone since.
                Err(TokenError::Invalid) => {}
                Err(error) => return Err(error),
            }
        }
        let token = SignedToken::new(token, public_keys)?;
        let from = (key, address().map(network_of));
        let is_counted = tokens.refused.has_room(&from, now.instant);
        let wait = match is_counted {
            true => tokens.refused.wait(&from, now.instant),
            false => tokens.refused_beyond.wait(&key, now.instant),
        };
        if let Some(wait) = wait {
            return Err(TokenError::TooMany {
                retry_after_seconds: seconds(wait).max(1),
            });
        }
        let verified = tokens.verified.verify(&token, id);
        let checked = verified.and_then(|verified| {
            verified.check(public_keys, now.unix)?;
            Ok(verified)
        });
        checked.inspect_err(|_| match is_counted {
            true => tokens.refused.count(from, now.instant),
            false => tokens.refused_beyond.count(key, now.instant),
        })
    }

    /// How often a signature was verified.
    #[cfg(test)]
    fn verifications(&self) -> usize {
        self.0.borrow().verified.verifications
    }

    /// How many tokens there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let tokens = &self.0.borrow().verified;
        tokens.young.len() + tokens.old.len()
    }
}

impl Generations {
    /// Verifies a token, and keeps it: also one whose time has not come or is over, so that it is
    /// not verified each time it is presented.
    fn verify(
        &mut self,
        token: &SignedToken<'_>,
        id: (KeyId, SecretDigest),
    ) -> Result<VerifiedToken, TokenError> {
        #[cfg(test)]
        {
            self.verifications += 1;
        }
        let verified = token.verify(id.0)?;
        self.put(id, verified.clone());
        Ok(verified)
    }

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
mod tests;
