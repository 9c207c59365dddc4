//! Accounts, slots, codes and proofs of every block of the window, fetched from upstreams: they
//! equal the upstream's, they verify against the header, and a lie about them is not served.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Mutex,
};

use alloy_primitives::B256;
use nearhead_chain::dev::STORE_CONTRACT;
use serde_json::{Value, json};

use super::{
    chain_of_execution_apis, driven_geth, driven_geth::DrivenGeth, faults, follow, follow_with,
    head, http, refuted, wait_head, wait_logged, ws,
};
use crate::{
    geth::{FOLLOWED_DEV, FOLLOWED_EXECUTION_APIS, compare_followed},
    harness::{Connection, check, vectors, wait_until},
    proofs,
    upstreams::{
        Payload, anvil_with_traffic,
        proxy::{Change, Fault, Lie, Proxy, Refusal, rows, rows::Recorded},
    },
};

#[test]
fn the_state_of_the_execution_apis_chain_equals_geths() {
    let geth = chain_of_execution_apis("node-state-execution-apis", 54);
    let genesis = vectors().join("genesis.json");
    // Calls are run where the rules of the chain are known.
    let rules = ["--genesis", genesis.to_str().unwrap()];
    let server = follow_with(&[http(geth.address)], &rules);
    compare_followed(FOLLOWED_EXECUTION_APIS, &genesis, server, geth);
}

#[test]
fn the_state_of_a_driven_geth_equals_geths() {
    let (genesis, payloads) = driven_geth::chain("node-state-driven", 7, 150);
    let mut geth = DrivenGeth::at("node-state-driven-geth", &genesis, &payloads);
    let wanted = geth.go_to(&payloads[149]);
    let rules = ["--genesis", genesis.to_str().unwrap()];
    let server = follow_with(&[ws(geth.address())], &rules);
    wait_head(&server, wanted);
    compare_followed(FOLLOWED_DEV, &genesis, server, geth.geth);
}

/// anvil proves less than geth: what it proves is verified, and served unchanged.
#[test]
fn the_state_of_an_anvil_is_verified_and_equal() {
    let anvil = anvil_with_traffic("node-state-anvil", 53, 30);
    let server = follow(&[http(anvil.address)]);
    let (mut ours, mut upstream) = (server.connect(), anvil.connect());
    let store = format!("{STORE_CONTRACT:#x}");
    for number in 1..=30 {
        let height = format!("{number:#x}");
        let block = ours.result("eth_getBlockByNumber", &json!([height, false]));
        let slots: Vec<B256> = (0..6_u64)
            .map(|slot| B256::left_padding_from(&slot.to_be_bytes()))
            .collect();
        for address in [&store, &format!("0x{}", "77".repeat(20))] {
            // anvil keeps cleared slots with a zero, so only its account proofs verify.
            let params = json!([address, [], height]);
            let proof = ours.result("eth_getProof", &params);
            proofs::verify(&params, &proof, proofs::state_root(&block));
            let params = json!([address, slots, height]);
            let [proof, theirs] = [&mut ours, &mut upstream].map(|connection| {
                let answer = connection.result("eth_getProof", &params);
                answer["storageProof"].clone()
            });
            let values_of = |proof: &Value, member: &str| -> Vec<Value> {
                let slots = proof.as_array().unwrap().iter();
                slots.map(|slot| slot[member].clone()).collect()
            };
            // For empty storage anvil sends an empty string as the proof, where no proof is needed.
            let is_empty = address != &store;
            for member in ["value", "proof"]
                .into_iter()
                .take(if is_empty { 1 } else { 2 })
            {
                let case = format!("{params}: {member}");
                check(
                    &case,
                    &values_of(&proof, member),
                    &values_of(&theirs, member),
                );
            }
            for method in ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"] {
                let params = json!([address, height]);
                let theirs = upstream.result(method, &params);
                check(
                    &format!("{method} {params}"),
                    &ours.result(method, &params),
                    &theirs,
                );
            }
            for slot in &slots {
                let params = json!([address, slot, height]);
                let [ours, theirs] = [&mut ours, &mut upstream]
                    .map(|connection| connection.result("eth_getStorageAt", &params));
                check(&params.to_string(), &ours, &theirs);
            }
        }
    }
}

