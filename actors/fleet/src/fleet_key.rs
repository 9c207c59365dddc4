//! The key that all processes of a fleet share, and what they authenticate with it.

use std::fmt;

use alloy_primitives::B256;
use ring::{digest, hmac};

use crate::bounds::KEY_BYTES_MIN;

/// Bytes of a MAC.
pub(crate) const MAC_BYTES: usize = 32;

/// The secret is too short to be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fleet's key has {0} bytes: give it at least {KEY_BYTES_MIN}")]
pub struct KeyTooShort(pub usize);

/// What a MAC is for. One that was made for one purpose is worth nothing for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Entry,
    Record,
    Usage,
    Want,
    Unavailable,
    Filter,
    Below,
    /// No MAC: what stands for a record in the sum of a manifest.
    Element,
    /// No MAC: what hides the sum of a manifest.
    Mask,
}

/// The key of one fleet. It is never in the store, and never printed.
///
/// Each purpose has a key of its own, which is derived from the secret and the fleet's name by
/// HMAC-SHA256.
#[derive(Clone)]
pub struct FleetKey {
    entries: hmac::Key,
    records: hmac::Key,
    usage: hmac::Key,
    wants: hmac::Key,
    unavailable: hmac::Key,
    filters: hmac::Key,
    below: hmac::Key,
    elements: hmac::Key,
    masks: hmac::Key,
}

impl FleetKey {
    /// The key of the fleet of this name with this secret.
    ///
    /// The name says what the fleet serves: chain id, genesis hash and the prefix in the store.
    /// What another fleet with the same secret has written is then refused.
    ///
    /// # Errors
    /// The secret has fewer than [`KEY_BYTES_MIN`] bytes.
    pub fn new(secret: &[u8], name: &[u8]) -> Result<Self, KeyTooShort> {
        if secret.len() < KEY_BYTES_MIN {
            return Err(KeyTooShort(secret.len()));
        }
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let derive = |purpose: &str| {
            let mut context = hmac::Context::with_key(&secret);
            context.update(b"nearhead fleet ");
            context.update(purpose.as_bytes());
            // Purposes have no such byte, so that none is the beginning of another with a name.
            context.update(&[0]);
            context.update(name);
            hmac::Key::new(hmac::HMAC_SHA256, context.sign().as_ref())
        };
        Ok(Self {
            entries: derive("entries"),
            records: derive("records"),
            usage: derive("usage"),
            wants: derive("wants"),
            unavailable: derive("unavailable"),
            filters: derive("filters"),
            below: derive("below"),
            elements: derive("elements"),
            masks: derive("masks"),
        })
    }

    const fn of(&self, purpose: Purpose) -> &hmac::Key {
        match purpose {
            Purpose::Entry => &self.entries,
            Purpose::Record => &self.records,
            Purpose::Usage => &self.usage,
            Purpose::Want => &self.wants,
            Purpose::Unavailable => &self.unavailable,
            Purpose::Filter => &self.filters,
            Purpose::Below => &self.below,
            Purpose::Element => &self.elements,
            Purpose::Mask => &self.masks,
        }
    }

    /// The MAC of what has this digest.
    pub(crate) fn sign(&self, purpose: Purpose, digest: &B256) -> hmac::Tag {
        hmac::sign(self.of(purpose), digest.as_slice())
    }

    /// A secret number that belongs to this digest: only who has the key can compute it.
    pub(crate) fn secret_of(&self, purpose: Purpose, digest: &B256) -> B256 {
        let mut secret = B256::ZERO;
        secret.copy_from_slice(self.sign(purpose, digest).as_ref());
        secret
    }

    /// Whether this is the MAC of what has this digest; takes the same time wherever they differ.
    pub(crate) fn verifies(&self, purpose: Purpose, digest: &B256, mac: &[u8]) -> bool {
        hmac::verify(self.of(purpose), digest.as_slice(), mac).is_ok()
    }
}

impl fmt::Debug for FleetKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FleetKey(hidden)")
    }
}

/// SHA-256 of these bytes. A MAC is of the digest, so that large entries are read once.
pub(crate) fn digest(bytes: &[u8]) -> B256 {
    let mut digest = B256::ZERO;
    digest.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    digest
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    #[test]
    fn a_mac_is_for_one_purpose_of_one_fleet() {
        let key = FleetKey::new(SECRET, b"1").unwrap();
        let same = FleetKey::new(SECRET, b"1").unwrap();
        let other = FleetKey::new(SECRET, b"2").unwrap();
        let content = digest(b"content");
        let mac = key.sign(Purpose::Entry, &content);
        assert!(same.verifies(Purpose::Entry, &content, mac.as_ref()));
        assert!(!key.verifies(Purpose::Record, &content, mac.as_ref()));
        assert!(!other.verifies(Purpose::Entry, &content, mac.as_ref()));
        assert!(!key.verifies(Purpose::Entry, &digest(b""), mac.as_ref()));
        assert!(!key.verifies(Purpose::Entry, &content, &mac.as_ref()[..31]));
    }

    #[test]
    fn a_key_is_long_and_never_printed() {
        assert_eq!(
            FleetKey::new(&SECRET[1..], b"1").unwrap_err(),
            KeyTooShort(31)
        );
        let key = FleetKey::new(SECRET, b"1").unwrap();
        assert_eq!(format!("{key:?}"), "FleetKey(hidden)");
    }
}
