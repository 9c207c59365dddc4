//! TLS of the listeners, against the real program: clients verify its certificate, and an authority
//! of the tests' own signs it.
//!
//! | file | what it tests |
//! |---|---|
//! | `mod.rs` | HTTPS and WSS over each version, what is refused at the start, warnings |
//! | `admin` | the admin listener: cookies, client certificates, commands |
//! | `rotation` | certificates that change while the program serves |
//! | `strangers` | clients that do not finish a handshake, or speak something else |
//! | `certificates`, `client` | an authority, and clients that trust it |

mod admin;
mod certificates;
mod client;
mod rotation;
mod strangers;

use std::{fs, net::SocketAddr, sync::OnceLock};

use rustls::ProtocolVersion;
use serde_json::{Value, json};

use self::{
    certificates::{Authority, Pair, Valid},
    client::{ONLY_12, ONLY_13, TlsClient, Tunnel},
};
use crate::{
    harness::{
        Connection, KEY, Process, Server, check, get, nearhead, printed, request, scratch, serving,
        wait_until,
    },
    proxy_protocol::{OPTIONS, PROXY, connect, header_of},
    websocket::client::{Client, HEADERS, handshake},
};

/// A dev chain that does not grow.
const STILL: [&str; 2] = ["--block-time", "0s"];

/// A server with TLS, whose metrics are read over plain HTTP.
pub(crate) struct TlsServer {
    server: Server,
    metrics: SocketAddr,
}

/// The pair that tests share unless they are about another one.
fn shared_pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| Authority::shared().sign("localhost", "server", Valid::LONG))
}

impl TlsServer {
    /// Starts the program with this pair and these arguments.
    fn start(pair: &Pair, arguments: &[&str]) -> Self {
        let metrics = ["--metrics-listen", "127.0.0.1:0"];
        let all = [&STILL[..], &pair.options(), &metrics, arguments].concat();
        let server = Server::listening(&mut serving(&all));
        let output = &server.process.output;
        let metrics = output.wait_for("the metrics listener", |text| printed(text, "metrics"));
        wait_until("ready", || get(metrics, "/ready").status == 200);
        Self { server, metrics }
    }

    /// The value of a series.
    #[track_caller]
    fn metric(&self, series: &str) -> f64 {
        let metrics = get(self.metrics, "/metrics");
        let mut lines = metrics.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no series {series}"));
        value.parse().unwrap()
    }

