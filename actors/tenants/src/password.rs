//! Passwords of people. Only a slow hash of each is kept.

use std::fmt;

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc},
};
use serde::{Deserialize, Serialize};

use crate::secret::{RandomFailed, random};

/// Shortest password in characters: NIST SP 800-63B asks for 8 at least, and for 15 where nothing
/// else is asked for. Logins are throttled.
pub const PASSWORD_CHARS_MIN: usize = 12;

/// Longest password in bytes. A sentence fits.
pub const PASSWORD_BYTES_MAX: usize = 256;

/// Memory in KiB, passes and lanes of a new hash: OWASP's first choice for argon2id. One takes some
/// 20 ms.
const COST: (u32, u32, u32) = (19 * 1_024, 2, 1);

/// Most memory in KiB and most passes of a stored hash. A larger one was not made here, and to
/// verify it could take all memory.
const COST_MAX: (u32, u32) = (256 * 1_024, 16);

/// Of no password that anybody has: it is verified where there is no account, so that this takes as
/// long as where there is one.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdC4uLg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// What is kept of a password: an argon2id hash, written as a PHC string.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PasswordHash(Box<str>);

/// Why a password cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// It is too short or too long.
    #[error(
        "a password has at least {PASSWORD_CHARS_MIN} characters and at most {PASSWORD_BYTES_MAX} \
         bytes"
    )]
    Length,
    /// The system gives no random numbers.
    #[error(transparent)]
    Random(#[from] RandomFailed),
    /// There is not enough memory for the hash.
    #[error("the password cannot be hashed: there is too little memory")]
    Hash,
}

/// A text is not the hash of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hash of a password is a PHC string of argon2id")]
pub struct InvalidHash;

impl PasswordHash {
    /// Hashes a new password.
    ///
    /// # Errors
    /// The password is too short or too long, or the system gives no random numbers.
    pub fn new(password: &str) -> Result<Self, PasswordError> {
        let is_long_enough = password.chars().count() >= PASSWORD_CHARS_MIN;
        if !is_long_enough || password.len() > PASSWORD_BYTES_MAX {
            return Err(PasswordError::Length);
        }
        let (memory, passes, lanes) = COST;
        let params = Params::new(memory, passes, lanes, None).map_err(|_| PasswordError::Hash)?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let hash: phc::PasswordHash = argon2
            .hash_password_with_salt(password.as_bytes(), &random::<16>()?)
            .map_err(|_| PasswordError::Hash)?;
        Ok(Self(hash.to_string().into()))
    }

    /// Whether this is the password that was hashed. `None` stands for an account that does not
    /// exist: the answer is no, and takes as long.
    #[must_use]
    pub fn verify(hash: Option<&Self>, password: &str) -> bool {
        // No longer one has a hash, so this says nothing about accounts.
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        let text = hash.map_or(NOBODY, |hash| &hash.0);
        let Ok(parsed) = phc::PasswordHash::new(text) else {
            return false;
        };
        let verified = Argon2::default().verify_password(password.as_bytes(), &parsed);
        verified.is_ok() && hash.is_some()
    }
}

impl TryFrom<String> for PasswordHash {
    type Error = InvalidHash;

    fn try_from(text: String) -> Result<Self, InvalidHash> {
        let parsed = phc::PasswordHash::new(&text).map_err(|_| InvalidHash)?;
        let params = Params::try_from(&parsed).map_err(|_| InvalidHash)?;
        let is_cheap = params.m_cost() <= COST_MAX.0 && params.t_cost() <= COST_MAX.1;
        let is_complete = parsed.salt.is_some() && parsed.hash.is_some();
        match parsed.algorithm.as_str() == "argon2id" && is_cheap && is_complete {
            true => Ok(Self(text.into())),
            false => Err(InvalidHash),
        }
    }
}

impl From<PasswordHash> for String {
    fn from(hash: PasswordHash) -> Self {
        hash.0.into()
    }
}

impl fmt::Debug for PasswordHash {
    /// It belongs in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const PASSWORD: &str = "correct horse battery";

    #[test]
    fn a_password_is_verified() {
        let [one, other] = [(); 2].map(|()| PasswordHash::new(PASSWORD).unwrap());
        assert_ne!(one, other, "each has its salt");
        assert!(PasswordHash::verify(Some(&one), PASSWORD));
        assert!(!PasswordHash::verify(Some(&one), "correct horse batterY"));
        assert!(!PasswordHash::verify(None, PASSWORD));
        let text = String::from(one.clone());
        assert!(
            text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{text}"
        );
        assert_eq!(PasswordHash::try_from(text), Ok(one));
        assert_eq!(format!("{other:?}"), "PasswordHash(..)");
    }

    #[test]
    fn a_missing_account_costs_what_an_account_costs() {
        let nobody = phc::PasswordHash::new(NOBODY).unwrap();
        let made = phc::PasswordHash::new(&PasswordHash::new(PASSWORD).unwrap().0).unwrap();
        assert_eq!(nobody.params, made.params);
        assert_eq!(nobody.version, made.version);
        assert_eq!(nobody.algorithm, made.algorithm);
        let lengths = |hash: &phc::PasswordHash| {
            (
                hash.hash.as_ref().unwrap().len(),
                hash.salt.as_ref().unwrap().len(),
            )
        };
        assert_eq!(lengths(&nobody), lengths(&made));
        assert!(PasswordHash::try_from(NOBODY.to_owned()).is_ok());
    }

    #[test]
    fn passwords_have_a_length() {
        let longest = "x".repeat(PASSWORD_BYTES_MAX);
        assert!(PasswordHash::new(&longest).is_ok());
        for password in ["", "elevenchars", &(longest + "x")] {
            assert_eq!(
                PasswordHash::new(password),
                Err(PasswordError::Length),
                "{password}"
            );
        }
    }

    #[test]
    fn other_hashes_are_refused() {
        for text in [
            "",
            "password",
            "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdC4uLg",
            "$argon2i$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdC4uLg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=4000000,t=2,p=1$bm9ib2R5J3Mgc2FsdC4uLg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "$scrypt$ln=17,r=8,p=1$bm9ib2R5J3Mgc2FsdC4uLg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert_eq!(
                PasswordHash::try_from(text.to_owned()),
                Err(InvalidHash),
                "{text}"
            );
        }
    }
}
