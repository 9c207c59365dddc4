#![expect(clippy::unwrap_used, reason = "tests")]

use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::*;

/// The key of RFC 7515 §A.3, in PEM.
const P256_PEM: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n\
6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n\
-----END PUBLIC KEY-----";

/// The token of RFC 7515 §A.3.
const ES256_TOKEN: &str = "\
    eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlL\
    mNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSA\
    pmWQxfKTUJqPP3-Kg6NU1Q";

/// The key of RFC 7515 §A.2, in PEM.
const RSA_PEM: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAofgWCuLjybRlzo0tZWJj\n\
NiuSfb4p4fAkd/wWJcyQoTbji9k0l8W26mPddxHmfHQp+Vaw+4qPCJrcS2mJPMEz\n\
P1Pt0Bm4d4QlL+yRT+SFd2lZS+pCgNMsD1W/YpRPEwOWvG6b32690r2jZ47soMZo\n\
9wGzjb/7OMg0LOL+bSf63kpaSHSXndS5z5rexMdbBYUsLA9e+KXBdQOS+UTo7WTB\n\
EMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6/I5IhlJH7aGhyxX\n\
FvUK+DWNmoudF8NAco9/h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXp\n\
oQIDAQAB\n\
-----END PUBLIC KEY-----";

/// The token of RFC 7515 §A.2.
const RS256_TOKEN: &str = "\
    eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlL\
    mNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7\
    AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWz\
    O75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZES\
    c6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlU\
    PQGe77Rw";

/// A key on another curve.
const P384: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAETrxDzMV2giJnZ0T7HncVxJxRqP1hMXGy\n\
ka4l7Z9kNmUcM5vTt+vr+Od3Aw1Hsj/6NKQlys9B+9xQTFSc03wFcdZdWYUCExvr\n\
tM8K6ay9KrJWSu/0frRw9LbbxiOoeUgg\n\
-----END PUBLIC KEY-----";

/// A key on P-256 with a compressed point.
const COMPRESSED: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MDkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDIgADzPn2yNpNqmegDsqjCdCQTt/RFCM2\n\
yVGfmTWMiwDzTYY=\n\
-----END PUBLIC KEY-----";

/// A key of another kind.
const ED25519: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MCowBQYDK2VwAyEAQLo9m3TJXagP3BfZWMkU91MZiIuYU04uxC4GpkEMyyQ=\n\
-----END PUBLIC KEY-----";

/// An RSA key that signs otherwise.
const RSA_PSS: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MIIBIDALBgkqhkiG9w0BAQoDggEPADCCAQoCggEBAL58M4x2ZbWyZ3Bap/m2pZEa\n\
zNOQRkJDl6qPgn70ATc8ICOAvqDanIrfX126XSb6mrAiswfa5KjWQ4mX+idF/9g6\n\
pa8DoyV0Q6nUWlyhMer5cJcrsyb+oi/2MT2u5YcjKyRnW2OnPLsDnNeh0WVL2GyO\n\
/+umEqD2WnV8rUbyp5biRb6mU+8qPcBhof9kLGELIiIY9XdOorqyC/WDGTXxe36P\n\
djHvcaB+6akiCpOvrZXtOyotgMukuRDPH5+wX8Pt3seKc61E235O17cQdHJQ6XYR\n\
YOcaB3O2LFm6L5IAI89XdBX9ieBIzsY88HE8lmC/P+UmMdXWyFwTBqPrsUweZ70C\n\
AwEAAQ==\n\
-----END PUBLIC KEY-----";

/// An RSA key of 1,024 bits.
const RSA_1024: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC4CcZ1fYgBDY5vbQT9ludEZzCF\n\
z3nlJAPAQK13aEE1K96epwJVlEMk8ngF+WBDJroTt/tYp3rrgF47UbGBLDuD8rMl\n\
6t6BSt1k5xWMihR5jm602yDotkGJpLtQFBMXjS050CpYOKxe9iRc7p6+4MjiVakg\n\
iM5pbp+lJuh5E77LvwIDAQAB\n\
-----END PUBLIC KEY-----";

fn public_key(algorithm: Algorithm, pem: &str) -> PublicKey {
    PublicKey {
        kid: "issuer".parse().unwrap(),
        algorithm,
        pem: pem.to_owned(),
    }
}

fn read(algorithm: Algorithm, pem: &str) -> Result<VerifyingKey, InvalidPublicKey> {
    VerifyingKey::new(&public_key(algorithm, pem))
}

/// What a token's issuer signs, and the signature.
fn split(token: &str) -> (&[u8], Vec<u8>) {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    (signed.as_bytes(), signature)
}

const ES256: Algorithm = Algorithm::Es256;
const RS256: Algorithm = Algorithm::Rs256;

#[test]
fn signatures_of_the_standard_are_verified() {
    for (algorithm, pem, token) in [
        (ES256, P256_PEM, ES256_TOKEN),
        (RS256, RSA_PEM, RS256_TOKEN),
    ] {
        let key = read(algorithm, pem).unwrap();
        let (signed, signature) = split(token);
        assert!(key.verifies(signed, &signature), "{algorithm:?}");
        for at in 0..signature.len() {
            let mut wrong = signature.clone();
            wrong[at] ^= 1;
            assert!(!key.verifies(signed, &wrong), "{algorithm:?} byte {at}");
        }
        let mut longer = signature.clone();
        longer.push(0);
        for wrong in [&[], &signature[1..], &longer, &vec![0; signature.len()]] {
            assert!(!key.verifies(signed, wrong), "{algorithm:?}");
        }
        assert!(!key.verifies(&signed[1..], &signature), "{algorithm:?}");
    }
}

