use super::*;

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
