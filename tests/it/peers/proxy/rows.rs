//! Every lie that could be told of an answer: the table of a test is made of what real nodes say.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Change, Lie};
use crate::harness::Connection;

/// A call and what a node has answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) result: Value,
}

impl Recorded {
    pub(crate) fn of(node: &mut Connection, method: &'static str, params: Value) -> Self {
        let result = node.result(method, &params);
        Self {
            method,
            params,
            result,
        }
    }

    /// What a node says of a block: the block, its receipts together and one by one, its ommers.
    pub(crate) fn of_block(node: &mut Connection, number: u64) -> Vec<Self> {
        let number = json!(format!("{number:#x}"));
        let block = Self::of(node, "eth_getBlockByNumber", json!([number, true]));
        let hash = &block.result["hash"];
        let mut recorded = vec![Self::of(node, "eth_getBlockReceipts", json!([hash]))];
        for transaction in block.result["transactions"].as_array().unwrap() {
            let params = json!([transaction["hash"]]);
            recorded.push(Self::of(node, "eth_getTransactionReceipt", params));
        }
        for index in 0..block.result["uncles"].as_array().unwrap().len() {
            let params = json!([hash, format!("{index:#x}")]);
            recorded.push(Self::of(node, "eth_getUncleByBlockHashAndIndex", params));
        }
        recorded.push(block);
        recorded
    }

    /// What a node says of an account at a block.
    pub(crate) fn of_account(
        node: &mut Connection,
        address: &str,
        slots: &[Value],
        block: &Value,
    ) -> Vec<Self> {
        vec![
            Self::of(node, "eth_getProof", json!([address, slots, block])),
            Self::of(node, "eth_getCode", json!([address, block])),
        ]
    }

    /// The methods that answer the same, and what tells this answer from theirs about something
    /// else.
    fn told_by(&self) -> (&'static [&'static str], String) {
        let (methods, path): (&[_], _) = match self.method {
            "eth_getBlockByNumber" | "eth_getBlockByHash" => {
                (&["eth_getBlockByNumber", "eth_getBlockByHash"], "/hash")
            }
            "eth_getUncleByBlockHashAndIndex" | "eth_getUncleByBlockNumberAndIndex" => (
                &[
                    "eth_getUncleByBlockHashAndIndex",
                    "eth_getUncleByBlockNumberAndIndex",
                ],
                "/hash",
            ),
            "eth_getBlockReceipts" => (&["eth_getBlockReceipts"], "/0/blockHash"),
            "eth_getTransactionReceipt" => (&["eth_getTransactionReceipt"], "/transactionHash"),
            // The root's node: proofs of one account at two blocks are not one.
            "eth_getProof" => (&["eth_getProof"], "/accountProof/0"),
            "eth_getCode" => (&["eth_getCode"], ""),
            "eth_subscription" => (&["eth_subscription"], "/hash"),
            other => panic!("{other}: nobody has said what tells its answers apart"),
        };
        (methods, path.to_owned())
    }
}

/// Every change of every member of these answers, each once: of blocks, transactions, receipts and
/// logs that look alike, one is lied about.
pub(crate) fn lies(recorded: &[Recorded]) -> Vec<Lie> {
    let mut seen = HashSet::new();
    let mut lies = Vec::new();
    for one in recorded {
        let (methods, path) = one.told_by();
        let only = one.result.pointer(&path).cloned();
        let mut places = Vec::new();
        let kind = format!("{}{}", one.method, look(&one.result));
        visit(String::new(), kind, &one.result, &mut places);
        for (place, kind) in places {
            for change in Change::ALL {
                let lie = Lie {
                    methods,
                    only: only.clone().map(|value| (path.clone(), value)),
                    path: place.clone(),
                    change,
                };
                // A member that was null and is not there says the same.
                let is_null = one.result.pointer(&place) == Some(&Value::Null);
                let says_the_same = is_null && change == Change::Removed;
                if !says_the_same && lie.changes(&one.result) && seen.insert((kind.clone(), change))
                {
                    lies.push(lie);
                }
            }
        }
    }
    lies
}

/// A shorter table: of each member one change, another one from member to member, and of arrays all
/// changes of their items.
pub(crate) fn one_a_member(lies: &[Lie]) -> Vec<Lie> {
    let members = lies.chunk_by(|a, b| (&a.only, &a.path) == (&b.only, &b.path));
    let chosen = members.enumerate().flat_map(|(at, changes)| {
        let chosen = at % changes.len();
        let changes = changes.iter().enumerate();
        changes.filter(move |(index, lie)| *index == chosen || lie.change.is_of_items())
    });
    chosen.map(|(_, lie)| lie.clone()).collect()
}

/// The places of a value and of everything in it, each with what it is a case of.
fn visit(path: String, kind: String, value: &Value, places: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let (path, kind) = (format!("{path}/{name}"), format!("{kind}/{name}"));
                visit(path, kind, member, places);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                // The first and the last of items without members: what lies between them is no
                // other case.
                let end = match item {
                    Value::Object(_) => "",
                    _ if at == 0 => "first",
                    _ if at + 1 == items.len() => "last",
                    _ => continue,
                };
                let kind = format!("{kind}/{end}{}", look(item));
                visit(format!("{path}/{at}"), kind, item, places);
            }
        }
        _ => {}
    }
    places.push((path, kind));
}

