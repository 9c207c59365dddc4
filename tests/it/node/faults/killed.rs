//! nearhead is killed at any moment, while blocks come, branches change and clients read.

use std::{
    collections::{HashMap, HashSet},
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
    vec,
};

use alloy_primitives::{B256, Bytes, keccak256};
use nearhead_chain::campaign;
use serde_json::{Value, json};

use super::{readers::is_unavailable, world::READY_WITHIN};
use crate::{
    harness::{
        Process, Server, check,
        failing_disk::{self, DiskFault, FailingDisk, files_of, window_of},
        json as parse, quantity, request, wait_until,
    },
    node::{
        WINDOW,
        held_state::HeldState,
        refuted,
        saved_scene::{self, Scene, writes},
        wait_head,
    },
    proofs,
    rng::Rng,
    upstreams::{Keys, Payload, steps},
};

/// What `kill -9` may lose: the last second, and half of one more for a machine that is busy.
const LOST_MAX: Duration = Duration::from_millis(1_500);

/// A process that is killed if a test panics.
struct KilledInPanic<'p>(&'p Process);

impl Drop for KilledInPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.kill();
        }
    }
}

/// Steps of the chain between two starts at most.
const STEPS_MAX: u64 = 19;

/// Steps at most until a write is cut: the log first overwrites its old frames before it grows.
const CUT_STEPS_MAX: u64 = 60;

/// All blocks of all branches: what may be served.
struct Truth {
    blocks: HashMap<B256, Roots>,
    state_roots: HashSet<B256>,
}

struct Roots {
    number: u64,
    state: B256,
    receipts: B256,
}

impl Truth {
    fn of(steps: &[Vec<Payload>]) -> Self {
        let (mut blocks, mut state_roots) = (HashMap::new(), HashSet::new());
        for payload in steps.iter().flatten() {
            let (header, number) = (&payload.raw.header, payload.number);
            let roots = Roots {
                number,
                state: header.state_root,
                receipts: header.receipts_root,
            };
            blocks.insert(payload.hash, roots);
            state_roots.insert(header.state_root);
        }
        Self {
            blocks,
            state_roots,
        }
    }

    /// Checks a block that was served as the head; returns its number.
    fn check_head(&self, block: &Value) -> u64 {
        let hash: B256 = block["hash"].as_str().unwrap().parse().unwrap();
        let roots = self.blocks.get(&hash);
        let roots = roots.unwrap_or_else(|| panic!("no branch has {block}"));
        check("number", &quantity(&block["number"]), &roots.number);
        check("stateRoot", &block["stateRoot"], &json!(roots.state));
        check(
            "receiptsRoot",
            &block["receiptsRoot"],
            &json!(roots.receipts),
        );
        roots.number
    }

    /// Checks a proof that was served for the head, whichever that was.
    fn check_proof(&self, params: &Value, proof: &Value) {
        let root: Bytes = proof["accountProof"][0].as_str().unwrap().parse().unwrap();
        let root = keccak256(root);
        assert!(self.state_roots.contains(&root), "no block has {proof}");
        proofs::verify(params, proof, root);
    }
}

/// Above this, SQLite may soon restart the log, and no write would reach the limit.
const LOG_BYTES_MAX: u64 = 32 << 20;

/// A nearhead over a geth whose branches change.
struct Killed {
    scene: Scene,
    steps: vec::IntoIter<Vec<Payload>>,
    truth: Arc<Truth>,
    keys: Keys,
    head: (u64, B256),
    /// When each step was made.
    made: Vec<Instant>,
    rng: Rng,
}

impl Killed {
    /// So many steps can be made. Every seventh replaces three blocks.
    fn of(name: &str, seed: u64, steps_max: u64) -> Self {
        let (genesis, steps) = steps(name, seed, 60 + steps_max, (7, 3));
        let mut this = Self {
            scene: Scene::of(name, &genesis, &[]),
            truth: Arc::new(Truth::of(&steps)),
            steps: steps.into_iter(),
            keys: saved_scene::keys(&genesis),
            head: Default::default(),
            made: Vec::new(),
            rng: Rng::new(seed),
        };
        for _ in 0..60 {
            this.go_on();
        }
        this
    }

