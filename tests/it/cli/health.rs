//! `nearhead health`: every answer that a listener, or something else, may give.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use super::{run, run_with};
use crate::harness::{Server, UnusedPort, check, printed, wait_until};

/// Asks a service through all listeners, named and as the configuration names them.
#[test]
fn a_running_service_is_asked() {
    let server = Server::start(&["--metrics-listen", "127.0.0.1:0", "--shutdown-delay", "1h"]);
    let output = &server.process.output;
    let metrics = output.wait_for("the listener for metrics", |text| printed(text, "metrics"));
    let admin = server.admin.unwrap();
    let urls = [server.address, admin, metrics].map(|address| format!("http://{address}"));
    let any = format!("0.0.0.0:{}", admin.port());
    let (public, metrics) = (server.address.to_string(), metrics.to_string());
    let configured = [
        vec![("NEARHEAD_ADMIN_LISTEN", any.as_str())],
        vec![
            ("NEARHEAD_METRICS_LISTEN", &metrics),
            ("NEARHEAD_ADMIN_LISTEN", "127.0.0.1:1"),
        ],
        vec![
            ("NEARHEAD_LISTEN", &public),
            ("NEARHEAD_ADMIN_LISTEN", "off"),
        ],
    ];
    let every = || {
        let named = urls.iter().map(|url| run(&["health", url]));
        let found = configured.iter().map(|set| run_with(&["health"], set));
        named.chain(found).collect::<Vec<_>>()
    };
    for answer in every() {
        check("ready", &answer, &(Some(0), "ready\n".to_owned()));
    }
    server.process.terminate();
    wait_until("the end begins", || server.get("/ready").status == 503);
    let [public, admin] = ["not ready\n", "not ready: the service is going away\n"];
    let expected = [public, admin, admin, admin, admin, public];
    for (answer, expected) in every().into_iter().zip(expected) {
        check("going away", &answer, &(Some(1), expected.to_owned()));
    }
}

/// A listener that answers each connection with these bytes, or with silence.
fn answering(answer: impl Into<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = answer.into();
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            // Its request comes first, in one piece. The connection lasts until the client leaves.
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(&answer);
            let _ = connection.read_to_end(&mut Vec::new());
        }
    });
    url
}

fn http(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[test]
fn what_does_not_answer_or_is_no_service_is_not_ready() {
    let nobody = UnusedPort::take();
    let strange = "does not answer as nearhead does";
    let long = format!(
        "{{\"ready\":true,\"missing\":[\"{}\"]}}",
        "x".repeat(65_536)
    );
    let forged = r#"{"ready":false,"missing":["a\u001b[2J\nb"]}"#;
    for (url, part) in [
        (format!("http://{}", nobody.address()), "refused"),
        (answering(""), "no answer within 300ms"),
        (answering(http("200 OK", "<html>")), strange),
        (answering(http("200 OK", r#"{"ready":false}"#)), strange),
        (
            answering(http("404 Not Found", r#"{"ready":true}"#)),
            strange,
        ),
        (answering(http("200 OK", &long)), "its answer is too long"),
        (
            answering("HTTP/1.1 302 Found\r\nlocation: /health\r\ncontent-length: 0\r\n\r\n"),
            "status 302",
        ),
        (
            answering(http("503 Service Unavailable", forged)),
            "not ready: a [2J b",
        ),
    ] {
        let (code, text) = run(&["health", &url, "--timeout", "300ms"]);
        let case = format!("{part}: {text}");
        check(&case, &(code, text.lines().count()), &(Some(1), 1));
        assert!(text.contains(part), "{case}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, part) in [
        (&["127.0.0.1:8545"][..], "http://127.0.0.1:8545"),
        (&["ftp://127.0.0.1"], "http://127.0.0.1:8545"),
        (&["http://me:topsecret@127.0.0.1"], "without user or query"),
        (&["http://127.0.0.1/?a"], "without user or query"),
        (&["--timeout", "5"], "--timeout \"5\""),
        (&["--timeout", "0s"], "from 1ms to 1m"),
        (&["--admin-listen", "127.0.0.1:0"], "a port other than 0"),
        (&["--listen", "here"], "--listen"),
        (&["http://127.0.0.1", "http://127.0.0.1"], "health --help"),
    ] {
        let (code, text) = run(&[&["health"], arguments].concat());
        let case = format!("{arguments:?}: {text}");
        check(&case, &(code, text.lines().count()), &(Some(2), 1));
        assert!(text.contains(part) && !text.contains("topsecret"), "{case}");
    }
}
