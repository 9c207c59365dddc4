//! Upstreams behind TLS: only certificates that the system trusts are accepted.

use super::{
    arguments,
    comparison::{ANVIL_EMPTY, Comparison},
    follow_with, http, wait_fault, wait_head, wait_logged,
};
use crate::{
    harness::{Server, scratch, serving},
    upstreams::{Anvil, TlsFront},
};

/// The upstreams that are refused agree with nobody, so one has to be enough.
const QUORUM: [&str; 2] = ["--quorum", "1"];

fn behind_tls(name: &str) -> (Anvil, TlsFront) {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(5);
    let front = TlsFront::to(anvil.address, &scratch(name));
    (anvil, front)
}

#[test]
fn an_upstream_behind_tls_is_followed() {
    let (mut anvil, front) = behind_tls("node-tls");
    let port = front.address.port();
    for scheme in ["https", "wss"] {
        // The second name is not in the certificate.
        let upstreams = ["localhost", "127.0.0.1"].map(|host| format!("{scheme}://{host}:{port}"));
        let mut command = serving(&[&arguments(&upstreams)[..], &QUORUM].concat());
        let server = Server::of(command.env("SSL_CERT_FILE", &front.certificate));
        wait_fault(&server, 1, &["connection"]);
        anvil.mine(1);
        wait_head(&server, anvil.head());
        let mut comparison = Comparison::between(&server, anvil.address);
        comparison.blocks(0..=anvil.head().0);
        comparison.finish(ANVIL_EMPTY);
    }
}

/// A certificate that no authority trusted by the system has signed.
#[test]
fn an_untrusted_certificate_is_refused() {
    let (anvil, front) = behind_tls("node-tls-unknown");
    let port = front.address.port();
    let mut upstreams = vec![http(anvil.address)];
    upstreams.extend(["https", "wss"].map(|scheme| format!("{scheme}://localhost:{port}")));
    let server = follow_with(&upstreams, &QUORUM);
    for upstream in [1, 2] {
        wait_fault(&server, upstream, &["connection"]);
    }
    wait_logged(&server, "invalid peer certificate");
}
