//! What a geth that is told of safe and finalized blocks answers about them, and what before that.

use serde_json::json;

use super::{Both, SETTLED};
use crate::{
    errors::calls_with_tag,
    harness::{Server, check, scratch},
    peers::{Engine, Forkchoice, Geth, of_files},
    window,
};

/// Source `files` holds that whatever a file says is settled: geth is told the same of the same
/// blocks.
#[test]
fn safe_and_finalized() {
    let (genesis, chain) = window::export("geth-settled", &["--blocks", "20", "--seed", "5"]);
    let (_, payloads) = of_files(&genesis, &chain);
    let geth = Geth::at_genesis(&scratch(SETTLED), &genesis);
    let mut engine = Engine::of(&geth);
    engine.extend(&payloads);
    let mut both = Both::of(SETTLED, Server::files(&genesis, &chain, &[]), geth);
    let tags = ["safe", "finalized"];

    // Not known yet: refused by whatever asks, as `errors` has it of ours; geth has a code and
    // words of its own.
    for tag in tags {
        for (method, params) in calls_with_tag(tag) {
            let answer = both.geth.call(method, &params);
            let sought = match method {
                "eth_getLogs" => "header",
                _ => "block",
            };
            let error = json!({"code": -32000, "message": format!("{tag} {sought} not found")});
            let expected = json!({"jsonrpc": "2.0", "id": 1, "error": error});
            check(&format!("{method} {params}"), &answer, &expected);
        }
    }

    let head = payloads.last().unwrap().hash;
    engine.choose(Forkchoice {
        head,
        safe: head,
        finalized: head,
    });
    for (method, params) in tags.into_iter().flat_map(calls_with_tag) {
        both.same(method, params);
    }
    both.same(
        "eth_getLogs",
        json!([{"fromBlock": "finalized", "toBlock": "safe"}]),
    );
    both.flush();
    both.finish();
}
