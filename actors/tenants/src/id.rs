//! What identifies tenants and keys: public, and never used twice.

use std::{fmt, str::FromStr};

use ring::digest;
use serde::{Deserialize, Serialize};

use crate::secret::{RandomFailed, random};

/// A text is not an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id has 16 hexadecimal digits")]
pub struct InvalidId;

macro_rules! id {
    ($(#[doc = $doc:literal])+ $name:ident, $domain:literal) => {
        $(#[doc = $doc])+
        ///
        /// Written as 16 hexadecimal digits.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; 8]);

        impl $name {
            /// A new one.
            ///
            /// # Errors
            /// The system gives no random numbers.
            pub fn generate() -> Result<Self, RandomFailed> {
                random().map(Self)
            }

            /// The one that stands for a text, the same after every start: for what the
            /// configuration names, which is stored nowhere.
            #[must_use]
            pub fn of_configured(text: &str) -> Self {
                let mut context = digest::Context::new(&digest::SHA256);
                context.update($domain.as_bytes());
                context.update(text.as_bytes());
                let digest = context.finish();
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&digest.as_ref()[..8]);
                Self(bytes)
            }

            /// The one with these bytes.
            #[must_use]
            pub const fn of_bytes(bytes: [u8; 8]) -> Self {
                Self(bytes)
            }

            /// Its eight bytes.
            #[must_use]
            pub const fn bytes(self) -> [u8; 8] {
                self.0
            }
        }

        impl From<[u8; 8]> for $name {
            fn from(bytes: [u8; 8]) -> Self {
                Self(bytes)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                if text.len() != 16 || !text.bytes().all(is_digit) {
                    return Err(InvalidId);
                }
                let number = u64::from_str_radix(text, 16).map_err(|_| InvalidId)?;
                Ok(Self(number.to_be_bytes()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", u64::from_be_bytes(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id! {
    /// Identifies a tenant.
    TenantId, "tenant:"
}

id! {
    /// Identifies a key in public: it lets nobody in.
    KeyId, "key:"
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_16_digits() {
        for (text, is_id) in [
            ("0123456789abcdef", true),
            ("ffffffffffffffff", true),
            ("0123456789abcde", false),
            ("0123456789abcdef0", false),
            ("0123456789ABCDEF", false),
            ("+123456789abcdef", false),
            ("", false),
        ] {
            let id = text.parse::<KeyId>();
            assert_eq!(id.is_ok(), is_id, "{text:?}");
            if let Ok(id) = id {
                assert_eq!(id.to_string(), text);
                let json = serde_json::to_string(&id).unwrap();
                assert_eq!(serde_json::from_str::<KeyId>(&json).unwrap(), id);
            }
        }
    }

    #[test]
    fn ids_differ_unless_they_stand_for_the_same_text() {
        assert_ne!(KeyId::generate().unwrap(), KeyId::generate().unwrap());
        let [a, b] = ["a", "b"].map(KeyId::of_configured);
        assert_ne!(a, b);
        assert_eq!(a, KeyId::of_configured("a"));
        assert_ne!(a.bytes(), TenantId::of_configured("a").bytes());
    }
}
