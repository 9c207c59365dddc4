//! Random histories: a client that applies what its filter answers has exactly what the chain has.

use std::sync::Arc;

use alloy_primitives::{B256, Log};
use nearhead_chain::{block::Block, campaign, log_search::LogFilter};
use serde_json::{Value, json};

use crate::{rpc::Via, test_rng::Rng};

use super::scene::{Scene, address, log, matches, now, parsed, request, word};

const SEQUENCES: u64 = 60;

/// Which blocks a filter names.
#[derive(Clone, Copy, Debug)]
enum Scope {
    All,
    From(u64),
    Between(u64, u64),
    Of(B256),
}

/// What a client keeps.
#[derive(Debug)]
enum Held {
    /// Hashes from its first block on, after which it got each.
    Blocks(Vec<String>),
    Logs {
        filter: LogFilter,
        scope: Scope,
        logs: Vec<Value>,
    },
}

struct Client {
    id: Value,
    held: Held,
    /// The block up to which it got everything.
    knows: Arc<Block>,
}

impl Held {
    /// What a client holds that reads the whole chain.
    fn read(&mut self, chain: &[Arc<Block>]) {
        match self {
            Self::Blocks(hashes) => {
                *hashes = chain.iter().map(|block| block.hash.to_string()).collect();
            }
            Self::Logs {
                filter,
                scope,
                logs,
            } => {
                let of = |block: &&Arc<Block>| match *scope {
                    Scope::All => true,
                    Scope::From(from) => block.number() >= from,
                    Scope::Between(from, to) => (from..=to).contains(&block.number()),
                    Scope::Of(hash) => block.hash == hash,
                };
                let blocks = chain.iter().filter(of);
                *logs = blocks.flat_map(|block| matches(block, filter)).collect();
            }
        }
    }

    /// Applies one change.
    fn apply(&mut self, change: Value, scene: &[(B256, B256)]) {
        match self {
            Self::Blocks(hashes) => {
                let hash = change.as_str().unwrap().to_owned();
                assert!(!hashes.contains(&hash), "{hash} comes twice");
                let (_, parent) = scene
                    .iter()
                    .find(|(known, _)| known.to_string() == hash)
                    .unwrap();
                // It replaces what does not lead to it.
                let at = hashes.iter().position(|held| *held == parent.to_string());
                hashes.truncate(at.unwrap() + 1);
                hashes.push(hash);
            }
            Self::Logs { logs, .. } => {
                if change["removed"] == true {
                    let mut last = logs.pop().unwrap();
                    last["removed"] = true.into();
                    assert_eq!(last, change, "another log is the newest");
                } else {
                    logs.push(change);
                }
            }
        }
    }
}

/// One history: the service, its clients, and all blocks with their parents.
struct Walk {
    scene: Scene,
    rng: Rng,
    clients: Vec<Client>,
    blocks: Vec<(B256, B256)>,
    seen: Seen,
}

/// What the histories covered.
#[derive(Debug, Default)]
struct Seen {
    changes: usize,
    removed: usize,
    lost: usize,
    together: usize,
}

impl Walk {
    fn logs(&mut self) -> Vec<Log> {
        let rng = &mut self.rng;
        let mut one = || {
            let topics: Vec<usize> = (0..rng.below(4)).map(|_| rng.below(3)).collect();
            log(rng.below(3), &topics, rng.below(40))
        };
        let count = [0, 1, 2, 5][one().data.data.len() % 4];
        (0..count).map(|_| one()).collect()
    }

    async fn advance(&mut self) {
        let held = self.scene.snapshot().canonical().len();
        let reverted = match self.rng.below(8) {
            0..4 => 0,
            4..7 => self.rng.below(4).min(held - 1),
            _ => self.rng.below(held),
        };
        let most = [4, 4, 12, 150][self.rng.below(4)];
        let count = 1 + self.rng.below(most);
        let blocks = (0..count).map(|_| self.logs()).collect();
        self.scene.advance(reverted, blocks).await;
        let chain = &self.scene.chain;
        let applied = &chain[chain.len() - count..];
        let ids = applied
            .iter()
            .map(|block| (block.hash, block.header.parent_hash));
        self.blocks.extend(ids);
    }

