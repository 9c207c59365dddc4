//! A head that stands still while its upstream answers.

use serde_json::json;

use super::{http, wait_head, ws};
use crate::{
    harness::{Server, check, serving, wait_until},
    upstreams::Anvil,
};

/// Whether `/ready` gives this one reason.
fn is_missing(server: &Server, reason: &str) -> bool {
    let ready = server.get_admin("/ready");
    let missing = format!("\"missing\":[\"{reason}\"]");
    ready.status == 503 && ready.text().contains(&missing)
}

#[test]
fn a_head_that_stands_still_is_stale() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(3);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| {
        let arguments = ["--source", "node", "--node", &url, "--head-age-max", "1s"];
        Server::listening(&mut serving(&arguments))
    });
    for number in 3..6 {
        for server in &servers {
            wait_head(server, anvil.head());
            wait_until("stale", || is_missing(server, "the head is stale"));
            assert!(server.metric("nearhead_head_age_seconds") > 1.0);
            let head = format!("{number:#x}");
            let syncing =
                json!({"startingBlock": head, "currentBlock": head, "highestBlock": head});
            let mut connection = server.connect();
            let answer = connection.result("eth_syncing", &json!([]));
            check("eth_syncing", &answer, &syncing);
            // Reads go on.
            let block = connection.result("eth_getBlockByNumber", &json!(["latest", false]));
            check("the head", &block["number"], &json!(head));
        }
        // A new head is fresh at once, whatever its timestamp is.
        anvil.mine(1);
        for server in &servers {
            wait_until("ready", || server.get_admin("/ready").status == 200);
        }
    }
}

/// The default suits a chain that makes a block now and then.
#[test]
fn a_young_head_is_fresh() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(3);
    for more in [&[][..], &["--head-age-max", "off"]] {
        let url = http(anvil.address);
        let arguments = [&["--source", "node", "--node", &url][..], more].concat();
        let server = Server::start(&arguments);
        let answer = server.connect().result("eth_syncing", &json!([]));
        check("eth_syncing", &answer, &json!(false));
    }
}
