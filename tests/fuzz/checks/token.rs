//! Tokens that clients present (RFC 7519).

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use alloy_primitives::{Uint, hex};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use nearhead::{
    access::{SignedToken, TokenError},
    limits::{TOKEN_BYTES_MAX, TOKEN_LEEWAY},
};
use nearhead_tenants::{
    UnixMillis,
    id::KeyId,
    public_key::{Algorithm, PublicKey, VerifyingKey},
};
use p256::ecdsa::{
    Signature, SigningKey,
    signature::{Signer as _, Verifier as _},
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The key with which the tokens come: `6e65617268656164`.
const KEY: KeyId = KeyId::of_bytes(*b"nearhead");

/// Now, in seconds.
const NOW: u32 = 1_800_000_000;

/// The issuer `ec` of ES256. A seed cannot have a signature of whatever the fuzzer makes of it, so
/// the check signs.
static ISSUER: LazyLock<SigningKey> =
    LazyLock::new(|| SigningKey::from_bytes(&[7; 32].into()).unwrap());

/// The modulus of the issuer `rsa` of RS256, whose exponent is 65,537. Its tokens are seeds.
const MODULUS: [u8; 256] = hex!(
    "abcd6f71c39dccc71ec9476f4b7ac560383471fdaecab278d97d57682fc642b79883069ea2853f6bc657f71878c3b429"
    "004bafa570958960a7aa538529721c66acd301d516f6bf19f8700aba6a7d51f7cad8f3b8d4e72826f487a7b5a321c8e1"
    "5e4d666db7af0f6ca0d01fed0088f8a134cff5f7faae670aefde257985694af24d8aafb05e17d8fd037581a5a650d0ab"
    "d0f4ef72ec58b54af7b91217e9bd74ed6c8d08905b3f52ff5d8d558a8c5052a443a3bb45057bf3a0a27f10a4d129681a"
    "5cfd56da78cd24b5bf8993a05b90432e4444af53f0540027ac332535d8cbae53dd6e0e998570b3466d2eca3d2ff0f299"
    "83c77a786d0d121253ba3d2318f7efd1"
);

/// The public keys of both issuers.
static PUBLIC_KEYS: LazyLock<[Arc<VerifyingKey>; 2]> = LazyLock::new(|| {
    let point = ISSUER.verifying_key().to_encoded_point(false);
    let head = hex!("3059301306072a8648ce3d020106082a8648ce3d030107034200");
    let ec = [&head[..], point.as_bytes()].concat();
    let head = hex!("30820122300d06092a864886f70d01010105000382010f003082010a0282010100");
    let rsa = [&head[..], &MODULUS, &hex!("0203010001")].concat();
    let read = |kid: &str, algorithm, der: &[u8]| {
        let digits = BASE64_STANDARD.encode(der);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{digits}\n-----END PUBLIC KEY-----\n");
        let kid = kid.parse().unwrap();
        let key = PublicKey {
            kid,
            algorithm,
            pem,
        };
        Arc::new(VerifyingKey::new(&key).unwrap())
    };
    [
        read("ec", Algorithm::Es256, &ec),
        read("rsa", Algorithm::Rs256, &rsa),
    ]
});

/// A token lets a request in, or not, for the reason that an independent reading of it has: with
/// signatures verified by other code, and every member looked at. With any character changed, it
/// does not.
///
/// The input is a token, or a header and claims with a line break between them, which are signed.
pub fn token(input: &[u8]) {
    let token = match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => signed(&input[..end], &input[end + 1..]),
        None => match std::str::from_utf8(input) {
            Ok(token) => token.to_owned(),
            Err(_) => return,
        },
    };
    let signer = signer(&token);
    for public_keys in [&PUBLIC_KEYS[..1], &PUBLIC_KEYS[..]] {
        let found = admit(&token, public_keys);
        let signer = signer.filter(|signer| public_keys.contains(signer));
        let judged = judge(&token, signer, public_keys.len());
        if let Some(expected) = judged.outcome {
            assert_eq!(found, expected, "{token}");
        }
        let needs_signature = !matches!(found, Err(TokenError::Invalid));
        assert!(!needs_signature || judged.is_signed, "{token}");
        if found.is_ok() {
            let changed = changed(&token);
            assert!(admit(&changed, public_keys).is_err(), "{changed}");
        }
    }
}

fn signed(header: &[u8], claims: &[u8]) -> String {
    let [header, claims] = [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
    let text = format!("{header}.{claims}");
    let signature: Signature = ISSUER.sign(text.as_bytes());
    let signature = BASE64_URL_SAFE_NO_PAD.encode(signature.to_bytes());
    format!("{text}.{signature}")
}

fn admit(token: &str, public_keys: &[Arc<VerifyingKey>]) -> Result<(), TokenError> {
    let now = UnixMillis(u64::from(NOW) * 1_000);
    SignedToken::new(token, public_keys)?
        .verify(KEY)?
        .check(public_keys, now)
}

/// The token with one other character, which the token itself chooses.
fn changed(token: &str) -> String {
    let sum: usize = token.bytes().map(usize::from).sum();
    let at = sum % token.len();
    let other = if token.as_bytes()[at] == b'A' {
        "B"
    } else {
        "A"
    };
    format!("{}{other}{}", &token[..at], &token[at + 1..])
}

/// An independent reading of a token.
struct Judged {
    is_signed: bool,
    /// `None` if serde_json refuses a value that nobody reads, or a time is within 10 ms of now.
    outcome: Option<Result<(), TokenError>>,
}

/// Which of all public keys verifies the token.
fn signer(token: &str) -> Option<&'static Arc<VerifyingKey>> {
    let (text, signature) = token.rsplit_once('.')?;
    let signature = decode(signature)?;
    let mut all = PUBLIC_KEYS.iter();
    all.find(|key| is_signed(key, text.as_bytes(), &signature))
}

