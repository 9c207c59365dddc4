#![expect(clippy::unwrap_used, reason = "tests")]

use actix_web::http::header::HeaderValue;
use proptest::prelude::*;

use super::*;

const PEER: &str = "10.0.0.1";

/// Proxies at 10.0.0.0/8 and 2001:db8:1::/48.
fn proxies() -> TrustedProxies {
    TrustedProxies::new(&["10.0.0.0/8", "2001:db8:1::/48"].map(|text| text.parse().unwrap()))
}

/// Lines of headers: those whose name is `F` are `Forwarded`, the others `X-Forwarded-For`.
fn headers(lines: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = if *name == "F" {
            FORWARDED
        } else {
            X_FORWARDED_FOR
        };
        headers.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

#[track_caller]
fn check(peer: &str, lines: &[(&str, &str)], expected: &str) {
    let bytes: Vec<_> = lines
        .iter()
        .map(|(name, line)| (*name, line.as_bytes()))
        .collect();
    let found = proxies().client(peer.parse().unwrap(), &headers(&bytes));
    let expected: IpAddr = expected.parse().unwrap();
    assert_eq!(found, expected, "{peer} {lines:?}");
}

#[test]
fn the_rightmost_address_that_is_not_a_proxys_is_the_clients() {
    for (line, expected) in [
        ("192.0.2.1", "192.0.2.1"),
        (" 192.0.2.1 ", "192.0.2.1"),
        ("192.0.2.1:47011", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:47011", "2001:db8::1"),
        ("192.0.2.1, 10.1.1.1, 10.2.2.2", "192.0.2.1"),
        ("192.0.2.1,10.1.1.1,[2001:db8:1::1]:443", "192.0.2.1"),
        // What the client sent itself stands left of it.
        ("127.0.0.1, 192.0.2.1", "192.0.2.1"),
        ("10.1.1.1, 192.0.2.1, 10.2.2.2", "192.0.2.1"),
        ("not an address, 192.0.2.1", "192.0.2.1"),
        (", 192.0.2.1", "192.0.2.1"),
        // A client within the networks.
        ("10.9.9.9", "10.9.9.9"),
        ("10.9.9.9, 10.1.1.1", "10.9.9.9"),
        // Malformed.
        ("", PEER),
        ("unknown", PEER),
        ("192.0.2.1,", PEER),
        ("192.0.2.1, unknown, 10.1.1.1", PEER),
        ("192.0.2.1:", PEER),
        ("192.0.2.1:x", PEER),
        ("192.0.2.1:123456", PEER),
        ("192.0.2", PEER),
        ("192.0.2.01", PEER),
        ("[192.0.2.1]", PEER),
        ("[2001:db8::1", PEER),
        ("[2001:db8::1]x", PEER),
        ("2001:db8::1]:1", PEER),
        ("for=192.0.2.1", PEER),
        ("192.0.2.1 10.1.1.1", PEER),
        ("\"192.0.2.1\"", PEER),
    ] {
        check(PEER, &[("X", line)], expected);
    }
    let many = vec!["10.1.1.1"; HOPS_MAX].join(",");
    check(PEER, &[("X", &many)], "10.1.1.1");
    check(PEER, &[("X", &format!("192.0.2.1,{many}"))], PEER);
}

#[test]
fn forwarded_is_read_by_its_grammar() {
    for (line, expected) in [
        ("for=192.0.2.1", "192.0.2.1"),
        ("For=\"192.0.2.1:47011\"", "192.0.2.1"),
        ("for=\"[2001:db8::1]:47011\"", "2001:db8::1"),
        (
            "for=\"[2001:db8::1]\";proto=https;by=10.0.0.1",
            "2001:db8::1",
        ),
        ("proto=https; FOR=192.0.2.1 ;host=\"a;b,c\"", "192.0.2.1"),
        ("for=192.0.2.1;host=\"a\\\"b, for=1.2.3.4\"", "192.0.2.1"),
        (
            "for=192.0.2.1, for=10.1.1.1;proto=http ,for=10.2.2.2",
            "192.0.2.1",
        ),
        ("for=unknown, for=192.0.2.1", "192.0.2.1"),
        ("for=_hidden, proto=https, for=192.0.2.1", "192.0.2.1"),
        ("for=10.9.9.9", "10.9.9.9"),
        // Malformed, or not said.
        ("", PEER),
        ("192.0.2.1", PEER),
        ("for=", PEER),
        ("for=unknown", PEER),
        ("for=\"_hidden\"", PEER),
        ("for=192.0.2.1, for=unknown, for=10.1.1.1", PEER),
        ("proto=https", PEER),
        ("for=192.0.2.1, proto=https", PEER),
        ("for=192.0.2.1;for=192.0.2.1", PEER),
        ("for=192.0.2.1;", PEER),
        ("for=192.0.2.1,", PEER),
        (", for=192.0.2.1", PEER),
        ("for =192.0.2.1", PEER),
        ("for=192.0.2.1 proto=https", PEER),
        ("for=\"192.0.2.1", PEER),
        ("for=\"192.0.2.1\"x", PEER),
        ("for=192.0.2.1\"", PEER),
        // An open quote of the client must not hide what the proxy adds.
        ("for=127.0.0.1;host=\", for=192.0.2.1", PEER),
        ("for=127.0.0.1, host=\", for=\"[2001:db8::1]\"", PEER),
        ("for=127.0.0.1;host=\"\\, for=\"[2001:db8::1]\"", PEER),
    ] {
        check(PEER, &[("F", line)], expected);
    }
}

#[test]
fn headers_of_several_lines_and_both_headers() {
    for (lines, expected) in [
        (
            &[("X", "127.0.0.1"), ("X", "192.0.2.1, 10.1.1.1")][..],
            "192.0.2.1",
        ),
        (&[("X", "192.0.2.1"), ("X", "10.1.1.1")], "192.0.2.1"),
        (&[("X", "192.0.2.1"), ("X", "")], PEER),
        (&[("F", "for=\""), ("F", "for=192.0.2.1")], "192.0.2.1"),
        (&[("F", "for=\""), ("F", "for=10.1.1.1")], PEER),
        // Both, which agree or do not.
        (
            &[("F", "for=192.0.2.1"), ("X", "192.0.2.1, 10.1.1.1")],
            "192.0.2.1",
        ),
        (&[("F", "for=127.0.0.1"), ("X", "192.0.2.1")], PEER),
        (&[("F", "for=192.0.2.1"), ("X", "127.0.0.1")], PEER),
        (&[("F", "for=unknown"), ("X", "192.0.2.1")], PEER),
        (&[("F", "for=192.0.2.1"), ("X", "")], PEER),
        (&[], PEER),
    ] {
        check(PEER, lines, expected);
    }
    // Nobody else is believed.
    for peer in ["192.0.2.9", "2001:db8:2::1", "127.0.0.1"] {
        check(peer, &[("X", "127.0.0.1")], peer);
        check(peer, &[("F", "for=127.0.0.1")], peer);
    }
    check("::ffff:10.0.0.1", &[("X", "192.0.2.1")], "192.0.2.1");
    let nobody = TrustedProxies::default();
    let peer: IpAddr = PEER.parse().unwrap();
    assert_eq!(nobody.client(peer, &headers(&[("X", b"192.0.2.1")])), peer);
}

proptest! {
    /// Whatever a client sends, proxies that append to it name the client, or it stays unknown.
    #[test]
    fn a_client_cannot_choose_its_address(
        sent in prop_oneof![
            "[ -~]{0,40}",
            "((for=|host=|\"|;|,| |\\\\|127\\.0\\.0\\.1|unknown){0,12})",
        ],
        client: u32,
        proxies_between in 0_usize..4,
        is_same_line: bool,
    ) {
        // Not in the trusted networks.
        let client = IpAddr::from([192, 0, 2, client as u8]);
        let peer: IpAddr = PEER.parse().unwrap();
        let hops = || {
            let between = (0..proxies_between).map(|at| IpAddr::from([10, 1, 1, at as u8]));
            [client].into_iter().chain(between)
        };
        let listed: Vec<String> = hops().map(|hop| hop.to_string()).collect();
        let quoted: Vec<String> = hops().map(|hop| format!("for=\"{hop}:1\";proto=http")).collect();
        for (name, added) in [("X", listed.join(", ")), ("F", quoted.join(", "))] {
            let joined = format!("{sent}, {added}");
            let lines = match is_same_line {
                true => vec![(name, joined.as_bytes())],
                false => vec![(name, sent.as_bytes()), (name, added.as_bytes())],
            };
            let found = proxies().client(peer, &headers(&lines));
            match name == "X" || !is_same_line {
                true => prop_assert_eq!(found, client),
                false => prop_assert!(found == client || found == peer, "{}", found),
            }
        }
    }

    #[test]
    fn any_bytes_are_read(sent in proptest::collection::vec(any::<u8>(), 0..60)) {
        let sent: Vec<u8> = sent.into_iter().filter(|byte| *byte >= b' ' && *byte != 127).collect();
        for name in ["F", "X"] {
            proxies().client(PEER.parse().unwrap(), &headers(&[(name, &sent)]));
        }
    }
}

#[test]
fn the_host_is_the_one_that_the_first_proxy_was_asked_for() {
    let [listed, forwarded] = ["x-forwarded-host", "forwarded"].map(HeaderName::from_static);
    for (peer, lines, expected) in [
        (PEER, &[][..], None),
        (PEER, &[(&listed, "a.org:8443")], Some("a.org:8443")),
        (PEER, &[(&listed, "a.org, b.org")], Some("a.org")),
        (PEER, &[(&listed, "")], None),
        (PEER, &[(&forwarded, "host=\"a.org:1\"")], Some("a.org:1")),
        (PEER, &[(&forwarded, "for=1.2.3.4, host=b.org")], None),
        (PEER, &[(&forwarded, "host=\"")], None),
        (
            PEER,
            &[(&forwarded, "host=b.org"), (&listed, "a.org")],
            Some("a.org"),
        ),
        ("192.0.2.1", &[(&listed, "a.org")], None),
        ("192.0.2.1", &[(&forwarded, "host=a.org")], None),
    ] {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append((*name).clone(), HeaderValue::from_static(value));
        }
        let found = proxies().host(peer.parse().unwrap(), &headers);
        assert_eq!(found, expected, "{peer} {lines:?}");
    }
}
