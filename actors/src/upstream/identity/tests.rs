#![expect(clippy::unwrap_used, reason = "tests")]

use std::{convert::Infallible, sync::Arc};

use actix::Arbiter;
use crossbeam::channel::{self, Sender};
use serde_json::json;

use super::*;
use crate::{
    head::Head,
    upstream::client::{
        CallLimits,
        tests::server::{RecordedCall, Reply, Script},
    },
};

/// The genesis that a letter stands for; `-` is none, and `m` is mainnet's.
fn genesis(letter: char) -> Option<B256> {
    match letter {
        '-' => None,
        'm' => Some(Network::Mainnet.genesis_hash()),
        letter => Some(B256::repeat_byte(letter as u8)),
    }
}

/// Whether a chain is known: mainnet, and the chain 1 with genesis `f`, which has a folder.
fn is_known(chain_id: u64, hash: B256) -> bool {
    chain_id == 1 && [genesis('m'), genesis('f')].contains(&Some(hash))
}

/// `1a` for a node of chain 1 with genesis `a`, `?` for one that has not answered, `!` for one that
/// failed.
fn answer(text: &str) -> ChainAnswer {
    match text {
        "?" => ChainAnswer::Pending,
        "!" => ChainAnswer::Failed(CallError::Busy),
        _ => {
            let (chain_id, letter) = text.split_at(text.len() - 1);
            ChainAnswer::Stated(Statement {
                chain_id: chain_id.parse().unwrap(),
                genesis: genesis(letter.chars().next().unwrap()),
            })
        }
    }
}

/// The same notation for the outcome: `1a` is agreed, `?` still possible, `x` impossible.
fn agreement(text: &str) -> ChainVote {
    match (text, answer_of(text)) {
        ("?", _) => ChainVote::StillPossible,
        ("x", _) => ChainVote::Impossible,
        (_, Some(Statement { chain_id, genesis })) => {
            ChainVote::Agreed(ChainIdentity::new(chain_id, genesis))
        }
        (text, None) => panic!("{text}"),
    }
}

fn answer_of(text: &str) -> Option<Statement> {
    match (text != "x").then(|| answer(text))? {
        ChainAnswer::Stated(statement) => Some(statement),
        ChainAnswer::Pending | ChainAnswer::Failed(_) => None,
    }
}

/// What is pinned, in the same notation: `1a` both, `1` the chain id, `a` the genesis.
fn pins(text: &str) -> Pins {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    Pins {
        chain_id: digits.parse().ok(),
        genesis: text[digits.len()..].chars().next().and_then(genesis),
    }
}

