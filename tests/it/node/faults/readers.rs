//! Clients that read all the time, and find out whether what they are given is true.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256};
use nearhead_chain::dev::STORE_CONTRACT;
use serde_json::{Value, json};

use crate::{
    harness::{Connection, KEY, check, json, quantity, request, wait_until},
    proofs,
    upstreams::Payload,
};

/// How far below the head state is read too.
const OLDER: u64 = 8;

/// Whether an error says that state cannot be had now: no node gives it, or time or memory is
/// short. Of the code that many errors share, only the message for the first is meant.
pub(super) fn is_unavailable(error: &Value) -> bool {
    match error["code"].as_i64() {
        Some(-32000) => error["message"] == "state not available from the configured nodes",
        Some(-32002 | -32005) => true,
        _ => false,
    }
}

/// The clients of one process.
pub(super) struct Readers {
    heads: Reader,
    state: Reader,
    is_over: Arc<AtomicBool>,
}

struct Reader {
    answers: Arc<AtomicUsize>,
    thread: thread::JoinHandle<()>,
}

impl Readers {
    /// Starts them. What they are given of the state is added to `given`.
    pub(super) fn start(
        address: SocketAddr,
        payloads: &Arc<Vec<Payload>>,
        given: &Arc<GivenState>,
    ) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let heads = read_heads(connect(address), Arc::clone(payloads));
        let state = read_state(connect(address), Arc::clone(payloads), Arc::clone(given));
        Self {
            heads: Reader::start(&is_over, Duration::from_millis(5), heads),
            state: Reader::start(&is_over, Duration::from_millis(20), state),
            is_over,
        }
    }

    /// Returns when each of them has had another answer.
    pub(super) fn wait_for_answers(&self) {
        for (what, reader) in [("heads", &self.heads), ("state", &self.state)] {
            let answers = || reader.answers.load(Ordering::Relaxed);
            let before = answers();
            wait_until(&format!("{what} are read"), || {
                assert!(!reader.thread.is_finished(), "the reader of {what} failed");
                answers() > before
            });
        }
    }

    /// Ends them; fails if any answer was false.
    pub(super) fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.heads.thread.join().unwrap();
        self.state.thread.join().unwrap();
    }
}

impl Reader {
    /// Reads again and again. `read` returns how many answers it had.
    fn start(
        is_over: &Arc<AtomicBool>,
        pause: Duration,
        mut read: impl FnMut() -> usize + Send + 'static,
    ) -> Self {
        let answers = Arc::<AtomicUsize>::default();
        let (counted, is_over) = (Arc::clone(&answers), Arc::clone(is_over));
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                counted.fetch_add(read(), Ordering::Relaxed);
                // No test depends on its length.
                thread::park_timeout(pause);
            }
        });
        Self { answers, thread }
    }
}

fn connect(address: SocketAddr) -> Connection {
    Connection::open(address, &format!("/v3/{KEY}"))
}

/// Reads the head, which is a block of the chain, and never goes back.
fn read_heads(mut connection: Connection, payloads: Arc<Vec<Payload>>) -> impl FnMut() -> usize {
    let mut head = 0;
    move || {
        let answer = connection.call("eth_getBlockByNumber", &json!(["latest", false]));
        let block = &answer["result"];
        let number = quantity(&block["number"]);
        let expected = block_of(&payloads, number);
        let header = &expected.raw.header;
        for (member, expected) in [
            ("hash", expected.hash),
            ("stateRoot", header.state_root),
            ("receiptsRoot", header.receipts_root),
        ] {
            check(member, &block[member], &json!(expected));
        }
        assert!(number >= head, "the head went back from {head} to {number}");
        head = number;
        1
    }
}