    /// Handshakes of the public listener with this outcome.
    #[track_caller]
    fn handshakes(&self, outcome: &str) -> f64 {
        let labels = format!(r#"{{listener="public",outcome="{outcome}"}}"#);
        self.metric(&format!("nearhead_tls_handshakes_total{labels}"))
    }

    /// Waits for words in the log.
    fn wait_logged(&self, words: &str) {
        let output = &self.server.process.output;
        output.wait_for(words, |text| text.contains(words).then_some(()));
    }

    fn connect(&self) -> Tunnel {
        TlsClient::default().connect(self.server.address)
    }

    /// A connection that posts to the path of [`KEY`].
    fn http(&self) -> Connection {
        Connection::on(self.connect().stream, &format!("/v3/{KEY}"))
    }

    fn session(&self) -> Client {
        Client::on(self.connect().stream, &format!("/ws/v3/{KEY}"))
    }
}

/// Calls a method, whose answer is known.
#[track_caller]
fn is_answered(connection: &mut Connection) {
    let answer = connection.result("eth_chainId", &json!([]));
    check("the answer", &answer, &json!("0x539"));
}

#[track_caller]
fn session_is_answered(session: &mut Client) {
    let answer = session.call("eth_chainId", &json!([]));
    check("the answer", &answer["result"], &json!("0x539"));
}

#[test]
fn requests_and_sessions_go_over_both_versions() {
    let server = TlsServer::start(shared_pair(), &[]);
    let greeting = format!("\nurl     https://{}/v3/", server.server.address);
    let output = &server.server.process.output;
    output.wait_for("https", |text| text.contains(&greeting).then_some(()));
    for (versions, expected) in [
        (ONLY_12, ProtocolVersion::TLSv1_2),
        (ONLY_13, ProtocolVersion::TLSv1_3),
    ] {
        // HTTP/2 is not agreed on, whoever offers it.
        for (protocols, agreed) in [
            (&["http/1.1"][..], Some(b"http/1.1".to_vec())),
            (&["h2", "http/1.1"], Some(b"http/1.1".to_vec())),
            (&[], None),
        ] {
            let client = TlsClient {
                versions,
                protocols,
                pair: None,
            };
            let case = format!("{expected:?} {protocols:?}");
            let tunnel = client.connect(server.server.address);
            check(&case, &tunnel.version, &Some(expected));
            check(&case, &tunnel.protocol, &agreed);
            check(&case, &tunnel.certificate, &shared_pair().der());
            let mut connection = Connection::on(tunnel.stream, &format!("/v3/{KEY}"));
            for _ in 0..3 {
                is_answered(&mut connection);
            }
            let tunnel = client.connect(server.server.address);
            let mut session = Client::on(tunnel.stream, &format!("/ws/v3/{KEY}"));
            session_is_answered(&mut session);
        }
        let only_h2 = TlsClient {
            versions,
            protocols: &["h2"],
            pair: None,
        };
        let error = only_h2.is_refused(server.server.address).to_string();
        assert!(error.contains("NoApplicationProtocol"), "{error}");
    }
    check("handshakes", &server.handshakes("made"), &12.0);
    wait_until("both are counted", || server.handshakes("refused") == 2.0);
}

/// A reply of some megabytes goes through the buffers of TLS in parts.
#[test]
fn large_replies_arrive_whole() {
    let plain = Server::start(&STILL);
    let tls = TlsServer::start(shared_pair(), &[]);
    let block = request(1, "eth_getBlockByNumber", &json!(["latest", true]));
    let batch = Value::from(vec![block; 900]).to_string();
    let expected = plain.connect().post(&batch);
    let mut connection = tls.http();
    for _ in 0..3 {
        let found = connection.post(&batch);
        check("status", &found.status, &200);
        assert!(found.body.len() > 1 << 20, "{} bytes", found.body.len());
        assert!(found.body == expected.body, "the replies differ");
    }
}

/// What a client has begun is cancelled when it goes away, whether it says so or not.
#[test]
fn a_client_that_leaves_cancels_its_work() {
    let server = TlsServer::start(shared_pair(), &["--workers", "2"]);
    let answered =
        || server.metric(r#"nearhead_requests_total{method="eth_getLogs",outcome="ok"}"#);
    // As in `admission`: no permit limits how many of these queries run.
    let topics: Vec<String> = (1..=15).map(|topic| format!("{topic:#066x}")).collect();
    let query = json!([{"fromBlock": "earliest", "topics": [topics]}]);
    let queries = 1_000;
    let batch = Value::from(vec![request(1, "eth_getLogs", &query); queries]).to_string();
    for says_so in [true, false] {
        let before = answered();
        let in_flight = || server.metric("nearhead_http_requests_in_flight");
        let alone = in_flight();
        let template = server.http();
        let bytes = template.request(&["content-type: application/json"], batch.as_bytes());
        let clients = 8;
        let leaving: Vec<_> = (0..clients)
            .map(|_| {
                let stream = TlsClient::default()
                    .handshake(server.server.address)
                    .unwrap();
                client::sent(stream, &bytes)
            })
            .collect();
        wait_until("the first query is answered", || answered() > before);
        for stream in leaving {
            client::leave(stream, says_so);
        }
        wait_until("the requests are gone", || in_flight() <= alone);
        let run = answered() - before;
        let all = (queries * clients) as f64;
        assert!(run < all, "all {all} ran for clients that had left");
    }
}

/// A proxy that passes TLS through says before the handshake who its client is.
#[test]
fn a_header_of_a_proxy_comes_before_the_handshake() {
    let server = TlsServer::start(shared_pair(), &OPTIONS);
    let named = header_of("192.0.2.7:4711");
    let socket = connect(PROXY, server.server.address, &named);
    let stream = TlsClient::default().handshake_on(socket).unwrap();
    let request = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = client::read_to_end(client::sent(stream, request.as_bytes())).unwrap();
    assert!(answer.ends_with(br#"{"status":"up"}"#), "{answer:?}");
    server.wait_logged(r#""peer":"192.0.2.7:4711""#);
    // Without the header there is no handshake, and nobody else has one.
    let socket = connect(PROXY, server.server.address, &[]);
    TlsClient::default().handshake_on(socket).unwrap_err();
    let socket = connect([127, 0, 0, 1].into(), server.server.address, &named);
    TlsClient::default().handshake_on(socket).unwrap_err();
}

/// The end of a connection is said under TLS, so that a client knows that nothing was cut off.
#[test]
fn connections_end_as_tls_wants_it() {
    let server = TlsServer::start(shared_pair(), &[]);
    let request = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let stream = TlsClient::default()
        .handshake(server.server.address)
        .unwrap();
    let answer = client::read_to_end(client::sent(stream, request.as_bytes())).unwrap();
    assert!(answer.ends_with(br#"{"status":"up"}"#), "{answer:?}");

    let path = format!("/ws/v3/{KEY}");
    let mut bytes = handshake(&path, HEADERS).into_bytes();
    // A close frame with code 1000, masked with zeros.
    bytes.extend([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]);
    let stream = TlsClient::default()
        .handshake(server.server.address)
        .unwrap();
    let answer = client::read_to_end(client::sent(stream, &bytes)).unwrap();
    assert!(answer.ends_with(&[0x88, 0x02, 0x03, 0xe8]), "{answer:?}");

    let mut session = server.session();
    session_is_answered(&mut session);
    server.server.process.terminate();
    check("the session", &session.close_code().0, &1001);
    server.server.process.check_end(0);
}

#[test]
fn what_cannot_be_used_is_refused_at_the_start() {
    let authority = Authority::shared();
    let good = shared_pair();
    let other = authority.sign("other", "server", Valid::LONG);
    let ended = authority.sign("ended", "server", Valid::ENDED);
    let folder = scratch("tls-start");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let garbage = file(
        "garbage.pem",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    );
    let no_der = file(
        "no-der.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let empty = file("empty.pem", "");
    let missing = folder.join("missing.pem");
    for (certificate, key, clients, words) in [
        (
            &ended.certificate,
            &ended.key,
            None,
            "ended at 2020-02-01T00:00:00Z: renew it",
        ),
        (
            &good.certificate,
            &other.key,
            None,
            "is not that of the certificate",
        ),
        (&missing, &good.key, None, "cannot read "),
        (&good.certificate, &missing, None, "cannot read "),
        (
            &empty,
            &good.key,
            None,
            "has no certificate that can be read (there is none)",
        ),
        (
            &garbage,
            &good.key,
            None,
            "has no certificate that can be read",
        ),
        (
            &no_der,
            &good.key,
            None,
            "has no certificate that can be read",
        ),
        (
            &good.key,
            &good.key,
            None,
            "has no certificate that can be read",
        ),
        (
            &good.certificate,
            &empty,
            None,
            "has no private key that can be used",
        ),
        (
            &good.certificate,
            &good.certificate,
            None,
            "has no private key",
        ),
        (
            &good.certificate,
            &good.key,
            Some(&empty),
            "has no certificate that can be read",
        ),
        (&good.certificate, &good.key, Some(&missing), "cannot read "),
    ] {
        let pair = Pair {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let clients = clients.map(|path| ["--admin-client-ca", path.to_str().unwrap()]);
        let clients = clients.as_ref().map_or(&[][..], |options| &options[..]);
        let arguments = [&STILL[..], &pair.options(), clients].concat();
        let output = Process::start(&mut serving(&arguments)).check_end(2);
        assert!(
            output.contains("nearhead: ") && output.contains(words),
            "{words}: {output}"
        );
        assert!(!output.contains("PRIVATE"), "{output}");
    }
}

#[test]
fn what_strangers_can_reach_is_a_warning() {
    let everywhere = ["--listen", "0.0.0.0:0", "--admin-listen", "0.0.0.0:0"];
    let keys = ["--api-key", KEY];
    let tls = shared_pair().options();
    let (clients, operators) = ("send their keys unencrypted", "passwords and tokens");
    let metrics = "everybody can read the metrics";
    for (more, expected) in [
        (&[][..], &[clients, operators][..]),
        (&["--trusted-proxy", "10.0.0.1"], &[]),
        (&tls, &[]),
        (
            &["--metrics-listen", "[::]:0"],
            &[clients, operators, metrics],
        ),
    ] {
        let arguments = [&STILL[..], &everywhere, &keys, more].concat();
        let process = Process::start(&mut nearhead(arguments));
        process
            .output
            .wait_for("the greeting", |text| text.contains("\ntry ").then_some(()));
        process.terminate();
        let output = process.check_end(0);
        for words in [clients, operators, metrics] {
            check(
                &format!("{words}: {output}"),
                &output.contains(words),
                &expected.contains(&words),
            );
        }
    }
}

#[test]
fn the_doctor_looks_at_the_certificate() {
    let authority = Authority::shared();
    let ended = authority.sign("ended-doctor", "server", Valid::ENDED);
    let other = authority.sign("other-name", "other_name", Valid::LONG);
    let mixed = Pair {
        certificate: other.certificate.clone(),
        key: ended.key.clone(),
    };
    let localhost = ["--public-url", "https://localhost:8545"];
    for (pair, words) in [
        (
            shared_pair(),
            "good  certificate: it ends at 2099-12-31T23:59:59Z",
        ),
        (&other, "BAD   certificate: it is not for localhost"),
        (&ended, "BAD   certificate: it ends at 2020-02-01T00:00:00Z"),
        (&mixed, "BAD   certificate: the key in "),
    ] {
        let listen = ["doctor", "--listen", "127.0.0.1:0"];
        let mut command = nearhead([&listen[..], &localhost, &pair.options()].concat());
        let (status, text) = Process::start(&mut command).wait();
        assert!(text.contains(words), "{words}: {text}");
        check(
            &text,
            &status.code(),
            &Some(i32::from(words.starts_with("BAD"))),
        );
    }
}