/// Pins, quorum, answers in the operator's order, and the outcome.
type Case = (&'static str, usize, &'static str, &'static str);

#[rustfmt::skip]
const CASES: &[Case] = &[
    // One node decides alone only where it is the only one.
    ("", 1, "?", "?"),
    ("", 1, "!", "?"),
    ("", 1, "1a", "1a"),
    ("", 1, "1-", "1-"),
    // Two of two.
    ("", 2, "1a ?", "?"),
    ("", 2, "1a !", "?"),
    ("", 2, "1a 1a", "1a"),
    ("", 2, "1a 2a", "x"),
    ("", 2, "1a 1b", "x"),
    ("", 2, "1a 1-", "1-"),
    ("", 2, "1- 1-", "1-"),
    // Two of three: a liar decides nothing, wherever it stands and whenever it answers.
    ("", 2, "9z ? ?", "?"),
    ("", 2, "9z 1a ?", "?"),
    ("", 2, "9z 1a 1a", "1a"),
    ("", 2, "1a 9z 1a", "1a"),
    ("", 2, "1z 1a 1a", "1a"),
    ("", 2, "1z 1a ?", "?"),
    ("", 2, "9z 1a !", "?"),
    ("", 2, "? 1a 1a", "1a"),
    ("", 2, "! 1a 1a", "1a"),
    ("", 2, "9z 2b 1a", "x"),
    ("", 2, "1c 1b 1a", "x"),
    // Nodes without block 0 contradict nobody, and the liar cannot use that to prevent the start.
    ("", 2, "1a 1- ?", "?"),
    ("", 2, "1a 1- 1a", "1a"),
    ("", 2, "1a 1- 1-", "1-"),
    ("", 2, "1a 1- 1z", "1-"),
    ("", 2, "1a 1- !", "1-"),
    ("", 2, "1a 1- 9z", "1-"),
    ("", 2, "1a 1z !", "?"),
    // The only one of the genesis hashes that is known: nodes without block 0 switch nothing off.
    ("", 2, "1m 1-", "1m"),
    ("", 2, "1f 1-", "1f"),
    ("", 2, "1m 1- 1-", "1m"),
    ("", 2, "1m 1- 1z", "1m"),
    ("", 2, "1f 1- 1z", "1f"),
    ("", 2, "1f 1- 1m", "1-"),
    ("", 2, "1m 1- ?", "?"),
    ("", 3, "1m 1m 1- 1-", "1m"),
    ("", 2, "2m 2-", "2-"),
    ("", 2, "2f 2-", "2-"),
    ("1", 2, "1m 1- 9z", "1m"),
    // A quorum decides, whatever else is known.
    ("", 2, "1a 1a 1m", "1a"),
    // Three of three needs all of them.
    ("", 3, "1a 1a !", "?"),
    ("", 3, "1a 1a 1z", "x"),
    ("", 3, "1a 1a 1-", "1-"),
    // A quorum of at most half of the nodes does not decide before all have answered or failed, and
    // two of them that disagree decide nothing.
    ("", 1, "1a ?", "?"),
    ("", 1, "1a !", "1a"),
    ("", 1, "1a 1a", "1a"),
    ("", 1, "1a 2b", "x"),
    ("", 1, "1a 1b", "x"),
    ("", 1, "1a 1-", "1a"),
    ("", 1, "1a ? !", "?"),
    ("", 2, "1a 1a 2b ?", "?"),
    ("", 2, "1a 1a 2b !", "1a"),
    ("", 2, "1a 1a 2b 2b", "x"),
    ("", 2, "1a 1a 1b 1b", "x"),
    // Everything is pinned: a quorum has to be on that chain.
    ("1a", 2, "? ?", "?"),
    ("1a", 2, "! !", "?"),
    ("1a", 2, "1a 1a ?", "1a"),
    ("1a", 2, "1a 1- 9z", "1a"),
    ("1a", 2, "1a 9z ?", "?"),
    ("1a", 2, "1a 9z !", "?"),
    ("1a", 2, "1a 1b", "x"),
    ("1a", 2, "9z 9z", "x"),
    ("1a", 1, "9z 1a", "1a"),
    ("1a", 1, "1a ?", "1a"),
    ("1a", 1, "9z ?", "?"),
    ("1a", 1, "9z", "x"),
    // A pinned chain id: the genesis is what a quorum of the nodes with that id states.
    ("1", 1, "?", "?"),
    ("1", 2, "1a 1a ?", "1a"),
    ("1", 2, "1a 1a 9z", "1a"),
    ("1", 2, "1- 1- 9z", "1-"),
    ("1", 2, "1a 9z ?", "?"),
    ("1", 2, "1a 9z !", "?"),
    ("1", 2, "1a 9z 9z", "x"),
    ("1", 1, "1a 9z", "1a"),
    ("1", 1, "9z 9z", "x"),
    ("1", 1, "9z !", "?"),
    // A pinned genesis: the chain id is what a quorum of the nodes states that do not have another.
    ("a", 2, "1a 1a ?", "1a"),
    ("a", 2, "1a 1- 9z", "1a"),
    ("a", 2, "9z 9z 1a", "x"),
    ("a", 2, "1a 2a !", "?"),
    // A known pair is its network.
    ("", 2, "1m 1m 1a", "1m"),
];

#[test]
fn a_quorum_decides_what_is_not_pinned() {
    for (pinned, quorum, answers, expected) in CASES {
        let given: Vec<ChainAnswer> = answers.split(' ').map(answer).collect();
        let found = agree_on(&pins(pinned), *quorum, &given, is_known);
        let case = format!("{pinned:?}, {quorum} of {answers}");
        assert_eq!(found, agreement(expected), "{case}");
        // The order of the nodes is of no importance.
        let reversed: Vec<ChainAnswer> = given.into_iter().rev().collect();
        let found = agree_on(&pins(pinned), *quorum, &reversed, is_known);
        assert_eq!(found, agreement(expected), "{case}, reversed");
    }
}

/// Whatever arrives in whatever order, with a majority as quorum: an agreement stays, and so does
/// the insight that there is none.
#[test]
fn later_answers_change_no_outcome() {
    let states = ["?", "1m", "1b", "2a", "1-"];
    let nodes = 3_u32;
    let read = |mut number: usize| -> Vec<&str> {
        let digits = (0..nodes).map(|_| {
            let digit = number % states.len();
            number /= states.len();
            states[digit]
        });
        digits.collect()
    };
    for number in 0..states.len().pow(nodes) {
        let texts = read(number);
        let given: Vec<ChainAnswer> = texts.iter().map(|text| answer(text)).collect();
        let before = agree_on(&Pins::default(), 2, &given, is_known);
        if before == ChainVote::StillPossible {
            assert!(texts.contains(&"?"), "{texts:?}");
            continue;
        }
        for (at, _) in texts.iter().enumerate().filter(|(_, text)| **text == "?") {
            for state in &states[1..] {
                let mut later = given.clone();
                later[at] = answer(state);
                let after = agree_on(&Pins::default(), 2, &later, is_known);
                assert_eq!(before, after, "{texts:?}, then {state} from node {at}");
            }
        }
    }
}

#[test]
fn a_chain_is_a_network_by_chain_id_and_genesis() {
    for (chain_id, letter, network, namesake) in [
        (1, 'm', Some(Network::Mainnet), None),
        (1, 'a', None, Some(Network::Mainnet)),
        (1, '-', None, Some(Network::Mainnet)),
        (2, 'm', None, None),
        (560_048, 'm', None, Some(Network::Hoodi)),
    ] {
        let chain = ChainIdentity::new(chain_id, genesis(letter));
        let found = (chain.network, chain.namesake());
        assert_eq!(found, (network, namesake), "{chain_id}{letter}");
    }
}

/// A genesis file with this chain id, removed when the value is dropped.
struct TempGenesis(PathBuf);

impl TempGenesis {
    fn new(test: &str, chain_id: u64) -> Self {
        let name = format!("nearhead-genesis-{}-{test}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let text = json!({
            "config": {"chainId": chain_id, "homesteadBlock": 0},
            "difficulty": "0x20000", "gasLimit": "0x0", "alloc": {},
        });
        std::fs::write(&path, text.to_string()).unwrap();
        Self(path)
    }
}

