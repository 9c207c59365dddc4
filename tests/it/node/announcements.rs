//! Lies in announced heads: an announcement only makes nearhead ask, and no part of it is served.

use serde_json::json;

use super::{
    comparison::{Comparison, GETH},
    driven_geth,
    driven_geth::DrivenGeth,
    follow, head, wait_head, ws,
};
use crate::{
    harness::{KEY, check, wait_until},
    upstreams::proxy::{Change, Fault, Lie, Proxy, rows, rows::Recorded},
    websocket::client::Client,
};

#[test]
fn no_member_of_an_announced_head_is_trusted() {
    let (genesis, payloads) = driven_geth::chain("node-announcements", 71, 80);
    let mut geth = DrivenGeth::at("node-announcements-geth", &genesis, &payloads);
    geth.go_to(&payloads[0]);
    let mut session = Client::open(geth.address(), "/");
    session.call("eth_subscribe", &json!(["newHeads"]));
    geth.go_to(&payloads[1]);
    let announced = Recorded {
        method: "eth_subscription",
        params: json!(["newHeads"]),
        result: session.notification()["result"].clone(),
    };
    let all = rows::lies(std::slice::from_ref(&announced));
    // Every lie about the members that make nearhead ask, and one lie about each other member.
    let triggers = |lie: &Lie| {
        let members = ["/number", "/hash", "/parentHash", "/timestamp", ""];
        members.contains(&lie.path.as_str())
    };
    let mut lies: Vec<Lie> = all.iter().filter(|lie| triggers(lie)).cloned().collect();
    let rest = rows::one_per_member(&all);
    lies.extend(rest.into_iter().filter(|lie| !triggers(lie)));
    // The hash of a known block that has another number.
    let known: &str = json!(payloads[0].hash).to_string().leak();
    for path in ["/hash", "/parentHash"] {
        lies.push(Lie::about(
            &["eth_subscription"],
            path,
            Change::Becomes(known),
        ));
    }
    assert!((30..70).contains(&lies.len()), "{} lies", lies.len());

    let proxy = Proxy::to(&[geth.address()]);
    let server = follow(&[ws(proxy.address)]);
    let mut ours = server.connect();
    let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
    for kind in ["newHeads", "reorgs"] {
        session.call("eth_subscribe", &json!([kind]));
    }
    let (count, mut applied, mut at) = (lies.len(), 0, 2);
    for mut lie in lies {
        // Applies to every head from now on.
        lie.only = None;
        let case = format!("{lie:?}");
        proxy.fail(vec![Fault::Lie(lie)]);
        at += 1;
        let before = (at as u64 - 1, payloads[at - 2].hash);
        let wanted = geth.go_to(&payloads[at - 1]);
        wait_until(&case, || {
            let served = head(&mut ours);
            assert!(served == before || served == wanted, "{case}: {served:?}");
            served == wanted
        });
        let notification = session.notification()["result"].clone();
        check(&case, &notification["hash"], &json!(wanted.1));
        check(&case, &notification["parentHash"], &json!(before.1));
        applied += usize::from(proxy.applied() > 0);
    }
    // A head that cannot be parsed ends the subscription. Until the next one begins, no head is
    // announced, so not every lie is sent.
    println!("{applied} of {count} lies were sent");
    assert!(2 * applied > count, "{applied} of {count} lies were sent");
    proxy.heal();
    wait_head(&server, geth.go_to(&payloads[at]));
    let mut comparison = Comparison::between(&server, geth.address());
    comparison.blocks(1..=at as u64 + 1);
    comparison.finish(GETH);
}
