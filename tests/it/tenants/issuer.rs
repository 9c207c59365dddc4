//! An issuer of tokens.

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
pub(crate) struct Issuer {
    kid: &'static str,
    pair: EcdsaKeyPair,
}

impl Issuer {
    /// A new one, whose public key has this name.
    pub(crate) fn new(kid: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
        Self { kid, pair }
    }

    /// Its public key.
    pub(crate) fn public_key(&self) -> PublicKey {
        // A SubjectPublicKeyInfo of P-256 up to the point, without the first byte of that.
        let head = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE";
        let mut der = BASE64_STANDARD.decode(head).unwrap();
        der.pop();
        der.extend_from_slice(self.pair.public_key().as_ref());
        let digits = BASE64_STANDARD.encode(der);
        PublicKey {
            kid: self.kid.parse().unwrap(),
            algorithm: Algorithm::Es256,
            pem: format!("-----BEGIN PUBLIC KEY-----\n{digits}\n-----END PUBLIC KEY-----\n"),
        }
    }

    /// A token with these claims.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let header = format!(r#"{{"alg":"ES256","kid":"{}"}}"#, self.kid);
        let encode = |part: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(part);
        let signed = [header, claims.to_string()].map(|part| encode(part.as_bytes()));
        let signed = signed.join(".");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        format!("{signed}.{}", encode(signature.unwrap().as_ref()))
    }
}
