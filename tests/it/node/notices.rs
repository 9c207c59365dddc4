//! Lies in the heads that a node tells a session of, unasked: they lead to a question, and nothing
//! of them is served.

use serde_json::json;

use super::{
    follow, head, led,
    led::Led,
    same::{GETH, Same},
    wait_head, ws,
};
use crate::{
    harness::{KEY, check, wait_until},
    peers::proxy::{Change, Fault, Lie, Proxy, rows, rows::Recorded},
    websocket::client::Client,
};

#[test]
fn every_member_of_a_head() {
    let (genesis, payloads) = led::chain("node-notices", 71, 80);
    let mut geth = Led::at("node-notices-geth", &genesis, &payloads);
    geth.go_to(&payloads[0]);
    let mut session = Client::open(geth.address(), "/");
    session.call("eth_subscribe", &json!(["newHeads"]));
    geth.go_to(&payloads[1]);
    let told = Recorded {
        method: "eth_subscription",
        params: json!(["newHeads"]),
        result: session.notification()["result"].clone(),
    };
    let all = rows::lies(std::slice::from_ref(&told));
    // Members that lead to a question in every way, the others in one.
    let leads = |lie: &Lie| {
        let members = ["/number", "/hash", "/parentHash", "/timestamp", ""];
        members.contains(&lie.path.as_str())
    };
    let mut lies: Vec<Lie> = all.iter().filter(|lie| leads(lie)).cloned().collect();
    let rest = rows::one_a_member(&all);
    lies.extend(rest.into_iter().filter(|lie| !leads(lie)));
    // The hash of a block that there is, of another number.
    let known: &str = json!(payloads[0].hash).to_string().leak();
    for path in ["/hash", "/parentHash"] {
        lies.push(Lie {
            methods: &["eth_subscription"],
            only: None,
            path: path.into(),
            change: Change::Becomes(known),
        });
    }
    assert!((30..70).contains(&lies.len()), "{} lies", lies.len());

    let proxy = Proxy::to(&[geth.address()]);
    let server = follow(&[ws(proxy.address)]);
    let mut ours = server.connect();
    let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
    for subject in ["newHeads", "reorgs"] {
        session.call("eth_subscribe", &json!([subject]));
    }
    let (count, mut told, mut at) = (lies.len(), 0, 2);
    for mut lie in lies {
        // Of every head from now on.
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
        let notice = session.notification()["result"].clone();
        check(&case, &notice["hash"], &json!(wanted.1));
        check(&case, &notice["parentHash"], &json!(before.1));
        told += usize::from(proxy.applied() > 0);
    }
    // A head that cannot be read ends the subscription: what comes before the next one is not told.
    println!("{told} of {count} lies were told");
    assert!(2 * told > count, "{told} of {count} lies were told");
    proxy.heal();
    wait_head(&server, geth.go_to(&payloads[at]));
    let mut same = Same::between(&server, geth.address());
    same.blocks(1..=at as u64 + 1);
    same.finish(GETH);
}