/// What tells the kinds of an object apart: its type, its members, which of them are null or empty.
fn look(item: &Value) -> String {
    let members = item.as_object().into_iter().flatten();
    let members = members.map(|(name, value)| match (name.as_str(), value) {
        ("type", kind) => format!(" type {kind}"),
        (name, Value::Null) => format!(" no {name}"),
        (name, Value::Array(items)) if items.is_empty() => format!(" empty {name}"),
        (name, _) => format!(" {name}"),
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ops::RangeInclusive};

    use alloy_primitives::B256;
    use nearhead_chain::dev::STORE_CONTRACT;

    use super::*;
    use crate::{
        harness::{check, scratch, vectors},
        peers::{
            Geth, anvil_with_traffic,
            proxy::{Fault, Proxy},
        },
        window,
    };

    /// What a node says of a block and of the account that has code and deep storage.
    fn of_dev_chain(node: &mut Connection, blocks: RangeInclusive<u64>) -> Vec<Recorded> {
        let store = format!("{STORE_CONTRACT:#x}");
        let block = json!(format!("{:#x}", blocks.end()));
        let filter = json!([{"fromBlock": "0x1", "toBlock": block, "address": store}]);
        let logs = node.result("eth_getLogs", &filter);
        // The store tells of the key that it writes to. Keys are written out: anvil takes no short
        // ones.
        let slots = [logs[0]["data"].clone(), json!(B256::repeat_byte(0xff))];
        let recorded = blocks.map(|number| Recorded::of_block(node, number));
        let mut recorded: Vec<Recorded> = recorded.flatten().collect();
        recorded.extend(Recorded::of_account(node, &store, &slots, &block));
        recorded
    }

    /// How many lies there are by method, and how many changes of each kind.
    fn count(lies: &[Lie]) -> (BTreeMap<&str, usize>, usize) {
        let mut methods = BTreeMap::new();
        for lie in lies {
            *methods.entry(lie.methods[0]).or_default() += 1;
        }
        let changes: HashSet<Change> = lies.iter().map(|lie| lie.change).collect();
        (methods, changes.len())
    }

    /// Has a proxy tell one lie of each change in each method: it is told in that answer, and in no
    /// other one.
    fn check_told(proxy: &Proxy, node: &mut Connection, recorded: &[Recorded]) {
        let mut seen = HashSet::new();
        let told = recorded.iter().flat_map(|one| {
            let lies = lies(std::slice::from_ref(one));
            lies.into_iter().map(move |lie| (one, lie))
        });
        for (one, lie) in told {
            if !seen.insert((one.method, lie.change)) {
                continue;
            }
            let case = format!("{lie:?}");
            proxy.fail(vec![Fault::Lie(lie)]);
            let answer = node.call(one.method, &one.params);
            assert_ne!(answer.get("result"), Some(&one.result), "{case}");
            check(&case, &proxy.applied(), &1);
            let another = recorded
                .iter()
                .find(|another| another.method != one.method)
                .unwrap();
            let again = node.result(another.method, &another.params);
            check(&case, &again, &another.result);
        }
        assert!(seen.len() > 20, "{} lies", seen.len());
    }

    #[test]
    fn every_member_of_what_nodes_say_is_lied_about() {
        let (genesis, chain) = window::export("peers-rows", &["--blocks", "12", "--seed", "3"]);
        let geth = Geth::start(&scratch("peers-rows"), &genesis, &chain);
        let proxy = Proxy::to(&[geth.address]);
        let mut node = Connection::open(proxy.address, "/");
        let mut recorded = of_dev_chain(&mut node, 10..=12);
        check_told(&proxy, &mut node, &recorded);

        let [genesis, chain] = ["genesis.json", "chain.rlp"].map(|name| vectors().join(name));
        let geth = Geth::start(&scratch("peers-rows-ommer"), &genesis, &chain);
        recorded.extend(Recorded::of_block(&mut geth.connect(), 3));
        let of_geth: Vec<Lie> = lies(&recorded);
        let (methods, changes) = count(&of_geth);
        println!("geth: {methods:?}");
        check("changes", &changes, &Change::ALL.len());
        for (method, least) in [
            ("eth_getBlockByNumber", 400),
            ("eth_getBlockReceipts", 200),
            ("eth_getTransactionReceipt", 200),
            ("eth_getUncleByBlockHashAndIndex", 80),
            ("eth_getProof", 60),
            ("eth_getCode", 4),
        ] {
            assert!(methods[method] >= least, "{method}: {}", methods[method]);
        }
        let short = one_a_member(&of_geth);
        println!("one a member: {:?}", count(&short));
        check("changes", &count(&short).1, &Change::ALL.len());
        assert!((250..1_500).contains(&short.len()), "{}", short.len());
        let places = short.iter().map(|lie| lie.path.as_str());
        let members: HashSet<&str> = places.flat_map(|path| path.rsplit('/').next()).collect();
        for member in "stateRoot withdrawals validatorIndex yParity accessList storageKeys \
                       authorizationList blobVersionedHashes maxFeePerBlobGas topics data logIndex \
                       blobGasPrice contractAddress uncles storageProof accountProof codeHash value"
            .split_whitespace()
        {
            assert!(members.contains(member), "nobody lies about {member}");
        }

        let anvil = anvil_with_traffic("peers-rows-anvil", 3, 5);
        let recorded = of_dev_chain(&mut anvil.connect(), 3..=5);
        let of_anvil: Vec<Lie> = lies(&recorded);
        println!("anvil: {:?}", count(&of_anvil));
        assert!(of_anvil.len() >= 250, "{}", of_anvil.len());
    }
}