/// JSON Web Signature has the two numbers of ES256 in 64 bytes, not in DER.
#[test]
fn a_signature_in_der_is_refused() {
    let key = read(ES256, P256_PEM).unwrap();
    let (signed, signature) = split(ES256_TOKEN);
    let (r, s) = signature.split_at(32);
    let integer = |number: &[u8]| {
        let sign: &[u8] = if number[0] >= 0x80 { &[0] } else { &[] };
        let length = (sign.len() + number.len()) as u8;
        [&[INTEGER, length], sign, number].concat()
    };
    let numbers = [integer(r), integer(s)].concat();
    let der = [&[SEQUENCE, numbers.len() as u8], &*numbers].concat();
    assert!(key.verifies(signed, &signature));
    assert!(!key.verifies(signed, &der));
}

#[test]
fn keys_that_cannot_be_used_are_refused() {
    let spaced = format!("\r\n  {}\n\n", P256_PEM.replace('\n', "\r\n"));
    let cut = P256_PEM.replace("RVEX", "");
    let off_curve = P256_PEM.replace("YjlrQ==", "YjlrA==");
    let twice = format!("{P256_PEM}\n{P256_PEM}");
    let explained = format!("the key of alice\n{P256_PEM}");
    let private = P256_PEM.replace("PUBLIC", "PRIVATE");
    let old_private = RSA_PEM.replace("PUBLIC", "RSA PRIVATE");
    let old_public = RSA_PEM.replace("PUBLIC", "RSA PUBLIC");
    let certificate = P256_PEM.replace("PUBLIC KEY", "CERTIFICATE");
    let long = RSA_PEM.replace("MIIB", &format!("{}MIIB", "\n".repeat(PEM_BYTES_MAX)));
    let even = RSA_PEM.replace("oQIDAQAB", "oAIDAQAB");
    let even_exponent = RSA_PEM.replace("oQIDAQAB", "oQIDAQAA");
    let other = RSA_PEM.replace("AQEFAAOC", "AQEEAAOC");
    use InvalidPublicKey::{Certificate, NotP256, NotRsa, Pem, Private, RsaBits, RsaNumbers};
    for (algorithm, pem, expected) in [
        (ES256, P256_PEM, Ok(())),
        (ES256, &*spaced, Ok(())),
        (RS256, RSA_PEM, Ok(())),
        (ES256, "", Err(Pem)),
        (ES256, "secret", Err(Pem)),
        (ES256, &*twice, Err(Pem)),
        (ES256, &*explained, Err(Pem)),
        (RS256, &*old_public, Err(Pem)),
        (RS256, &*long, Err(Pem)),
        (ES256, &*private, Err(Private)),
        (RS256, &*old_private, Err(Private)),
        (ES256, &*certificate, Err(Certificate)),
        (ES256, RSA_PEM, Err(NotP256)),
        (ES256, P384, Err(NotP256)),
        (ES256, COMPRESSED, Err(NotP256)),
        (ES256, ED25519, Err(NotP256)),
        (ES256, &*cut, Err(NotP256)),
        (ES256, &*off_curve, Err(NotP256)),
        (RS256, P256_PEM, Err(NotRsa)),
        (RS256, RSA_PSS, Err(NotRsa)),
        (RS256, &*other, Err(NotRsa)),
        (RS256, RSA_1024, Err(RsaBits(1_024))),
        (RS256, &*even, Err(RsaNumbers)),
        (RS256, &*even_exponent, Err(RsaNumbers)),
    ] {
        assert_eq!(
            read(algorithm, pem).map(|_| ()),
            expected,
            "{algorithm:?} {pem}"
        );
    }
}

/// A length is written in as few bytes as possible, and nothing follows a key.
#[test]
fn only_der_is_read() {
    let der = read_pem(RSA_PEM).unwrap();
    assert!(split_rsa(&der).is_some());
    for end in 0..der.len() {
        assert!(split_rsa(&der[..end]).is_none(), "{end} bytes");
    }
    assert!(split_rsa(&[&*der, &[0]].concat()).is_none());
    for (bytes, expected) in [
        (&[2, 1, 7][..], Some(&[7][..])),
        (&[2, 0x81, 1, 7], None),
        (&[2, 0x82, 0, 1, 7], None),
        (&[2, 0x83, 0, 0, 1, 7], None),
        (&[2, 0x80, 7, 0, 0], None),
        (&[3, 1, 7], None),
        (&[2, 2, 7], None),
        (&[2], None),
        (&[], None),
    ] {
        assert_eq!(whole(bytes, INTEGER), expected, "{bytes:?}");
    }
}

proptest! {
    /// Whatever is changed in a key, it is refused, or is another key that can be used.
    #[test]
    fn no_bytes_are_misread(at in 0_usize..294, byte: u8, algorithm in prop::bool::ANY) {
        let (pem, algorithm) = match algorithm {
            true => (P256_PEM, ES256),
            false => (RSA_PEM, RS256),
        };
        let before = read(algorithm, pem).unwrap();
        let mut der = read_pem(pem).unwrap();
        let at = at % der.len();
        let is_same = der[at] == byte;
        der[at] = byte;
        let digits = BASE64_STANDARD.encode(&der);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{digits}\n-----END PUBLIC KEY-----");
        match read(algorithm, &pem) {
            Ok(key) => prop_assert_eq!(key == before, is_same),
            Err(_) => prop_assert!(!is_same),
        }
    }
}
