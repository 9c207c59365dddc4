//! Answers about the safe and finalized blocks equal geth's, before and after geth knows them.

use serde_json::json;

use super::{GethComparison, SETTLED};
use crate::{
    errors::calls_with_tag,
    harness::{Server, check, scratch},
    upstreams::{Engine, Forkchoice, Geth, of_files},
    window,
};

/// The source `files` serves the head as safe and finalized, so geth gets the same fork choice.
#[test]
fn answers_about_safe_and_finalized_equal_geths() {
    let (genesis, chain) = window::export("geth-settled", &["--blocks", "20", "--seed", "5"]);
    let (_, payloads) = of_files(&genesis, &chain);
    let geth = Geth::at_genesis(&scratch(SETTLED), &genesis);
    let mut engine = Engine::of(&geth);
    engine.extend(&payloads);
    let mut both = GethComparison::of(SETTLED, Server::files(&genesis, &chain, &[]), geth);
    let tags = ["safe", "finalized"];

    // Until geth gets the fork choice, it refuses both tags in every method, with a code and
    // messages of its own. `errors` checks our refusals.
    // geth 1.17.4 has no eth_getBlockAccessList.
    let calls_with_tag = |tag| {
        let calls = calls_with_tag(tag).into_iter();
        calls.filter(|(method, _)| *method != "eth_getBlockAccessList")
    };
    for tag in tags {
        for (method, params) in calls_with_tag(tag) {
            let answer = both.pair.theirs.call(method, &params);
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
    engine.set_forkchoice(Forkchoice {
        head,
        safe: head,
        finalized: head,
    });
    for (method, params) in tags.into_iter().flat_map(calls_with_tag) {
        both.compare(method, params);
    }
    both.compare(
        "eth_getLogs",
        json!([{"fromBlock": "finalized", "toBlock": "safe"}]),
    );
    both.flush();
    both.finish();
}