    async fn add_client(&mut self) {
        let chain = &self.scene.chain;
        let head = chain.last().unwrap();
        let rng = &mut self.rng;
        let mut number = || (head.number() + 10).saturating_sub(rng.below(30) as u64);
        let (method, params, mut held) = match number() % 4 {
            0 => ("eth_newBlockFilter", json!([]), Held::Blocks(Vec::new())),
            _ => {
                let (one, other) = (number(), number());
                let scope = match rng.below(5) {
                    0 => Scope::From(one),
                    1 => Scope::Between(one.min(other), one.max(other)),
                    2 => Scope::Of(chain[rng.below(chain.len())].hash),
                    _ => Scope::All,
                };
                let filter = LogFilter {
                    addresses: (0..rng.below(3)).map(|_| address(rng.below(4))).collect(),
                    topics: (0..rng.below(3))
                        .map(|_| (0..rng.below(3)).map(|_| word(rng.below(4))).collect())
                        .collect(),
                };
                let mut json = json!({"address": filter.addresses, "topics": filter.topics});
                match scope {
                    Scope::All => {}
                    Scope::From(from) => json["fromBlock"] = format!("{from:#x}").into(),
                    Scope::Between(from, to) => {
                        json["fromBlock"] = format!("{from:#x}").into();
                        json["toBlock"] = format!("{to:#x}").into();
                    }
                    Scope::Of(hash) => json["blockHash"] = hash.to_string().into(),
                }
                let logs = Vec::new();
                let held = Held::Logs {
                    filter,
                    scope,
                    logs,
                };
                ("eth_newFilter", json!([json]), held)
            }
        };
        held.read(chain);
        let knows = Arc::clone(head);
        let id = self.scene.result(method, params).await;
        self.clients.push(Client { id, held, knows });
    }

    /// Whether the path from a block to the head is no longer held.
    fn is_lost(&self, knows: &Block) -> bool {
        let snapshot = self.scene.snapshot();
        let mut number = knows.number();
        let mut at = knows.hash;
        let chain = &self.scene.chain;
        let is_canonical = |number: u64, hash: B256| {
            let block = chain.get(usize::try_from(number).unwrap());
            block.is_some_and(|block| block.hash == hash)
        };
        while !is_canonical(number, at) {
            if snapshot.by_hash(&at).is_none() {
                return true;
            }
            let (_, parent) = self.blocks.iter().find(|(hash, _)| *hash == at).unwrap();
            (number, at) = (number - 1, *parent);
        }
        number + 1 < snapshot.oldest()
    }

    /// Applies an answer of eth_getFilterChanges. `was_lost` is whether the client had missed too
    /// much when it asked.
    fn receive(&mut self, at: usize, mut answer: Value, was_lost: bool) {
        let is_lost = self.is_lost(&self.clients[at].knows);
        let client = &mut self.clients[at];
        let head = self.scene.chain.last().unwrap();
        if answer["error"]["code"] == 4444 {
            let data = &answer["error"]["data"];
            assert!(is_lost, "{answer}");
            assert_eq!(data["to"], format!("{:#x}", head.number()), "{answer}");
            client.held.read(&self.scene.chain);
            client.knows = Arc::clone(head);
            self.seen.lost += 1;
            return;
        }
        assert!(!was_lost && answer["result"].is_array(), "{answer}");
        let Value::Array(changes) = answer["result"].take() else {
            return;
        };
        self.seen.changes += changes.len();
        let removed = changes.iter().filter(|change| change["removed"] == true);
        self.seen.removed += removed.count();
        for change in changes {
            client.held.apply(change, &self.blocks);
        }
    }

