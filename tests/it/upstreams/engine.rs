//! A minimal consensus client: it sends blocks to a geth, and sets its head, safe and finalized
//! blocks.

use std::net::SocketAddr;

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{Geth, Payload, jwt::Secret};
use crate::harness::{self, Connection, check};

/// Drives a geth that was started at a genesis.
pub(crate) struct Engine {
    address: SocketAddr,
    secret: Secret,
}

/// A fork choice. A zero hash means unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forkchoice {
    pub(crate) head: B256,
    pub(crate) safe: B256,
    pub(crate) finalized: B256,
}

impl Engine {
    pub(crate) fn of(geth: &Geth) -> Self {
        Self {
            address: geth.engine(),
            secret: Secret::read(&geth.folder.join("geth/jwtsecret")),
        }
    }

    /// Sends blocks, parents first; the head stays where it is.
    #[track_caller]
    pub(crate) fn send_blocks(&mut self, payloads: &[Payload]) {
        for payload in payloads {
            let status = self.call(payload.method, &payload.params);
            let case = format!("{} of block {}: {status}", payload.method, payload.number);
            check(&case, &status["status"], &json!("VALID"));
            check(&case, &status["latestValidHash"], &json!(payload.hash));
        }
    }

    /// Sets head, safe and finalized, whose blocks have been sent before.
    #[track_caller]
    pub(crate) fn set_forkchoice(&mut self, forkchoice: Forkchoice) {
        let state = json!({
            "headBlockHash": forkchoice.head,
            "safeBlockHash": forkchoice.safe,
            "finalizedBlockHash": forkchoice.finalized,
        });
        let status = self.call("engine_forkchoiceUpdatedV3", &json!([state, null]));
        let case = format!("{forkchoice:?}: {status}");
        check(&case, &status["payloadStatus"]["status"], &json!("VALID"));
    }

    /// Sends blocks and makes the last one the head; safe and finalized are set to unknown, which
    /// leaves them as they are.
    #[track_caller]
    pub(crate) fn extend(&mut self, payloads: &[Payload]) {
        self.send_blocks(payloads);
        let head = payloads.last().unwrap().hash;
        self.set_forkchoice(Forkchoice {
            head,
            ..Forkchoice::default()
        });
    }

    #[track_caller]
    fn call(&mut self, method: &str, params: &Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = ["content-type: application/json", &self.secret.header()];
        // On a connection of its own: geth closes one that is idle for two minutes.
        let mut connection = Connection::open(self.address, "/");
        let request = connection.request(&headers, call.to_string().as_bytes());
        connection.send(&request);
        let response = connection.receive();
        assert_eq!(response.status, 200, "{response:?}");
        let mut answer = harness::json(&response.body);
        let result = answer.get_mut("result").map(Value::take);
        result.unwrap_or_else(|| panic!("{method}: {answer}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        harness::{scratch, vectors},
        upstreams::{Branches, of_files, quantity},
    };

    fn hash_of(connection: &mut Connection, tag: &str) -> Value {
        connection.result("eth_getBlockByNumber", &json!([tag, false]))["hash"].clone()
    }

    #[test]
    fn heads_reorgs_safe_and_finalized_are_set() {
        let chain = Branches::make("upstreams-branches", 11, 70, 60);
        let (trunk, branch) = (&chain.trunk, &chain.branch);
        let types: BTreeSet<u8> = trunk.iter().flat_map(Payload::types).collect();
        check("types", &types, &BTreeSet::from([0, 1, 2, 3, 4]));
        let folder = scratch("upstreams-engine");
        let geth = Geth::at_genesis(&folder, &chain.genesis);
        let mut engine = Engine::of(&geth);
        let mut connection = geth.connect();

        engine.extend(&trunk[..5]);
        check(
            "a head",
            &hash_of(&mut connection, "latest"),
            &json!(trunk[4].hash),
        );
        engine.extend(&trunk[5..]);
        engine.set_forkchoice(Forkchoice {
            head: trunk[69].hash,
            safe: trunk[8].hash,
            finalized: trunk[7].hash,
        });
        // The branch is known, and not canonical until it is chosen.
        engine.send_blocks(branch);
        for (tag, hash) in [
            ("latest", trunk[69].hash),
            ("safe", trunk[8].hash),
            ("finalized", trunk[7].hash),
        ] {
            check(tag, &hash_of(&mut connection, tag), &json!(hash));
        }
        let head = branch.last().unwrap();
        check("the branch is one block longer", &head.number, &71);
        engine.extend(&branch[60..]);
        check(
            "the branch",
            &hash_of(&mut connection, "latest"),
            &json!(head.hash),
        );
        check(
            "its first block",
            &hash_of(&mut connection, "0xb"),
            &json!(branch[0].hash),
        );
        check(
            "kept",
            &hash_of(&mut connection, "finalized"),
            &json!(trunk[7].hash),
        );
        // Back to the trunk, with a lower head.
        engine.set_forkchoice(Forkchoice {
            head: trunk[60].hash,
            ..Forkchoice::default()
        });
        check(
            "back",
            &hash_of(&mut connection, "latest"),
            &json!(trunk[60].hash),
        );

        // Stopped and started again, geth continues from where it stood.
        geth.process.terminate();
        assert!(geth.process.wait().0.success());
        let geth = Geth::serve(&folder);
        let hash = hash_of(&mut geth.connect(), "latest");
        check("restarted", &hash, &json!(trunk[60].hash));
        Engine::of(&geth).extend(&trunk[61..]);
        let hash = hash_of(&mut geth.connect(), "latest");
        check("extended", &hash, &json!(trunk[69].hash));
    }

    /// From Paris to the newest fork: every version of engine_newPayload.
    #[test]
    fn the_execution_apis_chain_is_taken_from_its_merge_on() {
        let genesis = vectors().join("genesis.json");
        let (before, payloads) = of_files(&genesis, &vectors().join("chain.rlp"));
        let geth = Geth::of_blocks(&scratch("upstreams-engine-merge"), &genesis, before);
        Engine::of(&geth).extend(&payloads);
        let mut connection = geth.connect();
        let head = quantity(&connection.result("eth_blockNumber", &json!([])));
        check("head", &head, &54);
        let methods: BTreeSet<_> = payloads.iter().map(|payload| payload.method).collect();
        check("versions", &methods.len(), &4);
    }
}
