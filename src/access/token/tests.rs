#![expect(clippy::unwrap_used, reason = "tests")]

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

#[test]
fn claims_are_read_once_the_signature_is_verified() {
    let issuer = Issuer::new("one");
    let keys = read(&[issuer.public_key()]);
    const CLAIMS: Result<(), TokenError> = Err(TokenError::Claims);
    const OTHER: Result<(), TokenError> = Err(TokenError::OtherAudience);
    const EXPIRED: Result<(), TokenError> = Err(TokenError::Expired);
    const EARLY: Result<(), TokenError> = Err(TokenError::NotYetValid);
    let aud = format!("{KEY}");
    let exp = |exp: &str| format!(r#"{{"aud":"{aud}","exp":{exp}}}"#);
    let of = |aud: &str| format!(r#"{{"aud":{aud},"exp":{}}}"#, SECONDS + 1);
    let nbf = |nbf: &str| format!(r#"{{"aud":"{aud}","exp":{},"nbf":{nbf}}}"#, SECONDS + 1);
    let at = |seconds: i64| (SECONDS as i64 + seconds).to_string();
    for (text, expected) in [
        // The end, with its leeway.
        (exp(&at(1)), Ok(())),
        (exp(&at(0)), Ok(())),
        (exp(&at(-59)), Ok(())),
        (exp(&at(-60)), EXPIRED),
        (exp(&format!("{}.001", at(-60))), Ok(())),
        (exp(&at(-3_600)), EXPIRED),
        (exp("0"), EXPIRED),
        (exp("-1"), EXPIRED),
        (exp("-1e300"), EXPIRED),
        (exp("18446744073709551615"), Ok(())),
        (exp("100000000000000000000000"), Ok(())),
        (exp("1e300"), Ok(())),
        (exp("1e400"), CLAIMS),
        (exp("null"), CLAIMS),
        (exp("true"), CLAIMS),
        (exp("[]"), CLAIMS),
        (exp("NaN"), CLAIMS),
        (exp(&format!(r#""{}""#, at(1))), CLAIMS),
        (format!(r#"{{"aud":"{aud}"}}"#), CLAIMS),
        (exp(&format!("1,\"exp\":{}", at(1))), CLAIMS),
        // The audience.
        (of(&format!(r#"["{aud}"]"#)), Ok(())),
        (of(&format!(r#"["a","{aud}","b"]"#)), Ok(())),
        (of(r#""another""#), OTHER),
        (of(r#""""#), OTHER),
        (of("[]"), OTHER),
        (of(&format!(r#""{}""#, aud.to_uppercase())), OTHER),
        (of(&format!(r#""{aud} ""#)), OTHER),
        (of(&format!(r#"["a","{}"]"#, &aud[1..])), OTHER),
        (of("null"), CLAIMS),
        (of("1"), CLAIMS),
        (of(&format!(r#"["{aud}",1]"#)), CLAIMS),
        (of(&format!(r#"{{"{aud}":1}}"#)), CLAIMS),
        (format!(r#"{{"exp":{}}}"#, at(1)), CLAIMS),
        (of(&format!(r#""a","aud":"{aud}""#)), CLAIMS),
        // The beginning, with its leeway.
        (nbf(&at(0)), Ok(())),
        (nbf(&at(60)), Ok(())),
        (nbf(&format!("{}.5", at(60))), EARLY),
        (nbf(&at(61)), EARLY),
        (nbf("1e300"), EARLY),
        (nbf("-1"), Ok(())),
        (nbf("null"), CLAIMS),
        (nbf(r#""0""#), CLAIMS),
        // What is not read may be anything.
        (
            exp(&format!(
                r#"{},"iat":{},"iss":null,"jti":{{}}"#,
                at(1),
                at(99)
            )),
            Ok(()),
        ),
        // What is no object.
        ("{}".to_owned(), CLAIMS),
        (String::new(), CLAIMS),
        ("null".to_owned(), CLAIMS),
        (format!(r#"["{aud}",{}]"#, at(1)), CLAIMS),
        (format!("{}x", exp(&at(1))), CLAIMS),
    ] {
        let header = br#"{"alg":"ES256","kid":"one"}"#;
        check(
            &text,
            &issuer.sign(header, text.as_bytes()),
            &keys,
            expected,
        );
        let other = Issuer::new("one");
        check(&text, &other.sign(header, text.as_bytes()), &keys, INVALID);
    }
    let header = br#"{"alg":"ES256","kid":"one"}"#;
    check(
        "not UTF-8",
        &issuer.sign(header, b"{\"aud\":\"\xff\"}"),
        &keys,
        CLAIMS,
    );
}

/// A token of `KEY` until 2100 that openssl has signed, and the public key.
const RS256: (&str, &str) = (
    "-----BEGIN PUBLIC KEY-----\n\
     MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAulyV9AekrzdJTg5XcSsf\n\
     UjbqaF7xtwu4lhXhCvCMvDSSoai1zfulSXfSm6VYOju27MgvD4F/xRWhcOhexrgJ\n\
     bUDIx8vUpHDIkwb5thaKhxUKxUYz+4zp9SxRgqwqf6WKYeipQMKapN4xqAtxcQbv\n\
     jdS4He/GZ7jIm6MOjDNJvOdXzr9L7obvdSI7y279W1dNQfcPBAMEEpUGUI9n66+/\n\
     6wnGRaX+p9rulx0yacvV+Ic3MbGXfMC24hOJTZ7MN+5U29sK9fe0RFS61RqpRs7T\n\
     hM/MyJ18zgHp8F1stpsMeP0plEC8X/DzpDiPLrtF3p0zEXb7LCRECTCp8C8l+Y4u\n\
     oQIDAQAB\n\
     -----END PUBLIC KEY-----",
    "eyJhbGciOiAiUlMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAicnNhIn0.eyJpc3MiOiAiaHR0cHM6Ly9pc3\
     N1ZXIuZXhhbXBsZSIsICJhdWQiOiAiMWI0NTNkMGIzYjllZjM1ZSIsICJleHAiOiA0MTAyNDQ0ODAwLCAiaWF0\
     IjogMTcwMDAwMDAwMH0.MYmbpsvnGNygWBAM-6g9eMNubjRKrqH-vGtOC-9aB9Jq6FR39uwrDSPxFAyTcVJn53\
     dxGuORLYtz7OpOvAiNGMTFR0yHs9qzAyI8y-bGhy4NsU-1MeRgb6TJYtytlGCoifoZJ7SLq4gwDX2oGI-t02mY\
     rsbOYWusEOmWLkzuAOZId_ZUYBHB1skA56T5FlDryehUUn2-2JkDbyEPznx_w1mhswxUstaX30qpKE2cgaMo95\
     UGIKEF24EieTWaHb6HQJQIF-BQfy9IrfCbf49-NpgoqI60h0A5LBixRdcA2qaYFRNI5VmuOD3n9i0tguU9l3O4\
     KJTiXIsu3dYZAnCmfA",
);

#[test]
fn a_token_may_be_signed_with_rs256() {
    let public_key = |algorithm, pem: &str| PublicKey {
        kid: "rsa".parse().unwrap(),
        algorithm,
        pem: pem.to_owned(),
    };
    let (pem, token) = RS256;
    let keys = read(&[public_key(Algorithm::Rs256, pem)]);
    check("RS256", token, &keys, Ok(()));
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    bytes[100] ^= 1;
    let [changed, zeros] =
        [&bytes[..], &[0; 256]].map(|bytes| format!("{signed}.{}", encode(bytes)));
    // With the header of a key that signs otherwise.
    let (_, claims) = signed.split_once('.').unwrap();
    let header = encode(br#"{"alg":"ES256","kid":"rsa"}"#);
    let confused = format!("{header}.{claims}.{signature}");
    for token in [changed, zeros, confused] {
        check("changed", &token, &keys, INVALID);
    }
    // A key of another kind with the same name.
    let other = PublicKey {
        kid: "rsa".parse().unwrap(),
        ..Issuer::new("rsa").public_key()
    };
    check("another kind", token, &read(&[other]), INVALID);
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
