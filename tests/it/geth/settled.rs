//! What a geth that is told of safe and finalized blocks answers about them, and what before that.

use serde_json::{Value, json};

use super::{Both, SETTLED};
use crate::{
    errors::calls_with_tag,
    harness::{Server, check, scratch},
    peers::{Engine, Forkchoice, Geth, of_files},
    window,
};

/// Source `files` holds that whatever a file says is settled: geth is told the same of the same blocks.
#[test]
fn safe_and_finalized() {
    let (genesis, chain) = window::export("geth-settled", &["--blocks", "20", "--seed", "5"]);
    let (_, payloads) = of_files(&genesis, &chain);
    let geth = Geth::at_genesis(&scratch(SETTLED), &genesis);
    let mut engine = Engine::of(&geth);
    engine.extend(&payloads);
    let mut both = Both::of(SETTLED, Server::files(&genesis, &chain, &[]), geth);
    let tags = ["safe", "finalized"];

    // Not known yet: refused by whatever asks, as `errors` has it of ours; geth has a code and words of its own.
    for (tag, (method, params)) in tags
        .into_iter()
        .flat_map(|tag| calls_with_tag(tag).into_iter().map(move |call| (tag, call)))
    {
        let answer = both.geth.call(method, &params);
        let case = format!("{method} {params}: {answer}");
        let message = match method {
            // Null where nothing is found, for whatever reason.
            "eth_getTransactionByBlockNumberAndIndex"
            | "eth_getUncleCountByBlockNumber"
            | "eth_getBlockTransactionCountByNumber" => Value::Null,
            _ => json!(format!("{tag} block not found")),
        };
        check(&case, &answer["error"]["message"], &message);
        check(
            &case,
            &answer.get("result").unwrap_or(&Value::Null),
            &&Value::Null,
        );
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
