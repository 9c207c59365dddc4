//! An issuer of tokens for tests.

#![expect(clippy::unwrap_used, reason = "tests")]

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use nearhead_tenants::public_key::{Algorithm, PublicKey};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::Value;

/// Signs tokens with ES256.
pub(super) struct Issuer {
    kid: &'static str,
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Issuer {
    /// A new one, whose public key has this name.
    pub(super) fn new(kid: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self {
            kid,
            pair: EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap(),
            random,
        }
    }

    /// Its public key.
    pub(super) fn public_key(&self) -> PublicKey {
        // A SubjectPublicKeyInfo of P-256, up to the point.
        const HEAD: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE";
        let mut der = BASE64_STANDARD.decode(HEAD).unwrap();
        // The point has its first byte itself.
        der.truncate(26);
        der.extend_from_slice(self.pair.public_key().as_ref());
        let digits = BASE64_STANDARD.encode(der);
        PublicKey {
            kid: self.kid.parse().unwrap(),
            algorithm: Algorithm::Es256,
            pem: format!("-----BEGIN PUBLIC KEY-----\n{digits}\n-----END PUBLIC KEY-----\n"),
        }
    }

    /// A token that names its public key.
    pub(super) fn token(&self, claims: &Value) -> String {
        let header = format!(r#"{{"alg":"ES256","typ":"JWT","kid":"{}"}}"#, self.kid);
        self.sign(header.as_bytes(), claims.to_string().as_bytes())
    }

    /// A token with this header and these claims, as they are.
    pub(super) fn sign(&self, header: &[u8], claims: &[u8]) -> String {
        self.sign_text(&[header, claims].map(encode).join("."))
    }

    /// This text and its signature.
    pub(super) fn sign_text(&self, text: &str) -> String {
        let signature = self.pair.sign(&self.random, text.as_bytes()).unwrap();
        format!("{text}.{}", encode(signature.as_ref()))
    }
}

/// A part of a token.
pub(super) fn encode(part: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(part)
}
