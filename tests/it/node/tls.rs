//! Nodes behind TLS: whom the system believes is believed, and nobody else.

use super::{
    arguments, follow, http,
    same::{ANVIL_EMPTY, Same},
    wait_fault, wait_head, wait_logged,
};
use crate::{
    harness::{Server, scratch, serving},
    peers::{Anvil, TlsFront},
};

fn behind_tls(name: &str) -> (Anvil, TlsFront) {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(5);
    let front = TlsFront::to(anvil.address, &scratch(name));
    (anvil, front)
}

#[test]
fn a_node_behind_tls() {
    let (mut anvil, front) = behind_tls("node-tls");
    let port = front.address.port();
    for scheme in ["https", "wss"] {
        // The second is another name than the certificate's.
        let nodes = ["localhost", "127.0.0.1"].map(|host| format!("{scheme}://{host}:{port}"));
        let mut command = serving(&arguments(&nodes));
        let server = Server::of(command.env("SSL_CERT_FILE", &front.certificate));
        wait_fault(&server, 1, &["connection"]);
        anvil.mine(1);
        wait_head(&server, anvil.head());
        let mut same = Same::between(&server, anvil.address);
        same.blocks(0..=anvil.head().0);
        same.finish(ANVIL_EMPTY);
    }
}

/// A certificate that nobody the system believes answers for.
#[test]
fn a_certificate_that_nobody_answers_for() {
    let (anvil, front) = behind_tls("node-tls-unknown");
    let port = front.address.port();
    let mut nodes = vec![http(anvil.address)];
    nodes.extend(["https", "wss"].map(|scheme| format!("{scheme}://localhost:{port}")));
    let server = follow(&nodes);
    for node in [1, 2] {
        wait_fault(&server, node, &["connection"]);
    }
    wait_logged(&server, "invalid peer certificate");
}
