//! Every possible lie about an answer: tests make their tables from what real upstreams answer.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Change, Lie};
use crate::harness::Connection;

/// A call and its answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) result: Value,
}

impl Recorded {
    pub(crate) fn of(upstream: &mut Connection, method: &'static str, params: Value) -> Self {
        let result = upstream.result(method, &params);
        Self {
            method,
            params,
            result,
        }
    }

    /// An upstream's answers about a block: the block, its receipts together and one by one, its
    /// ommers.
    pub(crate) fn of_block(upstream: &mut Connection, number: u64) -> Vec<Self> {
        let number = json!(format!("{number:#x}"));
        let block = Self::of(upstream, "eth_getBlockByNumber", json!([number, true]));
        let hash = &block.result["hash"];
        let mut recorded = vec![Self::of(upstream, "eth_getBlockReceipts", json!([hash]))];
        for transaction in block.result["transactions"].as_array().unwrap() {
            let params = json!([transaction["hash"]]);
            recorded.push(Self::of(upstream, "eth_getTransactionReceipt", params));
        }
        for index in 0..block.result["uncles"].as_array().unwrap().len() {
            let params = json!([hash, format!("{index:#x}")]);
            recorded.push(Self::of(
                upstream,
                "eth_getUncleByBlockHashAndIndex",
                params,
            ));
        }
        recorded.push(block);
        recorded
    }

    /// An upstream's answers about an account at a block.
    pub(crate) fn of_account(
        upstream: &mut Connection,
        address: &str,
        slots: &[Value],
        block: &Value,
    ) -> Vec<Self> {
        vec![
            Self::of(upstream, "eth_getProof", json!([address, slots, block])),
            Self::of(upstream, "eth_getCode", json!([address, block])),
        ]
    }

    /// The methods that return this object, and the path of the value that identifies it among
    /// their answers.
    fn identified_by(&self) -> (&'static [&'static str], String) {
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
            // The root node, which differs between two blocks.
            "eth_getProof" => (&["eth_getProof"], "/accountProof/0"),
            "eth_getCode" => (&["eth_getCode"], ""),
            "eth_subscription" => (&["eth_subscription"], "/hash"),
            other => panic!("{other}: no path identifies its answers"),
        };
        (methods, path.to_owned())
    }
}

/// Every change of every member of these answers. Of several blocks, transactions, receipts or logs
/// with the same members, only the first is lied about.
pub(crate) fn lies(recorded: &[Recorded]) -> Vec<Lie> {
    let mut seen = HashSet::new();
    let mut lies = Vec::new();
    for answered in recorded {
        let (methods, path) = answered.identified_by();
        let only = answered.result.pointer(&path).cloned();
        let mut places = Vec::new();
        let kind = format!("{}{}", answered.method, shape(&answered.result));
        visit(String::new(), kind, &answered.result, &mut places);
        for (place, kind) in places {
            for change in Change::ALL {
                let lie = Lie {
                    methods,
                    only: only.clone().map(|value| (path.clone(), value)),
                    path: place.clone(),
                    change,
                };
                // An absent member means the same as null.
                let is_null = answered.result.pointer(&place) == Some(&Value::Null);
                let is_unchanged = is_null && change == Change::Removed;
                if !is_unchanged
                    && lie.changes(&answered.result)
                    && seen.insert((kind.clone(), change))
                {
                    lies.push(lie);
                }
            }
        }
    }
    lies
}

/// A shorter table: one change of each member, which varies from member to member, and all changes
/// of the items of arrays.
pub(crate) fn one_per_member(lies: &[Lie]) -> Vec<Lie> {
    let members = lies.chunk_by(|a, b| (&a.only, &a.path) == (&b.only, &b.path));
    let chosen = members.enumerate().flat_map(|(at, changes)| {
        let chosen = at % changes.len();
        let changes = changes.iter().enumerate();
        changes.filter(move |(index, lie)| *index == chosen || lie.change.is_of_items())
    });
    chosen.map(|(_, lie)| lie.clone()).collect()
}

/// The paths of a value and of everything in it, each with its kind. Places of one kind are one
/// case.
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
                // Items without members: only the first and the last, because the others are no new
                // case.
                let end = match item {
                    Value::Object(_) => "",
                    _ if at == 0 => "first",
                    _ if at + 1 == items.len() => "last",
                    _ => continue,
                };
                let kind = format!("{kind}/{end}{}", shape(item));
                visit(format!("{path}/{at}"), kind, item, places);
            }
        }
        _ => {}
    }
    places.push((path, kind));
}

