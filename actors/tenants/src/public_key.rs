//! Public keys of those who issue tokens (RFC 7519): checked when a key gets them, and read once
//! before they verify signatures.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::{
    agreement::{self, ECDH_P256, EphemeralPrivateKey},
    rand::SystemRandom,
    signature::{self, ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256},
};
use serde::{Deserialize, Serialize};

use crate::name::Name;

/// Most public keys of one key.
pub const PUBLIC_KEYS_MAX: usize = 8;

/// Longest PEM in bytes. An RSA key of 8,192 bits has some 1,500.
pub const PEM_BYTES_MAX: usize = 4_096;

/// Sizes of RSA keys, in bits: what ring verifies, and no fewer than NIST SP 800-131A allows.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;

/// A public key of a token's issuer (RFC 7519).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublicKey {
    /// What a token's `kid` names it by.
    pub kid: Name,
    /// How its issuer signs. A token that names another algorithm is refused.
    pub algorithm: Algorithm,
    /// The key, a SubjectPublicKeyInfo in PEM.
    pub pem: String,
}

/// How tokens are signed (RFC 7518).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// ECDSA with P-256 and SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
}

impl Algorithm {
    /// Its name in a token's header.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }
}

/// Why a public key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPublicKey {
    /// It is not PEM, or has something else in it.
    #[error(
        "expected one public key in PEM, from -----BEGIN PUBLIC KEY----- to -----END PUBLIC KEY-----, \
         of at most {PEM_BYTES_MAX} bytes"
    )]
    Pem,
    /// It is the key that signs.
    #[error(
        "this is a private key: keep it, and give its public key (openssl pkey -in FILE -pubout)"
    )]
    Private,
    /// It is a certificate.
    #[error("this is a certificate: give its public key (openssl x509 -in FILE -noout -pubkey)")]
    Certificate,
    /// It is no key of elliptic curve P-256, or none whose point is whole.
    #[error("ES256 needs a public key on the curve P-256, with an uncompressed point")]
    NotP256,
    /// It is no RSA key.
    #[error("RS256 needs an RSA public key (rsaEncryption)")]
    NotRsa,
    /// The RSA key is too short or too long.
    #[error("an RSA key has 2048 to 8192 bits, and this one has {0}")]
    RsaBits(usize),
    /// The RSA key's numbers are none that a key has.
    #[error("the modulus and the exponent of an RSA key are odd, and the exponent is 3 to 2^33")]
    RsaNumbers,
}

/// A public key that was read, and verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    /// What a token's `kid` names it by.
    pub kid: Name,
    /// How its issuer signs.
    pub algorithm: Algorithm,
    /// What ring takes: a point of P-256, or an RSAPublicKey in DER.
    bytes: Box<[u8]>,
}

impl VerifyingKey {
    /// Reads a public key.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn new(public_key: &PublicKey) -> Result<Self, InvalidPublicKey> {
        let der = read_pem(&public_key.pem)?;
        let bytes = match public_key.algorithm {
            Algorithm::Es256 => p256_point(&der)?,
            Algorithm::Rs256 => rsa_public_key(&der)?,
        };
        Ok(Self {
            kid: public_key.kid.clone(),
            algorithm: public_key.algorithm,
            bytes: bytes.into(),
        })
    }

    /// Whether its issuer has made this signature of these bytes.
    #[must_use]
    pub fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn signature::VerificationAlgorithm = match self.algorithm {
            Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
            Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        };
        signature::UnparsedPublicKey::new(algorithm, &self.bytes)
            .verify(signed, signature)
            .is_ok()
    }
}

/// The bytes between the lines of a PEM (RFC 7468). What stands around it is not skipped: a file
/// with several keys would be cut to the first.
fn read_pem(pem: &str) -> Result<Vec<u8>, InvalidPublicKey> {
    if pem.len() > PEM_BYTES_MAX {
        return Err(InvalidPublicKey::Pem);
    }
    if pem.contains("PRIVATE KEY-----") {
        return Err(InvalidPublicKey::Private);
    }
    if pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(InvalidPublicKey::Certificate);
    }
    let text = pem.trim().strip_prefix("-----BEGIN PUBLIC KEY-----");
    let text = text.and_then(|text| text.strip_suffix("-----END PUBLIC KEY-----"));
    let text = text.ok_or(InvalidPublicKey::Pem)?;
    let digits: String = text.split_ascii_whitespace().collect();
    BASE64_STANDARD
        .decode(digits)
        .map_err(|_| InvalidPublicKey::Pem)
}

