//! The configurations of forks: at every head of a led geth that crosses all forks, what geth says.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{follow, follow_with, http, wait_head};
use crate::{
    harness::{Pair, check, scratch, vectors},
    upstreams::{Engine, Forkchoice, Geth, of_files},
};

/// From Paris, which has no configuration, to BPO2.
#[test]
fn the_configurations_of_a_driven_geth_are_geths() {
    let genesis = vectors().join("genesis.json");
    let (before, payloads) = of_files(&genesis, &vectors().join("chain.rlp"));
    let geth = Geth::of_blocks(&scratch("node-config"), &genesis, before);
    let mut engine = Engine::of(&geth);
    let urls = [http(geth.address)];
    let server = follow_with(&urls, &["--genesis", genesis.to_str().unwrap()]);
    let mut pair = Pair {
        ours: server.connect(),
        theirs: geth.connect(),
    };
    let (mut current, mut next) = (BTreeSet::new(), BTreeSet::new());
    for payload in &payloads {
        engine.send_blocks(std::slice::from_ref(payload));
        engine.set_forkchoice(Forkchoice {
            head: payload.hash,
            ..Forkchoice::default()
        });
        wait_head(&server, (payload.number, payload.hash));
        let [ours, theirs] = &pair.batch([("eth_config", &json!([]))])[0];
        check(&format!("eth_config at {}", payload.number), ours, theirs);
        current.insert(ours["result"]["current"].to_string());
        next.insert(ours["result"]["next"].to_string());
    }
    check("configurations", &[current.len(), next.len()], &[7; 2]);
    assert!(current.contains("null") && next.contains("null"));

    // Where the rules are not known, the method is refused as calls are.
    let server = follow(&urls);
    let mut unknown = server.connect();
    let refused = unknown.call("eth_config", &json!([]));
    let call = unknown.call("eth_call", &json!([{}]));
    check("refused", &refused, &call);
    check("code", &refused["error"]["code"], &json!(-32_000));
    check("result", &refused["result"], &Value::Null);
}