/// A chain, and its upstream's answers about an account that has code and storage.
pub(super) struct StateFixture {
    geth: DrivenGeth,
    payloads: Vec<Payload>,
    pub(super) recorded: Vec<Recorded>,
}

impl StateFixture {
    pub(super) fn make(name: &str) -> Self {
        let (genesis, payloads) = driven_geth::chain(name, 3, 12);
        let mut geth = DrivenGeth::at(&format!("{name}-geth"), &genesis, &payloads);
        geth.go_to(&payloads[11]);
        let mut upstream = geth.connect();
        let store = format!("{STORE_CONTRACT:#x}");
        let filter = json!([{"fromBlock": "0x1", "toBlock": "0xc", "address": store}]);
        let logs = upstream.result("eth_getLogs", &filter);
        // The store contract logs the key that it writes to. One slot holds a value, the other
        // none.
        let slots = [logs[0]["data"].clone(), json!(B256::repeat_byte(0xff))];
        let recorded = Recorded::of_account(&mut upstream, &store, &slots, &json!("0xc"));
        Self {
            geth,
            payloads,
            recorded,
        }
    }

    /// One lie about each member of the recorded answers.
    pub(super) fn lies(&self) -> Vec<Lie> {
        rows::one_per_member(&rows::lies(&self.recorded))
    }

    /// The calls that make nearhead fetch the recorded answers, and their true results.
    fn calls(&self) -> Vec<(&'static str, Value, Value)> {
        let [proof, code] = &self.recorded[..] else {
            panic!("not a proof and a code");
        };
        let params = &proof.params;
        let key = |at: usize| json!([params[0], params[1][at], params[2]]);
        let account = json!([params[0], params[2]]);
        let word = |at: usize| {
            let value = proof.result["storageProof"][at]["value"].as_str().unwrap();
            let value: alloy_primitives::U256 = value.parse().unwrap();
            json!(B256::from(value))
        };
        vec![
            ("eth_getProof", params.clone(), proof.result.clone()),
            ("eth_getCode", code.params.clone(), code.result.clone()),
            (
                "eth_getBalance",
                account.clone(),
                proof.result["balance"].clone(),
            ),
            (
                "eth_getTransactionCount",
                account,
                proof.result["nonce"].clone(),
            ),
            ("eth_getStorageAt", key(0), word(0)),
            ("eth_getStorageAt", key(1), word(1)),
        ]
    }
}

/// Makes all calls; each answer is true or an error. Returns whether all are true.
fn check_answers(ours: &mut Connection, calls: &[(&str, Value, Value)], case: &str) -> bool {
    let answers = calls.iter().map(|(method, params, truth)| {
        let answer = ours.call(method, params);
        let case = format!("{case}: {method} {params}: {answer}");
        match answer.get("result") {
            Some(result) => check(&case, result, truth),
            None => check(&case, &answer["error"]["code"], &json!(-32000)),
        }
        answer.get("result").is_some()
    });
    answers.filter(|is_true| !is_true).count() == 0
}

#[test]
fn a_lie_about_any_member_of_a_proof_or_code_is_detected() {
    let fixture = StateFixture::make("node-state-liar");
    let calls = fixture.calls();
    let lies = fixture.lies();
    assert!(lies.len() >= 20, "{} lies", lies.len());
    let count = lies.len();
    // Every other lie is sent over WebSocket.
    let urls: [fn(SocketAddr) -> String; 2] = [http, ws];
    let waiting = lies.into_iter().zip(urls.into_iter().cycle());
    let waiting = Mutex::new(waiting.collect::<Vec<_>>());
    let reasons: Mutex<BTreeMap<String, usize>> = Mutex::default();
    let missed: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some((lie, url)) = { waiting.lock().unwrap().pop() } {
                    let case = format!("{lie:?}");
                    match detect(&fixture, &calls, lie, url) {
                        Some(reason) => {
                            *reasons.lock().unwrap().entry(reason).or_default() += 1;
                        }
                        None => missed.lock().unwrap().push(case),
                    }
                }
            });
        }
    });
    println!("{count} lies: {:?}", reasons.lock().unwrap());
    check("missed", &*missed.lock().unwrap(), &Vec::new());
}