    /// Makes the next step; returns how many blocks are new.
    fn go_on(&mut self) -> usize {
        let step = self.steps.next().unwrap();
        self.scene.geth.send_blocks(&step);
        self.made.push(Instant::now());
        self.head = self.scene.geth.go_to(step.last().unwrap());
        step.len()
    }

    /// Starts nearhead; returns when the window is filled, which may not take longer than after any
    /// other fault.
    fn start(&self) -> Server {
        let mut command = failing_disk::outliving_short_writes(&self.scene.command());
        let began = Instant::now();
        let server = Server::of(&mut command);
        wait_head(&server, self.head);
        let took = began.elapsed();
        assert!(took <= READY_WITHIN, "ready after {took:?}");
        server
    }

    /// Starts nearhead after the end of this one, which leaves no log.
    fn start_after(&self, server: Server) -> Server {
        server.process.terminate();
        server.process.check_end(0);
        self.start()
    }

    /// A start that is killed, too: at once, or when it has asked its node.
    fn kill_early(&mut self) {
        let calls = |scene: &Scene| scene.proxy.calls("eth_chainId");
        let asked = calls(&self.scene);
        let early = Process::start(&mut self.scene.command());
        if self.rng.one_in(2) {
            wait_until("it asks its node", || calls(&self.scene) > asked);
        }
        early.kill();
    }

    /// Returns when what it has is saved, after it was compared with the node's.
    fn check_saved(&self, server: Server) -> Server {
        self.scene.wait_saved(&server, self.head.0);
        self.scene.compare(&server, self.head.0 - 9..=self.head.0);
        let some: Keys = self.keys.clone().into_iter().take(20).collect();
        let mut held = HeldState::of(server, self.scene.geth.connect());
        held.compare_proofs(&some);
        check("faults", &refuted(&held.server, 0), &Default::default());
        held.server
    }

    /// Makes steps until its clients have had so many answers, and kills it once `is_due`, after
    /// `steps_max` at most. Returns when that was.
    fn kill_while_read(
        &mut self,
        server: Server,
        answers_min: u64,
        steps_max: u64,
        is_due: impl Fn(&Server) -> bool,
    ) -> Instant {
        let (answers, is_killed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (truth, keys) = (Arc::clone(&self.truth), self.keys.clone());
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    read(&server, &truth, &keys, &answers);
                    assert!(is_killed.load(Ordering::Relaxed), "it ended before");
                });
            }
            // If this panics, the readers end with the process.
            let _ending = KilledInPanic(&server.process);
            let mut count = 0;
            let had = || answers.load(Ordering::Relaxed);
            while (had() < answers_min as usize || !is_due(&server)) && count < steps_max {
                self.go_on();
                count += 1;
                let next = had() + 20;
                wait_until("reads", || had() >= next);
            }
            wait_until("it may be killed", || is_due(&server));
            is_killed.store(true, Ordering::Relaxed);
            server.process.kill();
            Instant::now()
        })
    }

    /// Checks the whole window of a last process.
    fn finish(&self) {
        let server = self.start();
        let oldest = self.head.0.saturating_sub(WINDOW - 1).max(1);
        self.scene.compare(&server, oldest..=self.head.0);
    }
}