/// Reads a balance, a slot and a proof, at the head and at an older block in turn.
fn read_state(
    mut connection: Connection,
    payloads: Arc<Vec<Payload>>,
    given: Arc<GivenState>,
) -> impl FnMut() -> usize {
    let mut turn = 0;
    move || {
        let head = quantity(&connection.result("eth_blockNumber", &json!([])));
        let number = head - OLDER * (turn % 2) as u64;
        let calls = calls_of(block_of(&payloads, number), turn / 2);
        turn += 1;
        let results = calls.map(|call| given.ask(&mut connection, &payloads, call));
        results.iter().flatten().count()
    }
}

fn block_of(payloads: &[Payload], number: u64) -> &Payload {
    let first = payloads[0].number;
    let payload = &payloads[usize::try_from(number - first).unwrap()];
    check("number", &payload.number, &number);
    payload
}

/// A read of state at a block.
struct StateCall {
    number: u64,
    method: &'static str,
    params: Value,
}

/// Reads of one of the accounts that this block is about.
fn calls_of(payload: &Payload, turn: usize) -> [StateCall; 3] {
    let (number, raw) = (payload.number, &payload.raw);
    let called = raw.body.transactions.iter().filter_map(Transaction::to);
    let accounts: Vec<Address> = called
        .chain([STORE_CONTRACT, raw.header.beneficiary])
        .collect();
    let account = accounts[turn % accounts.len()];
    // Where the contracts of the dev chain have what a block has changed.
    let slot = B256::left_padding_from(&(turn as u64 % 2 * (1 + number % 8192)).to_be_bytes());
    let height = format!("{number:#x}");
    let call = |method, params| StateCall {
        number,
        method,
        params,
    };
    [
        call("eth_getBalance", json!([account, height])),
        call("eth_getStorageAt", json!([account, slot, height])),
        call("eth_getProof", json!([account, [slot], height])),
    ]
}

/// All state that clients were given and that was not compared yet: results by method and
/// parameters.
#[derive(Default)]
pub(super) struct GivenState(Mutex<BTreeMap<(&'static str, String), Value>>);

impl GivenState {
    /// Makes a call, whose result is kept; `None` if the state is not available.
    fn ask(
        &self,
        connection: &mut Connection,
        payloads: &[Payload],
        call: StateCall,
    ) -> Option<Value> {
        let StateCall {
            number,
            method,
            params,
        } = call;
        // An overload has a status of its own.
        let answer = connection.post(request(1, method, &params).to_string());
        let mut answer = json(&answer.body);
        if let Some(error) = answer.get("error") {
            assert!(is_unavailable(error), "{method} {params}: {answer}");
            return None;
        }
        let result = answer["result"].take();
        if method == "eth_getProof" {
            let root = block_of(payloads, number).raw.header.state_root;
            proofs::verify(&params, &result, root);
        }
        let key = (method, params.to_string());
        let mut given = self.0.lock().unwrap();
        let kept = given.entry(key).or_insert_with(|| result.clone());
        let case = format!("{method} {params}, once more");
        check(&case, &result, kept);
        Some(result)
    }

    /// Reads the state at this head and at an older block, which has to be available, and compares
    /// all that clients were given since the last time with the node's answers.
    pub(super) fn compare(
        &self,
        (server, node): (SocketAddr, SocketAddr),
        payloads: &[Payload],
        head: u64,
    ) {
        let mut ours = connect(server);
        for number in [head, head - OLDER] {
            for at in 0..3 {
                wait_until(&format!("state of block {number}"), || {
                    let mut calls = calls_of(block_of(payloads, number), 0).into_iter();
                    let call = calls.nth(at).unwrap();
                    self.ask(&mut ours, payloads, call).is_some()
                });
            }
        }
        let given = std::mem::take(&mut *self.0.lock().unwrap());
        let mut node = Connection::open(node, "/");
        let compared = given.len();
        for ((method, params), ours) in given {
            let mut theirs = node.result(method, &json(params.as_bytes()));
            if method == "eth_getProof" {
                proofs::name_hashes_of_nothing(&mut theirs);
            }
            check(&format!("{method} {params}"), &ours, &theirs);
        }
        println!("{compared} reads of state are the node's");
    }
}
