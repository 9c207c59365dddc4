#![expect(clippy::unwrap_used, reason = "tests")]

mod claims;
mod rs256;

use std::time::Instant;

use nearhead_tenants::public_key::{Algorithm, PublicKey};
use proptest::prelude::*;
use ring::hmac;
use serde_json::{Value, json};

use super::*;
use crate::access::{
    Now,
    issuer::{Issuer, encode},
    token_cache::TokenCache,
};

/// In seconds and in milliseconds.
const SECONDS: u64 = 1_800_000_000;
const NOW: UnixMillis = UnixMillis(SECONDS * 1_000);

/// The id of the key `key`.
const KEY: KeyId = KeyId::of_bytes([0x1b, 0x45, 0x3d, 0x0b, 0x3b, 0x9e, 0xf3, 0x5e]);

/// The claims of a token that is accepted.
fn claims() -> Value {
    json!({"aud": KEY, "exp": SECONDS + 600, "sub": "somebody"})
}

fn read(public_keys: &[PublicKey]) -> Vec<Arc<VerifyingKey>> {
    let read = |key| Arc::new(VerifyingKey::new(key).unwrap());
    public_keys.iter().map(read).collect()
}

/// What a worker says that has seen no token, and again once it has seen this one.
#[track_caller]
fn check(
    what: &str,
    token: &str,
    public_keys: &[Arc<VerifyingKey>],
    expected: Result<(), TokenError>,
) {
    let tokens = TokenCache::default();
    for time in ["first", "second"] {
        let admitted = admit(&tokens, token, public_keys);
        assert_eq!(admitted, expected, "{what}, for the {time} time: {token}");
    }
    let is_verified = matches!(
        expected,
        Ok(()) | Err(TokenError::NotYetValid | TokenError::Expired)
    );
    assert_eq!(tokens.len() > 0, is_verified, "{what}");
}

fn admit(
    tokens: &TokenCache,
    token: &str,
    public_keys: &[Arc<VerifyingKey>],
) -> Result<(), TokenError> {
    let now = Now {
        instant: Instant::now(),
        unix: NOW,
    };
    let admitted = tokens.admit(token, (KEY, public_keys), || None, now);
    admitted.map(|_| ())
}

const INVALID: Result<(), TokenError> = Err(TokenError::Invalid);

