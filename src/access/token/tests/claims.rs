use super::*;

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