    /// Asks until a client has everything, and compares.
    async fn check(&mut self, at: usize) {
        let params = json!([self.clients[at].id]);
        let was_lost = self.is_lost(&self.clients[at].knows);
        let answer = self
            .scene
            .call("eth_getFilterChanges", params.clone())
            .await;
        self.receive(at, answer, was_lost);
        let again = self.scene.result("eth_getFilterChanges", params).await;
        assert_eq!(again, json!([]), "a second question at the same head");
        self.compare(at);
    }

    fn compare(&mut self, at: usize) {
        let chain = &self.scene.chain;
        let client = &mut self.clients[at];
        client.knows = Arc::clone(chain.last().unwrap());
        let oldest = self.scene.snapshot().oldest();
        match &client.held {
            Held::Blocks(hashes) => {
                let expected: Vec<_> = chain.iter().map(|block| block.hash.to_string()).collect();
                assert_eq!(hashes.last(), expected.last(), "from block {oldest} on");
                assert!(*hashes == expected);
            }
            Held::Logs { logs, .. } => {
                let held = logs.clone();
                client.held.read(chain);
                let Held::Logs { logs, scope, .. } = &client.held else {
                    return;
                };
                assert!(held == *logs, "{scope:?}\n{held:#?}\n{logs:#?}");
            }
        }
    }

    /// Several requests about one filter, between which the head may change. Their answers, in the
    /// order of their snapshots, are the answer to one.
    async fn ask_together(&mut self, at: usize) {
        let body = request("eth_getFilterChanges", &json!([self.clients[at].id])).to_string();
        let mut was_lost = self.is_lost(&self.clients[at].knows);
        let knows = Arc::clone(self.scene.chain.last().unwrap());
        let mut asked = Vec::new();
        for _ in 0..2 + self.rng.below(3) {
            let (dispatcher, key) = (self.scene.dispatcher.clone(), self.scene.keys[0].clone());
            let body = body.clone();
            asked.push(actix::spawn(async move {
                parsed(
                    dispatcher
                        .answer(&key, body.as_bytes(), now(), Via::default())
                        .await,
                )
            }));
            for _ in 0..self.rng.below(4) {
                tokio::task::yield_now().await;
            }
            let is_last = asked.len() == 3;
            if is_last && !was_lost {
                // What is asked from here on sees one block more.
                let logs = self.logs();
                self.scene.advance(0, vec![logs]).await;
                let head = self.scene.chain.last().unwrap();
                self.blocks.push((head.hash, head.header.parent_hash));
            }
        }
        for answer in asked {
            let answer = answer.await.unwrap();
            self.receive(at, answer, was_lost);
            // The error comes once.
            was_lost = false;
            self.seen.together += 1;
        }
        self.clients[at].knows = knows;
    }
}

#[actix::test]
async fn clients_hold_what_the_chain_holds() {
    let mut seen = Seen::default();
    for seed in 1..=campaign::rounds(SEQUENCES, 10) {
        let scene = Scene::start().await;
        let ids = scene
            .chain
            .iter()
            .map(|block| (block.hash, block.header.parent_hash));
        let mut walk = Walk {
            blocks: ids.collect(),
            scene,
            rng: Rng(seed),
            clients: Vec::new(),
            seen,
        };
        for _ in 0..12 {
            walk.advance().await;
            if walk.clients.len() < 6 {
                walk.add_client().await;
            }
            for at in 0..walk.clients.len() {
                match walk.rng.below(4) {
                    0 => {}
                    1 => {
                        walk.ask_together(at).await;
                        walk.check(at).await;
                    }
                    _ => walk.check(at).await,
                }
            }
        }
        for at in 0..walk.clients.len() {
            walk.check(at).await;
        }
        seen = walk.seen;
    }
    let Seen {
        changes,
        removed,
        lost,
        together,
    } = seen;
    assert!(
        changes > 10_000 && removed > 1_000 && lost > 20 && together > 300,
        "{seen:?}"
    );
}