impl Drop for TempGenesis {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn options_pin_what_they_name() {
    let file = TempGenesis::new("pins", 77);
    let file = GenesisFile::read(&file.0).unwrap();
    let (hash, other) = (file.hash, B256::repeat_byte(7));
    let (id, mainnet) = (Network::Mainnet.chain_id(), Network::Mainnet.genesis_hash());
    let network = Some(Network::Mainnet);
    for (has_file, network, chain_id, trusted, expected) in [
        (false, None, None, None, Ok((None, None))),
        (false, network, None, None, Ok((Some(id), Some(mainnet)))),
        (
            false,
            network,
            Some(id),
            None,
            Ok((Some(id), Some(mainnet))),
        ),
        (false, None, Some(5), None, Ok((Some(5), None))),
        (false, None, None, Some((0, other)), Ok((None, Some(other)))),
        (false, None, None, Some((1, other)), Ok((None, None))),
        (true, None, None, None, Ok((Some(77), Some(hash)))),
        (
            true,
            None,
            Some(77),
            Some((0, hash)),
            Ok((Some(77), Some(hash))),
        ),
        (true, None, Some(5), None, Err("its chain id is 77, and")),
        (true, network, None, None, Err("its chain id is 77, and")),
        (
            true,
            None,
            None,
            Some((0, other)),
            Err("its block has the hash 0x"),
        ),
    ] {
        let trusted: Vec<_> = trusted.into_iter().collect();
        let file = has_file.then_some(&file);
        let found = Pins::new(file, network, chain_id, &trusted);
        match (found, expected) {
            (Ok(pins), Ok(expected)) => assert_eq!((pins.chain_id, pins.genesis), expected),
            (Err(error), Err(expected)) => {
                assert!(error.is_misuse());
                let error = error.to_string();
                let (path, reason) = error.split_once(": ").unwrap();
                assert!(path.ends_with("-pins.json"), "{error}");
                assert!(reason.starts_with(expected), "{error}");
            }
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }
}

/// A link whose source is stopped when the sender is dropped.
fn link() -> (SourceLink, Sender<Infallible>) {
    let (events, _) = channel::bounded(1);
    let (stop, stopped) = channel::bounded(0);
    let link = SourceLink {
        arbiter: Arbiter::new().handle(),
        head: Head::default(),
        events,
        stop: stopped,
    };
    (link, stop)
}

/// A node that states this chain id and this genesis.
fn honest(call: &RecordedCall, chain_id: u64, letter: char) -> Reply {
    match call.method.as_str() {
        "eth_chainId" => Reply::Result(format!("\"{chain_id:#x}\"")),
        _ => match genesis(letter) {
            None => Reply::result("null"),
            Some(hash) => {
                let parent = B256::ZERO;
                let block = json!({"number": "0x0", "hash": hash, "parentHash": parent, "timestamp": "0x0"});
                Reply::Result(block.to_string())
            }
        },
    }
}

async fn serve(script: Script) -> (UpstreamClient, Arc<Script>) {
    let (url, script) = script.serve().await;
    let limits = CallLimits {
        concurrency: 4,
        timeout: Duration::from_secs(60),
        answer_bytes_max: 1 << 20,
    };
    let client = UpstreamClient::new(url.parse().unwrap(), limits).unwrap();
    (client, script)
}

async fn node(chain_id: u64, letter: char) -> UpstreamClient {
    let script = Script::answering(move |call| honest(call, chain_id, letter));
    serve(script).await.0
}

#[actix::test]
async fn a_liar_and_a_silent_node_prevent_no_start() {
    let (link, _stop) = link();
    let silent = serve(Script::answering(|_| Reply::Silence)).await.0;
    let refusing = Script::answering(|_| Reply::http(403, "", ""));
    let clients = [
        node(9, 'z').await,
        silent,
        serve(refusing).await.0,
        node(1, 'm').await,
        node(1, 'm').await,
        node(1, 'm').await,
    ];
    let chain = agreed_chain(&Pins::default(), 3, &clients, &DataRoot::Memory, &link).await;
    assert_eq!(chain.unwrap().network, Some(Network::Mainnet));
    // With everything pinned, nobody waits for the silent one.
    let chain = agreed_chain(&pins("9z"), 1, &clients[..2], &DataRoot::Memory, &link).await;
    assert_eq!(chain.unwrap(), ChainIdentity::new(9, genesis('z')));
}

#[actix::test]
async fn a_node_that_failed_is_asked_again() {
    let (link, _stop) = link();
    let is_up = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = Arc::clone(&is_up);
    let late = Script::answering(move |call| {
        match flag.swap(true, std::sync::atomic::Ordering::Relaxed) {
            false => Reply::http(503, "", ""),
            true => honest(call, 1, 'a'),
        }
    });
    // An error for block 0 alone is as good as no block.
    let pruned = Script::answering(|call| match call.method.as_str() {
        "eth_chainId" => Reply::result("\"0x1\""),
        _ => Reply::Error(-32000, "pruned history unavailable"),
    });
    let (late, asked) = serve(late).await;
    let clients = [late, serve(pruned).await.0];
    let chain = agreed_chain(&Pins::default(), 2, &clients, &DataRoot::Memory, &link).await;
    assert_eq!(chain.unwrap(), ChainIdentity::new(1, None));
    assert!(asked.methods().len() >= 4, "{:?}", asked.methods());
}

#[actix::test]
async fn no_agreement_is_an_error_with_each_answer() {
    let (link, _stop) = link();
    let clients = [node(1, 'a').await, node(2, 'b').await, node(3, '-').await];
    let names = clients
        .each_ref()
        .map(|client| client.endpoint().to_string());
    let chain = agreed_chain(&Pins::default(), 2, &clients, &DataRoot::Memory, &link).await;
    let error = chain.unwrap_err();
    assert!(error.is_misuse());
    let error = error.to_string();
    let lines: Vec<&str> = error.lines().skip(1).collect();
    let [a, b] = ['a', 'b'].map(|letter| genesis(letter).unwrap());
    let expected = [
        format!("  node 0, {}: chain id 1, genesis {a}", names[0]),
        format!("  node 1, {}: chain id 2, genesis {b}", names[1]),
        format!("  node 2, {}: chain id 3, no block 0", names[2]),
    ];
    assert_eq!(lines, expected);
}

#[actix::test]
async fn the_wait_for_an_agreement_can_be_stopped() {
    let (link, stop) = link();
    let (silent, script) = serve(Script::answering(|_| Reply::Silence)).await;
    let clients = [silent];
    let pins = Pins::default();
    let waiting = agreed_chain(&pins, 1, &clients, &DataRoot::Memory, &link);
    let stopping = async {
        script.arrived.notified().await;
        drop(stop);
    };
    let (outcome, ()) = tokio::join!(waiting, stopping);
    assert!(matches!(outcome, Err(SourceError::Stopped)), "{outcome:?}");
}