/// A SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) of a key on P-256 (RFC 5480), up to the coordinates:
/// with an uncompressed point it begins with these bytes and no others.
const P256: [u8; 27] = [
    0x30, 0x59, // SEQUENCE of 89 bytes
    0x30, 0x13, // SEQUENCE of 19 bytes
    0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, // id-ecPublicKey
    0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, // secp256r1
    0x03, 0x42, 0x00, // BIT STRING of 66 bytes, without unused bits
    0x04, // an uncompressed point
];

/// Two coordinates of 32 bytes.
const P256_COORDINATES: usize = 64;

/// The point of a key on P-256.
fn p256_point(der: &[u8]) -> Result<&[u8], InvalidPublicKey> {
    let coordinates = der.strip_prefix(&P256).ok_or(InvalidPublicKey::NotP256)?;
    if coordinates.len() != P256_COORDINATES {
        return Err(InvalidPublicKey::NotP256);
    }
    // The byte that says that the point is uncompressed is a part of it.
    let point = &der[P256.len() - 1..];
    // Whether the point is on the curve shows when a secret is agreed on with it.
    let peer = agreement::UnparsedPublicKey::new(&ECDH_P256, point);
    EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new())
        .and_then(|own| agreement::agree_ephemeral(own, &peer, |_| ()))
        .map_err(|_| InvalidPublicKey::NotP256)?;
    Ok(point)
}

/// The algorithm of an RSA key's SubjectPublicKeyInfo: rsaEncryption, and NULL (RFC 3279 §2.3.1).
const RSA_ENCRYPTION: [u8; 13] = [
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;

/// The RSAPublicKey (RFC 8017 §A.1.1) of an RSA key.
fn rsa_public_key(der: &[u8]) -> Result<&[u8], InvalidPublicKey> {
    let (key, modulus, exponent) = split_rsa(der).ok_or(InvalidPublicKey::NotRsa)?;
    let bits = bits(modulus);
    if !RSA_BITS.contains(&bits) {
        return Err(InvalidPublicKey::RsaBits(bits));
    }
    let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
    let is_exponent = (2..=33).contains(&self::bits(exponent));
    match is_odd(modulus) && is_odd(exponent) && is_exponent {
        true => Ok(key),
        false => Err(InvalidPublicKey::RsaNumbers),
    }
}

/// The RSAPublicKey, its modulus and its exponent; `None` if this is no RSA key.
fn split_rsa(der: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let info = whole(der, SEQUENCE)?;
    let (algorithm, rest) = value(info, SEQUENCE)?;
    if algorithm != RSA_ENCRYPTION {
        return None;
    }
    let key = whole(rest, BIT_STRING)?.strip_prefix(&[0])?;
    let numbers = whole(key, SEQUENCE)?;
    let (modulus, rest) = value(numbers, INTEGER)?;
    let exponent = whole(rest, INTEGER)?;
    Some((key, positive(modulus)?, positive(exponent)?))
}

/// The content of a value in DER (X.690) with this tag, and what follows it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = der.split_first_chunk()?;
    let (length, shortest, rest) = match first {
        0..=0x7f => (usize::from(first), 0, rest),
        0x81 => {
            let (&[length], rest) = rest.split_first_chunk()?;
            (usize::from(length), 0x80, rest)
        }
        0x82 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), 0x100, rest)
        }
        // No key is as long as that.
        _ => return None,
    };
    // DER writes a length in as few bytes as possible.
    let is_value = found == tag && length >= shortest;
    rest.split_at_checked(length).filter(|_| is_value)
}

/// The content of a value with this tag that nothing follows.
fn whole(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (content, rest) = value(der, tag)?;
    rest.is_empty().then_some(content)
}

/// The bytes of a positive number, without the zero that only says that it is positive.
fn positive(integer: &[u8]) -> Option<&[u8]> {
    match integer {
        [0, rest @ ..] if rest.first().is_some_and(|byte| *byte >= 0x80) => Some(rest),
        [1..=0x7f, ..] => Some(integer),
        _ => None,
    }
}

/// Bits of a number without leading zero bytes.
fn bits(number: &[u8]) -> usize {
    let unused = number.first().map_or(0, |byte| byte.leading_zeros());
    number.len() * 8 - unused as usize
}

#[cfg(test)]
mod tests;
