//! The admin listener over TLS.

use serde_json::json;

use super::{
    TlsServer,
    certificates::{Authority, Pair, Valid},
    client::TlsClient,
    shared_pair,
};
use crate::{
    admin_api::client::{PASSWORD, ROOT, first_token},
    harness::{Connection, KEY, Process, Response, check, json as parse, nearhead},
};

/// Sends a request to the admin listener.
fn send(
    server: &TlsServer,
    client: &TlsClient,
    (verb, path): (&str, &str),
    headers: &[&str],
    body: &str,
) -> Response {
    let address = server.server.admin.unwrap();
    let mut connection = Connection::on(client.connect(address).stream, path);
    let mut request = format!("{verb} {path} HTTP/1.1\r\nhost: localhost\r\n");
    let length = format!("content-length: {}", body.len());
    for line in headers.iter().chain(&[&*length]) {
        request.push_str(line);
        request.push_str("\r\n");
    }
    connection.send(format!("{request}\r\n{body}").as_bytes());
    connection.receive()
}

/// A client with a certificate of this authority.
fn with_certificate(authority: &Authority, name: &str) -> (TlsClient, Pair) {
    let pair = authority.sign(name, "client", Valid::LONG);
    let client = TlsClient {
        pair: Some(pair.clone()),
        ..TlsClient::default()
    };
    (client, pair)
}

/// `nearhead health` trusts the certificate of its configuration, which names no address, and no
/// other one.
#[test]
fn health_is_asked_over_tls() {
    let server = TlsServer::start(shared_pair(), &[]);
    let other = Authority::shared().sign("other.test", "server", Valid::LONG);
    let admin = server.server.admin.unwrap().to_string();
    for (pair, code, text) in [
        (shared_pair(), 0, "ready"),
        (&other, 1, "invalid peer certificate"),
    ] {
        let asked = [&["health", "--admin-listen", &admin][..], &pair.options()].concat();
        let output = Process::start(&mut nearhead(asked)).check_end(code);
        assert!(output.contains(text), "{output}");
    }
}

/// Logins have cookies for TLS alone, commands verify the service, and the dashboard calls it.
#[test]
fn administration_goes_over_tls() {
    // The dashboard reaches the public listener where only a proxy may connect, too.
    let proxy = ["--proxy-protocol", "--trusted-proxy", "127.0.0.2"];
    let server = TlsServer::start(shared_pair(), &proxy);
    let client = TlsClient::default();
    let admin = server.server.admin.unwrap();
    let url = format!("\nadmin   https://{admin}\n");
    let output = &server.server.process.output;
    output.wait_for(&url, |text| text.contains(&url).then_some(()));
    let metrics = send(&server, &client, ("GET", "/metrics"), &[], "");
    check("metrics", &metrics.status, &200);

    let json_body = "content-type: application/json";
    let body = json!({"token": first_token(&server.server), "name": "root", "password": PASSWORD});
    let path = format!("{ROOT}/first-account");
    let made = send(
        &server,
        &client,
        ("POST", &path),
        &[json_body],
        &body.to_string(),
    );
    check("first account", &made.status, &200);
    let cookie = made.header("set-cookie").unwrap();
    assert!(
        cookie.starts_with("__Host-nearhead_login=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    let body = json!({"name": "tests", "role": "admin"}).to_string();
    let headers = [json_body, "origin: https://localhost", &cookie];
    let path = format!("{ROOT}/tokens");
    let token = send(&server, &client, ("POST", &path), &headers, &body);
    check(token.text(), &token.status, &201);
    let token = parse(&token.body)["token"].as_str().unwrap().to_owned();

    // The dashboard calls the public listener in the name of its visitor.
    let bearer = format!("authorization: Bearer {token}");
    let form = ["content-type: application/x-www-form-urlencoded", &bearer];
    let target = ("POST", "/try?method=eth_chainId");
    let page = send(&server, &client, target, &form, &format!("key={KEY}"));
    check(page.text(), &page.status, &200);
    assert!(page.text().contains("0x539"), "{}", page.text());
    let curl = format!("curl -si https://{}/v3/", server.server.address);
    assert!(page.text().contains(&curl), "{}", page.text());

    let ca = Authority::shared().certificate();
    let list = |more: &[&str]| {
        let url = format!("https://localhost:{}", admin.port());
        let arguments = ["key", "list", "--json", "--admin-url", &url];
        let mut command = nearhead(arguments.iter().chain(more).copied());
        command.env_remove("NEARHEAD_DATA_DIR");
        Process::start(command.env("NEARHEAD_ADMIN_TOKEN", &token)).wait()
    };
    let (status, text) = list(&["--ca", ca.to_str().unwrap()]);
    check(&text, &status.code(), &Some(0));
    assert!(text.contains("\"keys\""), "{text}");
    let (status, text) = list(&[]);
    check(&text, &status.code(), &Some(1));
    assert!(text.contains("invalid peer certificate"), "{text}");
    let (status, text) = list(&["--ca", "/no/file"]);
    check(&text, &status.code(), &Some(2));
}

/// Operators need a certificate where an authority is given; clients of the public listener need
/// none.
#[test]
fn client_certificates_open_the_admin_listener_alone() {
    let (ours, theirs) = (Authority::new("clients"), Authority::new("others"));
    let ca = ours.certificate();
    let options = ["--admin-client-ca", ca.to_str().unwrap()];
    let server = TlsServer::start(shared_pair(), &options);
    let admin = server.server.admin.unwrap();
    let (known, pair) = with_certificate(&ours, "operator");
    let (unknown, _) = with_certificate(&theirs, "somebody");
    let ended = TlsClient {
        pair: Some(ours.sign("former", "client", Valid::ENDED)),
        ..TlsClient::default()
    };
    for (case, client, words) in [
        ("none", TlsClient::default(), "CertificateRequired"),
        ("of another authority", unknown, "UnknownCA"),
        ("ended", ended, "CertificateExpired"),
    ] {
        let error = client.is_refused(admin).to_string();
        assert!(error.contains(words), "{case}: {error}");
    }
    let refused = r#"nearhead_tls_handshakes_total{listener="admin",outcome="refused"}"#;
    crate::harness::wait_until("they are counted", || server.metric(refused) == 3.0);
    let health = send(&server, &known, ("GET", "/health"), &[], "");
    check("health", &health.status, &200);
    super::is_answered(&mut server.http());

    // A command with the certificate gets as far as its token.
    let ca = Authority::shared().certificate();
    let url = format!("https://localhost:{}", admin.port());
    let arguments = [
        "key",
        "list",
        "--admin-url",
        &url,
        "--ca",
        ca.to_str().unwrap(),
    ];
    let [certificate, key] = [&pair.certificate, &pair.key].map(|path| path.to_str().unwrap());
    for (more, words) in [
        (
            &["--client-cert", certificate, "--client-key", key][..],
            "does not accept the API token",
        ),
        (&[], "CertificateRequired"),
        (&["--client-cert", certificate], "--client-key"),
    ] {
        let mut command = nearhead(arguments.iter().chain(more).copied());
        command.env_remove("NEARHEAD_DATA_DIR");
        let (_, text) = Process::start(command.env("NEARHEAD_ADMIN_TOKEN", "a")).wait();
        assert!(
            text.to_lowercase().contains(&words.to_lowercase()),
            "{words}: {text}"
        );
    }
}