/// The reason of the fault by which a lie is detected; `None` if it is not.
fn detect(
    fixture: &StateFixture,
    calls: &[(&str, Value, Value)],
    lie: Lie,
    url: fn(SocketAddr) -> String,
) -> Option<String> {
    let case = format!("{lie:?}");
    let proxy = Proxy::to(&[fixture.geth.address()]);
    proxy.fail(vec![Fault::Lie(lie)]);
    let server = follow(&[url(proxy.address)]);
    let mut ours = server.connect();
    let mut reason = None;
    for _ in 0..40 {
        check_answers(&mut ours, calls, &case);
        reason = refuted(&server, 0).into_keys().next();
        if reason.is_some() && proxy.applied() > 0 {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(25));
    }
    proxy.heal();
    wait_until(&case, || check_answers(&mut ours, calls, &case));
    reason
}

/// The next upstream is asked when one lies: the first answer is already true.
#[test]
fn the_next_upstream_is_asked() {
    let fixture = StateFixture::make("node-state-next");
    let calls = fixture.calls();
    let all = rows::lies(&fixture.recorded);
    let mut seen = BTreeSet::new();
    let lies = all
        .into_iter()
        .filter(|lie| seen.insert((lie.methods[0], format!("{:?}", lie.change))));
    let lies: Vec<Lie> = lies.take(8).collect();
    std::thread::scope(|scope| {
        for lie in lies {
            scope.spawn(|| {
                let case = format!("{lie:?}");
                let proxies = [0, 1].map(|_| Proxy::to(&[fixture.geth.address()]));
                // Either of the two may be followed.
                proxies[0].fail(vec![Fault::Lie(lie)]);
                let urls = proxies.each_ref().map(|proxy| http(proxy.address));
                let server = follow(&urls);
                let mut ours = server.connect();
                assert!(check_answers(&mut ours, &calls, &case), "{case}: an error");
                let wanted = (12, fixture.payloads[11].hash);
                check(&case, &head(&mut ours), &wanted);
            });
        }
    });
}

/// An upstream without eth_getProof, or without the state of a block, is followed; state calls are
/// refused and the reason is logged.
#[test]
fn an_upstream_without_proofs_is_followed() {
    let fixture = StateFixture::make("node-state-none");
    let calls = fixture.calls();
    let forgotten = Lie::about(&["eth_getProof"], "", Change::Null);
    for (fault, logged) in [
        (
            Fault::Refuse(Some("eth_getProof"), Refusal::NoMethod),
            "the node has no eth_getProof: it is not asked for proofs",
        ),
        (
            Fault::Lie(forgotten),
            "the node does not have the state of a served block: it may be pruned",
        ),
    ] {
        let proxy = Proxy::to(&[fixture.geth.address()]);
        proxy.fail(vec![fault]);
        let server = follow(&[http(proxy.address)]);
        let mut ours = server.connect();
        for (method, params, _) in &calls {
            let answer = ours.call(method, params);
            let error =
                json!({"code": -32000, "message": "state not available from the configured nodes"});
            check(&format!("{method} {params}"), &answer["error"], &error);
        }
        check("faults", &faults(&server, 0).len(), &0);
        wait_logged(&server, logged);
        // With a second upstream the state is available.
        let urls = [http(proxy.address), http(fixture.geth.address())];
        let server = follow(&urls);
        assert!(check_answers(
            &mut server.connect(),
            &calls,
            "with another upstream"
        ));
    }
}

/// Proven state is not fetched again for the same block.
#[test]
fn resident_state_is_not_fetched_again() {
    let fixture = StateFixture::make("node-state-held");
    let calls = fixture.calls();
    let proxy = Proxy::to(&[fixture.geth.address()]);
    let server = follow(&[http(proxy.address)]);
    let mut ours = server.connect();
    assert!(check_answers(&mut ours, &calls, "first"));
    let asked = |method| proxy.calls(method);
    let before = [asked("eth_getProof"), asked("eth_getCode")];
    assert!(before[0] > 0 && before[1] > 0, "{before:?}");
    for _ in 0..5 {
        assert!(check_answers(&mut ours, &calls, "again"));
    }
    check(
        "calls",
        &[asked("eth_getProof"), asked("eth_getCode")],
        &before,
    );
}
