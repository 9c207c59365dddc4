use serde_json::json;

use super::{browse, finish, link, pictures};
use crate::{
    harness::{Process, Server},
    upstreams::{
        Anvil,
        proxy::{Fault, Proxy, Refusal},
    },
};

/// One of three nodes limits us, and another one cannot be reached.
#[test]
fn a_person_sees_which_nodes_fail() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(10);
    let proxies = [0; 4].map(|_: u8| Proxy::to(&[anvil.address]));
    let [_, _, limiting, gone] = &proxies;
    let urls = proxies
        .each_ref()
        .map(|proxy| format!("http://{}", proxy.address));
    let nodes = urls.iter().flat_map(|url| ["--node", url.as_str()]);
    let fixed = ["--source", "node", "--head-age-max", "off"];
    let server = Server::start(&fixed.into_iter().chain(nodes).collect::<Vec<_>>());
    let too_many = Refusal::TooManyRequests {
        retry_after_seconds: 3_600,
    };
    limiting.fail(vec![Fault::Refuse(None, too_many)]);
    gone.fail(vec![Fault::Cut]);
    let mut browser = browse("nodes");
    browser.arg(link(&server)).arg(pictures("nodes")).args([
        json!(["live", "live", "limited", "faulty"]).to_string(),
        json!(["live", "live", "limited", "live"]).to_string(),
    ]);
    let browser = Process::start(&mut browser);
    browser
        .output
        .wait_for("heal", |text| text.contains("heal\n").then_some(()));
    gone.heal();
    finish(browser);
}
