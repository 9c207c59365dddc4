//! JSON Web Tokens (RFC 7519), signed as RFC 7515 has it.
//!
//! What a token says is believed only after its signature was verified: until then every mistake
//! is the same one to its client, and a token names neither its key nor its algorithm, it only
//! chooses among those that the API key has.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use nearhead_tenants::{UnixMillis, id::KeyId, public_key::VerifyingKey};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use crate::limits::{TOKEN_BYTES_MAX, TOKEN_LEEWAY};

/// Why a token does not let a request in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The key asks for one, and there is none.
    Missing,
    /// It cannot be read, or none of the key's public keys has signed it.
    Invalid,
    /// It is signed, but its claims cannot be read, or one that is required is missing.
    Claims,
    /// It is signed, for something else than this key.
    OtherAudience,
    /// It is signed, and its time has not come.
    NotYetValid,
    /// It is signed, and its time is over.
    Expired,
    /// It was not looked at: too many tokens from the client's network were not accepted.
    TooMany {
        /// Whole seconds after which one is looked at again; at least 1.
        retry_after_seconds: u32,
    },
}

/// A token that was read, and names one of a key's public keys. Nothing that it says is believed.
#[derive(Debug)]
pub struct SignedToken<'a> {
    /// What is signed: the header and the claims, still encoded.
    signed: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
    public_key: &'a Arc<VerifyingKey>,
    names_public_key: bool,
}

impl<'a> SignedToken<'a> {
    /// Reads a token, which costs little beside [`verify`](Self::verify).
    ///
    /// # Errors
    /// It cannot have been signed by one of these keys.
    pub fn new(token: &'a str, public_keys: &'a [Arc<VerifyingKey>]) -> Result<Self, TokenError> {
        let (header, claims, signature) = split(token).ok_or(TokenError::Invalid)?;
        // Everything before the last dot, and the dots are there.
        let signed = &token[..token.len() - signature.len() - 1];
        let header = decode(header).ok_or(TokenError::Invalid)?;
        let header: Header<'_> = object(&header).ok_or(TokenError::Invalid)?;
        Ok(Self {
            signed,
            claims,
            signature: decode(signature).ok_or(TokenError::Invalid)?,
            public_key: header.choose(public_keys).ok_or(TokenError::Invalid)?,
            names_public_key: header.kid.is_some(),
        })
    }

    /// Verifies that it is signed, for the key with this id, but not its times:
    /// [`VerifiedToken::check`] does.
    ///
    /// # Errors
    /// It is not signed, or it is for something else.
    pub fn verify(&self, audience: KeyId) -> Result<VerifiedToken, TokenError> {
        if !self
            .public_key
            .verifies(self.signed.as_bytes(), &self.signature)
        {
            return Err(TokenError::Invalid);
        }
        let claims = decode(self.claims).ok_or(TokenError::Claims)?;
        let claims: Claims = object(&claims).ok_or(TokenError::Claims)?;
        if !claims.aud.has(audience) {
            return Err(TokenError::OtherAudience);
        }
        let leeway = TOKEN_LEEWAY.as_secs_f64();
        Ok(VerifiedToken {
            public_key: Arc::clone(self.public_key),
            names_public_key: self.names_public_key,
            begins: claims.nbf.map_or(UnixMillis(0), |nbf| millis(nbf - leeway)),
            ends: millis(claims.exp + leeway),
        })
    }
}

/// A token that one of a key's public keys has signed.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    public_key: Arc<VerifyingKey>,
    /// Whether it names the public key. One that does not is accepted while there is one alone.
    names_public_key: bool,
    begins: UnixMillis,
    /// From when on it lets nobody in.
    pub(super) ends: UnixMillis,
}

impl VerifiedToken {
    /// Checks what may have changed since: the time, and the key's public keys.
    ///
    /// # Errors
    /// It does not let a request in at `now`.
    pub fn check(
        &self,
        public_keys: &[Arc<VerifyingKey>],
        now: UnixMillis,
    ) -> Result<(), TokenError> {
        let is_there = public_keys.contains(&self.public_key);
        if !is_there || !(self.names_public_key || public_keys.len() == 1) {
            return Err(TokenError::Invalid);
        }
        if now < self.begins {
            return Err(TokenError::NotYetValid);
        }
        if now >= self.ends {
            return Err(TokenError::Expired);
        }
        Ok(())
    }
}

/// The three parts of a token, still encoded.
fn split(token: &str) -> Option<(&str, &str, &str)> {
    let mut parts = token.split('.');
    let parts = (parts.next()?, parts.next()?, parts.next()?, parts.next());
    match parts {
        (header, claims, signature, None) if token.len() <= TOKEN_BYTES_MAX => {
            Some((header, claims, signature))
        }
        _ => None,
    }
}

/// Decodes base64url without padding; each bytes have one text.
fn decode(part: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(part).ok()
}

/// A JSON object. serde reads a struct from an array as well.
fn object<'de, T: Deserialize<'de>>(json: &'de [u8]) -> Option<T> {
    let is_object = json.trim_ascii_start().first() == Some(&b'{');
    serde_json::from_slice(json).ok().filter(|_| is_object)
}

/// What is read of a token's header (RFC 7515 §4). Keys and addresses of keys in it are ignored. A
/// member that is read and occurs twice is refused.
#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(default, borrow, deserialize_with = "not_null")]
    kid: Option<Cow<'a, str>>,
    /// Extensions that have to be understood. None is.
    #[serde(default, deserialize_with = "not_null")]
    crit: Option<IgnoredAny>,
}

impl Header<'_> {
    /// The public key that the token is to be verified with: the one that it names, or the only
    /// one.
    fn choose<'k>(&self, public_keys: &'k [Arc<VerifyingKey>]) -> Option<&'k Arc<VerifyingKey>> {
        let chosen = match (&self.kid, public_keys) {
            (Some(kid), keys) => keys.iter().find(|key| key.kid.as_str() == *kid)?,
            (None, [only]) => only,
            (None, _) => return None,
        };
        let is_accepted = self.crit.is_none() && self.alg == chosen.algorithm.name();
        is_accepted.then_some(chosen)
    }
}

/// What is read of a token's claims (RFC 7519 §4.1). Times are seconds since 1970, and may have
/// fractions.
#[derive(Deserialize)]
struct Claims {
    aud: Audience,
    exp: f64,
    #[serde(default, deserialize_with = "not_null")]
    nbf: Option<f64>,
}

/// For whom a token is.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    fn has(&self, id: KeyId) -> bool {
        let id = id.to_string();
        match self {
            Self::One(one) => *one == id,
            Self::Several(several) => several.contains(&id),
        }
    }
}

/// Reads a member that may be absent, and may not be null.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A time in milliseconds: the first or the last there is for one that is out of their range.
fn millis(seconds: f64) -> UnixMillis {
    // The conversion saturates.
    UnixMillis((seconds * 1_000.0) as u64)
}

#[cfg(test)]
mod tests;