fn judge(token: &str, signer: Option<&Arc<VerifyingKey>>, keys: usize) -> Judged {
    let is = |is_signed, outcome| Judged { is_signed, outcome };
    let invalid = |is_signed| is(is_signed, Some(Err(TokenError::Invalid)));
    let parts: Vec<&str> = token.split('.').collect();
    let ([header, claims, _], Some(signer)) = (parts.as_slice(), signer) else {
        return invalid(false);
    };
    let Some(json) = decode(header) else {
        return invalid(true);
    };
    if token.len() > TOKEN_BYTES_MAX {
        return invalid(true);
    }
    let Ok(header) = serde_json::from_slice::<Members>(&json) else {
        return is(true, None);
    };
    let names_signer = match header.one("kid") {
        Some(kid) => {
            kid == Some(&Value::from(signer.kid.as_str())) || { kid.is_none() && keys == 1 }
        }
        None => false,
    };
    let alg = Value::from(signer.algorithm.name());
    if header.one("alg") != Some(Some(&alg)) || header.one("crit") != Some(None) || !names_signer {
        return invalid(true);
    }
    is(true, judge_claims(claims))
}

fn judge_claims(claims: &str) -> Option<Result<(), TokenError>> {
    let unreadable = Some(Err(TokenError::Claims));
    let Some(json) = decode(claims) else {
        return unreadable;
    };
    let claims: Members = serde_json::from_slice(&json).ok()?;
    let (Some(Some(aud)), Some(Some(exp)), Some(nbf)) =
        (claims.one("aud"), claims.one("exp"), claims.one("nbf"))
    else {
        return unreadable;
    };
    let audience = match aud {
        Value::String(_) => std::slice::from_ref(aud),
        Value::Array(several) => several,
        _ => return unreadable,
    };
    let is_readable = audience.iter().all(Value::is_string)
        && exp.is_number()
        && nbf.is_none_or(Value::is_number);
    if !is_readable {
        return unreadable;
    }
    if !audience.contains(&Value::from("6e65617268656164")) {
        return Some(Err(TokenError::OtherAudience));
    }
    let [now, leeway] = [f64::from(NOW), TOKEN_LEEWAY.as_secs_f64()];
    let begins = nbf.map_or(0.0, |nbf| nbf.as_f64().unwrap() - leeway);
    let ends = exp.as_f64().unwrap() + leeway;
    if (begins - now).abs() < 0.01 || (ends - now).abs() < 0.01 {
        None
    } else if now < begins {
        Some(Err(TokenError::NotYetValid))
    } else if now >= ends {
        Some(Err(TokenError::Expired))
    } else {
        Some(Ok(()))
    }
}

/// Decodes base64url (RFC 4648 §5): without padding, and without bits that are left over.
fn decode(part: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut count, mut bytes) = (0_usize, 0, Vec::new());
    for digit in part.bytes() {
        bits = bits << 6 | ALPHABET.iter().position(|known| *known == digit)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (count < 6 && bits == 0).then_some(bytes)
}

fn is_signed(key: &VerifyingKey, text: &[u8], signature: &[u8]) -> bool {
    match key.algorithm {
        Algorithm::Es256 => Signature::from_slice(signature)
            .is_ok_and(|signature| ISSUER.verifying_key().verify(text, &signature).is_ok()),
        Algorithm::Rs256 => is_signed_by_rsa(text, signature),
    }
}

/// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 §8.2.2).
fn is_signed_by_rsa(text: &[u8], signature: &[u8]) -> bool {
    type Number = Uint<2048, 32>;
    let Ok(signature) = <[u8; 256]>::try_from(signature) else {
        return false;
    };
    let [signature, modulus] = [signature, MODULUS].map(Number::from_be_bytes::<256>);
    let info = hex!("3031300d060960864801650304020105000420");
    let digest = Sha256::digest(text);
    let padding = [0xff; 202];
    let encoded = [&[0, 1][..], &padding, &[0], &info, &digest].concat();
    let found = signature.pow_mod(Number::from(65_537), modulus);
    signature < modulus && found.to_be_bytes::<256>() == *encoded
}

/// The members of an object, also those that occur twice.
struct Members(Vec<(String, Value)>);

impl Members {
    /// The value of a member, if there is one; `None` if there are several.
    fn one(&self, name: &str) -> Option<Option<&Value>> {
        let mut found = self.0.iter().filter(|(member, _)| member == name);
        let first = found.next();
        found
            .next()
            .is_none()
            .then(|| first.map(|(_, value)| value))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}
