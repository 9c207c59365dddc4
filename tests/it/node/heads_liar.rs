//! Lies about the heads that a node tells of unasked: they lead to a question, and to nothing else.

use serde_json::json;

use super::{
    follow, head,
    same::{ANVIL_EMPTY, Same},
    wait_head, ws,
};
use crate::{
    harness::{check, wait_until},
    peers::{
        Anvil,
        proxy::{Fault, Lie, Proxy, rows, rows::Recorded},
        quantity,
    },
    websocket::client::Client,
};

#[test]
fn every_member_of_a_head() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(5);
    let mut session = Client::open(anvil.address, "/");
    session.call("eth_subscribe", &json!(["newHeads"]));
    anvil.mine(1);
    let told = Recorded {
        method: "eth_subscription",
        params: json!(["newHeads"]),
        result: session.notification()["result"].clone(),
    };
    // Members that lead to a question in every way, the others in one.
    let all = rows::lies(&[told]);
    let leads = |lie: &Lie| {
        let members = ["/number", "/hash", "/parentHash", "/timestamp", ""];
        members.contains(&lie.path.as_str())
    };
    let mut lies: Vec<Lie> = all.iter().filter(|lie| leads(lie)).cloned().collect();
    let rest = rows::one_a_member(&all);
    lies.extend(rest.into_iter().filter(|lie| !leads(lie)));
    assert!(lies.len() >= 30, "{} lies", lies.len());

    let proxy = Proxy::to(&[anvil.address]);
    let server = follow(&[ws(proxy.address)]);
    let mut ours = server.connect();
    let (count, mut told) = (lies.len(), 0);
    for mut lie in lies {
        // Of every head from now on.
        lie.only = None;
        let case = format!("{lie:?}");
        proxy.fail(vec![Fault::Lie(lie)]);
        let (before, _) = anvil.head();
        anvil.mine(1);
        let wanted = anvil.head();
        let mut node = anvil.connect();
        wait_until(&case, || {
            let (number, hash) = head(&mut ours);
            let params = json!([format!("{number:#x}"), false]);
            let theirs = node.result("eth_getBlockByNumber", &params);
            check(&case, &json!(hash), &theirs["hash"]);
            assert!(number >= before && number <= wanted.0, "{case}: {number}");
            number == wanted.0
        });
        told += usize::from(proxy.applied() > 0);
    }
    // A head that cannot be read ends the subscription: what comes before the next one is not told.
    println!("{told} of {count} lies were told");
    assert!(2 * told > count, "{told} of {count} lies were told");
    proxy.heal();
    anvil.mine(1);
    wait_head(&server, anvil.head());
    let mut same = Same::between(&server, anvil.address);
    let newest = quantity(&ours.result("eth_blockNumber", &json!([])));
    same.blocks(0..=newest);
    same.finish(ANVIL_EMPTY);
}
