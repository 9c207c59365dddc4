//! Secrets that clients present. Only digests of them are kept.
//!
//! A secret of 32 random bytes cannot be guessed, so its digest needs neither salt nor a slow hash.

use std::fmt;

use alloy_primitives::hex;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    digest,
    rand::{SecureRandom as _, SystemRandom},
};
use serde::{Deserialize, Serialize};

/// Characters of a key by which people recognise it.
const PREFIX_CHARS: usize = 6;

/// The system gives no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct RandomFailed;

/// Random bytes of the system.
///
/// # Errors
/// The system gives none.
pub fn random<const N: usize>() -> Result<[u8; N], RandomFailed> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| RandomFailed)?;
    Ok(bytes)
}

/// A new secret: 32 random bytes in base64url. It is shown once, and kept nowhere; it has no
/// `Debug`.
pub struct Secret(String);

impl Secret {
    /// A new secret.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<Self, RandomFailed> {
        loop {
            let text = BASE64_URL_SAFE_NO_PAD.encode(random::<32>()?);
            // A command would take one with a dash, or its prefix, for an option.
            if !text.starts_with('-') {
                return Ok(Self(text));
            }
        }
    }

    /// What the client presents: 43 characters.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    #[must_use]
    pub fn digest(&self) -> SecretDigest {
        SecretDigest::of(&self.0)
    }

    /// By what people recognise it.
    #[must_use]
    pub fn prefix(&self) -> KeyPrefix {
        KeyPrefix::of(&self.0)
    }
}

/// SHA-256 of a secret.
///
/// Digests are compared byte by byte: how long that takes tells a client something about a digest,
/// and nothing about a secret, because a client cannot choose the digest of what it presents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// The digest of what a client presents.
    #[must_use]
    pub fn of(presented: &str) -> Self {
        let digest = digest::digest(&digest::SHA256, presented.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for SecretDigest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<SecretDigest> for String {
    fn from(digest: SecretDigest) -> Self {
        hex::encode(digest.0)
    }
}

impl TryFrom<String> for SecretDigest {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, hex::FromHexError> {
        hex::decode_to_array(text).map(Self)
    }
}

impl fmt::Debug for SecretDigest {
    /// A digest lets nobody in, but it belongs in no log either.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest(..)")
    }
}

/// The first characters of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyPrefix(Box<str>);

impl KeyPrefix {
    /// Those of this key; fewer for a key that is too short to show six.
    ///
    /// An operator may configure a short key, so at most a quarter of its characters are shown.
    #[must_use]
    pub fn of(key: &str) -> Self {
        let shown = PREFIX_CHARS.min(key.chars().count() / 4);
        Self(key.chars().take(shown).collect())
    }

    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_32_random_bytes() {
        let [one, other] = [Secret::generate().unwrap(), Secret::generate().unwrap()];
        assert_ne!(one.expose(), other.expose());
        assert_eq!(one.expose().len(), 43);
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        assert!(one.expose().bytes().all(is_safe));
        assert_eq!(one.digest(), SecretDigest::of(one.expose()));
        assert_ne!(one.digest(), other.digest());
        assert_eq!(one.prefix().as_str(), &one.expose()[..6]);
    }

    #[test]
    fn no_secret_looks_like_an_option() {
        let begins = |_| Secret::generate().unwrap().expose().starts_with('-');
        assert!(!(0..2_000).any(begins));
    }

    /// The digest is SHA-256, so that stored keys outlive this program (FIPS 180-4, "abc").
    #[test]
    fn the_digest_is_sha_256() {
        let digest = SecretDigest::of("abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(String::from(digest), text);
        assert_eq!(SecretDigest::try_from(text.to_owned()), Ok(digest));
        assert!(SecretDigest::try_from(text[1..].to_owned()).is_err());
        assert_eq!(format!("{digest:?}"), "SecretDigest(..)");
    }

    #[test]
    fn at_most_a_quarter_of_a_short_key_is_shown() {
        for (key, expected) in [
            ("", ""),
            ("dev", ""),
            ("1234", "1"),
            ("12345678", "12"),
            ("123456789012345678901234", "123456"),
            ("1234567890123456789012345678", "123456"),
        ] {
            assert_eq!(KeyPrefix::of(key).as_str(), expected, "{key:?}");
        }
    }
}