/// What distinguishes kinds of objects: the type, the members, and which of them are null or empty.
fn shape(item: &Value) -> String {
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
        upstreams::{
            Geth, anvil_with_traffic,
            proxy::{Fault, Proxy},
        },
        window,
    };

    /// An upstream's answers about blocks and about the account that has code and deep storage.
    fn of_dev_chain(upstream: &mut Connection, blocks: RangeInclusive<u64>) -> Vec<Recorded> {
        let store = format!("{STORE_CONTRACT:#x}");
        let block = json!(format!("{:#x}", blocks.end()));
        let filter = json!([{"fromBlock": "0x1", "toBlock": block, "address": store}]);
        let logs = upstream.result("eth_getLogs", &filter);
        // The store contract logs the key that it writes to. Keys are written in full: anvil takes
        // no short ones.
        let slots = [logs[0]["data"].clone(), json!(B256::repeat_byte(0xff))];
        let recorded = blocks.map(|number| Recorded::of_block(upstream, number));
        let mut recorded: Vec<Recorded> = recorded.flatten().collect();
        recorded.extend(Recorded::of_account(upstream, &store, &slots, &block));
        recorded
    }

    /// The number of lies by method, and how many kinds of changes there are.
    fn count(lies: &[Lie]) -> (BTreeMap<&str, usize>, usize) {
        let mut methods = BTreeMap::new();
        for lie in lies {
            *methods.entry(lie.methods[0]).or_default() += 1;
        }
        let changes: HashSet<Change> = lies.iter().map(|lie| lie.change).collect();
        (methods, changes.len())
    }

    /// Applies one lie of each change to each method, and checks that it changes that answer and no
    /// other.
    fn check_applied(proxy: &Proxy, upstream: &mut Connection, recorded: &[Recorded]) {
        let mut seen = HashSet::new();
        let cases = recorded.iter().flat_map(|answered| {
            let lies = lies(std::slice::from_ref(answered));
            lies.into_iter().map(move |lie| (answered, lie))
        });
        for (answered, lie) in cases {
            if !seen.insert((answered.method, lie.change)) {
                continue;
            }
            let case = format!("{lie:?}");
            proxy.fail(vec![Fault::Lie(lie)]);
            let answer = upstream.call(answered.method, &answered.params);
            assert_ne!(answer.get("result"), Some(&answered.result), "{case}");
            check(&case, &proxy.applied(), &1);
            let another = recorded
                .iter()
                .find(|another| another.method != answered.method)
                .unwrap();
            let again = upstream.result(another.method, &another.params);
            check(&case, &again, &another.result);
        }
        assert!(seen.len() > 20, "{} lies", seen.len());
    }

    #[test]
    fn every_member_of_an_answer_is_lied_about() {
        let (genesis, chain) = window::export("upstreams-rows", &["--blocks", "12", "--seed", "3"]);
        let geth = Geth::start(&scratch("upstreams-rows"), &genesis, &chain);
        let proxy = Proxy::to(&[geth.address]);
        let mut upstream = Connection::open(proxy.address, "/");
        let mut recorded = of_dev_chain(&mut upstream, 10..=12);
        check_applied(&proxy, &mut upstream, &recorded);

        let [genesis, chain] = ["genesis.json", "chain.rlp"].map(|name| vectors().join(name));
        let geth = Geth::start(&scratch("upstreams-rows-ommer"), &genesis, &chain);
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
        let short = one_per_member(&of_geth);
        println!("one per member: {:?}", count(&short));
        check("changes", &count(&short).1, &Change::ALL.len());
        assert!((250..1_500).contains(&short.len()), "{}", short.len());
        let places = short.iter().map(|lie| lie.path.as_str());
        let members: HashSet<&str> = places.flat_map(|path| path.rsplit('/').next()).collect();
        for member in "stateRoot withdrawals validatorIndex yParity accessList storageKeys \
                       authorizationList blobVersionedHashes maxFeePerBlobGas topics data logIndex \
                       blobGasPrice contractAddress uncles storageProof accountProof codeHash value"
            .split_whitespace()
        {
            assert!(members.contains(member), "no lie about {member}");
        }

        let anvil = anvil_with_traffic("upstreams-rows-anvil", 3, 5);
        let recorded = of_dev_chain(&mut anvil.connect(), 3..=5);
        let of_anvil: Vec<Lie> = lies(&recorded);
        println!("anvil: {:?}", count(&of_anvil));
        assert!(of_anvil.len() >= 250, "{}", of_anvil.len());
    }
}