/// Reads the head and proofs until the server ends.
fn read(server: &Server, truth: &Truth, keys: &Keys, answers: &AtomicUsize) {
    let mut connection = server.connect();
    let mut head = 0;
    for (address, slots) in keys.iter().cycle() {
        for (method, params) in [
            ("eth_getProof", json!([address, slots, "latest"])),
            ("eth_getBlockByNumber", json!(["latest", false])),
        ] {
            let call = request(1, method, &params).to_string();
            let headers = ["content-type: application/json"];
            let asked = connection.request(&headers, call.as_bytes());
            connection.send_until_closed(&asked);
            let Some(answer) = connection.try_receive() else {
                return;
            };
            let answer = parse(&answer.body);
            if let Some(error) = answer.get("error") {
                // The block may have left the node meanwhile.
                assert!(is_unavailable(error), "{method} {params}: {answer}");
            } else if method == "eth_getProof" {
                truth.check_proof(&params, &answer["result"]);
            } else {
                // A branch that replaces another one is longer.
                let number = truth.check_head(&answer["result"]);
                assert!(number >= head, "the head went back from {head} to {number}");
                head = number;
            }
            answers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn it_loses_the_last_second() {
    let rounds = campaign::rounds(10, 200);
    let mut killed = Killed::of("faults-killed-reorgs", 79, (STEPS_MAX + 1) * rounds);
    let (mut killed_at, mut blocks_while_down) = (None, 0);
    for round in 0..rounds {
        if round % 3 == 2 {
            killed.kill_early();
        }
        let before = killed.scene.blocks_fetched();
        let server = killed.start();
        if let Some(killed_at) = killed_at {
            let fetched = killed.scene.blocks_fetched() - before;
            let is_lost = |at: &&Instant| **at + LOST_MAX >= killed_at;
            let lost = killed.made.iter().filter(is_lost).count();
            // A step of a reorg has three blocks more.
            let fetched_max = 4 * lost + blocks_while_down;
            assert!(
                fetched <= fetched_max,
                "round {round}: {fetched} blocks fetched, of which {fetched_max} may be lost"
            );
        }
        // What it has fetched at its start may be lost too, as long as it is not saved.
        let server = killed.check_saved(server);
        let answers = killed.rng.between(1, 400);
        killed_at = Some(killed.kill_while_read(server, answers, STEPS_MAX, |_| true));
        blocks_while_down = killed.go_on();
    }
    killed.finish();
}

/// Writes of the window that were tried.
fn writes_tried(server: &Server) -> u64 {
    writes(server, "written") + writes(server, "failed")
}

/// No answer comes from a file that errors, lost writes or a truncated write left incomplete.
#[test]
fn it_is_killed_on_a_faulty_disk() {
    let rounds = campaign::rounds(10, 200);
    let cut_rounds = rounds.div_ceil(4);
    let steps_max = (STEPS_MAX + 1) * rounds + (CUT_STEPS_MAX - STEPS_MAX) * cut_rounds;
    let mut killed = Killed::of("faults-killed-disk", 83, steps_max);
    for round in 0..rounds {
        if round % 3 == 2 {
            killed.kill_early();
        }
        let server = killed.start();
        let server = killed.check_saved(server);
        let files = (files_of(&killed.scene.data), window_of(&killed.scene.data));
        let rng = &mut killed.rng;
        let (first, every) = (rng.between(1, 20), rng.between(2, 20));
        let (answers, further) = (rng.between(1, 200), rng.between(0, 4_096));
        let fault = match round % 4 {
            0 => Some((files.0, DiskFault::SomeErrors { first, every })),
            1 => Some((files.0, DiskFault::SomeWithoutRoom { first, every })),
            // In the window alone: lost writes of tenants cannot be fetched again.
            2 => Some((files.1, DiskFault::LostWrites { first, every })),
            _ => None,
        };
        if let Some((files, fault)) = fault {
            let _disk = FailingDisk::of(&server.process, &files, fault);
            let before = writes_tried(&server);
            let is_due = |server: &Server| writes_tried(server) > before;
            killed.kill_while_read(server, answers, STEPS_MAX, is_due);
        } else {
            let log = killed.scene.file().with_extension("sqlite-wal");
            let bytes = || fs::metadata(&log).map_or(0, |file| file.len());
            let server = match bytes() > LOG_BYTES_MAX {
                true => killed.start_after(server),
                false => server,
            };
            // A write before the limit is set might pass it.
            server.process.freeze();
            // Each write begins and ends at an even place, so one of them is cut short here.
            let cut = (bytes() + 1 + 2 * further) | 1;
            failing_disk::cut_writes_at(&server.process, cut);
            server.process.thaw();
            killed.kill_while_read(server, answers, CUT_STEPS_MAX, |_| bytes() == cut);
            check("cut short", &bytes(), &cut);
        }
        killed.go_on();
    }
    killed.finish();
}