#[test]
fn a_token_names_an_algorithm_and_a_key_that_are_the_keys_own() {
    let [issuer, other] = ["one", "two"].map(Issuer::new);
    let public_key = issuer.public_key();
    let (one, two) = (
        read(std::slice::from_ref(&public_key)),
        read(&[public_key.clone(), other.public_key()]),
    );
    let (claims, text) = (claims(), claims().to_string());
    let with = |header: &str| issuer.sign(header.as_bytes(), text.as_bytes());
    let unsigned =
        |header: &str| format!("{}.{}.", encode(header.as_bytes()), encode(text.as_bytes()));
    // Signed with HMAC, and the public key as the secret.
    let confused = |header: &str, secret: &[u8]| {
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(text.as_bytes()));
        let tag = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, secret),
            signed.as_bytes(),
        );
        format!("{signed}.{}", encode(tag.as_ref()))
    };
    for (what, token, keys, expected) in [
        ("its key", issuer.token(&claims), &one, Ok(())),
        ("one of two", issuer.token(&claims), &two, Ok(())),
        ("the other one", other.token(&claims), &two, Ok(())),
        ("another key", other.token(&claims), &one, INVALID),
        ("no kid", with(r#"{"alg":"ES256"}"#), &one, Ok(())),
        (
            "no kid, two keys",
            with(r#"{"alg":"ES256"}"#),
            &two,
            INVALID,
        ),
        (
            "kid of the other",
            with(r#"{"alg":"ES256","kid":"two"}"#),
            &two,
            INVALID,
        ),
        (
            "unknown kid",
            with(r#"{"alg":"ES256","kid":"three"}"#),
            &one,
            INVALID,
        ),
        (
            "kid in other letters",
            with(r#"{"alg":"ES256","kid":"ONE"}"#),
            &one,
            INVALID,
        ),
        (
            "empty kid",
            with(r#"{"alg":"ES256","kid":""}"#),
            &one,
            INVALID,
        ),
        (
            "kid null",
            with(r#"{"alg":"ES256","kid":null}"#),
            &one,
            INVALID,
        ),
        (
            "kid number",
            with(r#"{"alg":"ES256","kid":1}"#),
            &one,
            INVALID,
        ),
        (
            "kid twice",
            with(r#"{"alg":"ES256","kid":"one","kid":"one"}"#),
            &one,
            INVALID,
        ),
        (
            "escaped kid",
            with(r#"{"alg":"ES256","kid":"\u006fne"}"#),
            &one,
            Ok(()),
        ),
        ("no alg", with(r#"{"kid":"one"}"#), &one, INVALID),
        (
            "alg none",
            with(r#"{"alg":"none","kid":"one"}"#),
            &one,
            INVALID,
        ),
        (
            "alg None",
            with(r#"{"alg":"None","kid":"one"}"#),
            &one,
            INVALID,
        ),
        (
            "alg es256",
            with(r#"{"alg":"es256","kid":"one"}"#),
            &one,
            INVALID,
        ),
        (
            "alg RS256",
            with(r#"{"alg":"RS256","kid":"one"}"#),
            &one,
            INVALID,
        ),
        (
            "alg ES384",
            with(r#"{"alg":"ES384","kid":"one"}"#),
            &one,
            INVALID,
        ),
        (
            "alg null",
            with(r#"{"alg":null,"kid":"one"}"#),
            &one,
            INVALID,
        ),
        (
            "alg twice",
            with(r#"{"alg":"none","alg":"ES256"}"#),
            &one,
            INVALID,
        ),
        ("unsigned", unsigned(r#"{"alg":"none"}"#), &one, INVALID),
        (
            "unsigned ES256",
            unsigned(r#"{"alg":"ES256"}"#),
            &one,
            INVALID,
        ),
        (
            "HS256 with the PEM",
            confused(r#"{"alg":"HS256"}"#, public_key.pem.as_bytes()),
            &one,
            INVALID,
        ),
        (
            "ES256 with the PEM",
            confused(r#"{"alg":"ES256"}"#, public_key.pem.as_bytes()),
            &one,
            INVALID,
        ),
        (
            "crit",
            with(r#"{"alg":"ES256","crit":["exp"],"exp":1}"#),
            &one,
            INVALID,
        ),
        (
            "b64",
            with(r#"{"alg":"ES256","crit":["b64"],"b64":false}"#),
            &one,
            INVALID,
        ),
        (
            "empty crit",
            with(r#"{"alg":"ES256","crit":[]}"#),
            &one,
            INVALID,
        ),
        (
            "crit null",
            with(r#"{"alg":"ES256","crit":null}"#),
            &one,
            INVALID,
        ),
        ("not an object", with(r#"["ES256"]"#), &one, INVALID),
        ("not JSON", with("{"), &one, INVALID),
        (
            "more than JSON",
            with(r#"{"alg":"ES256"} {}"#),
            &one,
            INVALID,
        ),
        (
            "deep",
            with(&format!(r#"{{"alg":"ES256","x":{}"#, "[".repeat(200))),
            &one,
            INVALID,
        ),
    ] {
        check(what, &token, keys, expected);
    }
    check("no public keys", &issuer.token(&claims), &[], INVALID);
}

/// A key that a token carries, or says where to find, is ignored.
#[test]
fn a_token_brings_no_key_of_its_own() {
    let [issuer, attacker] = ["one", "one"].map(Issuer::new);
    let keys = read(&[issuer.public_key()]);
    let text = claims().to_string();
    for member in [
        r#""jwk":{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
        r#""jku":"https://attacker.example/keys""#,
        r#""x5u":"https://attacker.example/certificate""#,
        r#""x5c":["MIIB"]"#,
    ] {
        let header = format!(r#"{{"alg":"ES256","kid":"one",{member}}}"#);
        let [own, foreign] =
            [&issuer, &attacker].map(|by| by.sign(header.as_bytes(), text.as_bytes()));
        check(member, &own, &keys, Ok(()));
        check(member, &foreign, &keys, INVALID);
    }
}

#[test]
fn a_token_has_three_parts_in_base64url() {
    let issuer = Issuer::new("one");
    let keys = read(&[issuer.public_key()]);
    let good = issuer.token(&claims());
    let [header, claims, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    let with = |signature: &[u8]| format!("{header}.{claims}.{}", encode(signature));
    // The two numbers in DER, as other formats have them.
    let number = |bytes: &[u8]| [&[2, 33, 0], bytes].concat();
    let numbers = [number(&bytes[..32]), number(&bytes[32..])].concat();
    let der = [&[0x30, numbers.len() as u8], &*numbers].concat();
    // The last character of 64 bytes has four bits that no byte has.
    let last = signature.chars().last().unwrap();
    let next = char::from(last as u8 + 1);
    let standard = issuer.sign(b"{\"alg\":\"ES256\",\"x\":\"\xc3\xbf\xc3\xbf\"}", b"{}");
    let long = json!({"aud": KEY, "exp": SECONDS + 1, "x": "x".repeat(TOKEN_BYTES_MAX)});
    for (what, token, expected) in [
        ("good", good.clone(), Ok(())),
        ("nothing", String::new(), INVALID),
        ("dots", "..".to_owned(), INVALID),
        ("one part", header.to_owned(), INVALID),
        ("two parts", format!("{header}.{claims}"), INVALID),
        ("no signature", format!("{header}.{claims}."), INVALID),
        ("a dot at the end", format!("{good}."), INVALID),
        ("a dot at the start", format!(".{good}"), INVALID),
        ("five parts", format!("{good}.AA.AA"), INVALID),
        (
            "four parts, signed",
            issuer.sign_text(&format!("{header}.{claims}.AA")),
            INVALID,
        ),
        (
            "padding",
            format!("{header}.{claims}.{signature}=="),
            INVALID,
        ),
        (
            "padding within",
            format!("{header}=.{claims}.{signature}"),
            INVALID,
        ),
        (
            "a space",
            format!("{header}. {claims}.{signature}"),
            INVALID,
        ),
        (
            "a line",
            format!("{header}.{claims}.{signature}\n"),
            INVALID,
        ),
        (
            "other bits",
            format!("{}{next}", &good[..good.len() - 1]),
            INVALID,
        ),
        (
            "base64",
            standard.replace('_', "/").replace('-', "+"),
            INVALID,
        ),
        ("signature in DER", with(&der), INVALID),
        ("signature of zeros", with(&[0; 64]), INVALID),
        (
            "r is zero",
            with(&[&[0; 32], &bytes[32..]].concat()),
            INVALID,
        ),
        (
            "s is zero",
            with(&[&bytes[..32], &[0; 32]].concat()),
            INVALID,
        ),
        ("numbers of the order", with(&[0xff; 64]), INVALID),
        ("a shorter signature", with(&bytes[1..]), INVALID),
        (
            "a longer signature",
            with(&[&*bytes, &[0]].concat()),
            INVALID,
        ),
        (
            "other claims",
            format!("{header}.{}.{signature}", encode(b"{}")),
            INVALID,
        ),
        ("too long", issuer.token(&long), INVALID),
    ] {
        check(what, &token, &keys, expected);
    }
}

proptest! {
    /// No byte of a token can be changed, left out or added.
    #[test]
    fn a_changed_token_is_refused(at: prop::sample::Index, byte in 0x21_u8..0x7f) {
        let issuer = Issuer::new("one");
        let keys = read(&[issuer.public_key()]);
        let good = issuer.token(&claims());
        let at = at.index(good.len());
        let mut bytes = good.clone().into_bytes();
        bytes[at] = byte;
        let changed = String::from_utf8(bytes).unwrap();
        let tokens = TokenCache::default();
        let admitted = admit(&tokens, &changed, &keys);
        prop_assert_eq!(admitted.is_ok(), changed == good, "{}", changed);
        for other in [[&good[..at], &good[at + 1..]].concat(), format!("{}A{}", &good[..at], &good[at..])] {
            prop_assert!(admit(&tokens, &other, &keys).is_err(), "{}", other);
        }
    }

    /// Whatever is presented, it is refused, and nothing panics.
    #[test]
    fn whatever_is_presented_is_refused(text in "[A-Za-z0-9_.=-]{0,200}", header: Vec<u8>, claims: Vec<u8>) {
        let issuer = Issuer::new("one");
        let keys = read(&[issuer.public_key()]);
        let tokens = TokenCache::default();
        prop_assert!(admit(&tokens, &text, &keys).is_err());
        prop_assert!(admit(&tokens, &issuer.sign(&header, &claims), &keys).is_err());
        let header = br#"{"alg":"ES256"}"#;
        prop_assert!(admit(&tokens, &issuer.sign(header, &claims), &keys).is_err());
    }
}
