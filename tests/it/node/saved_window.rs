//! The window and its state outlive the process: a restart fetches what is new, and serves nothing
//! that is not verified again.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use nearhead_chain::campaign;
use serde_json::json;

use super::{
    WINDOW, arguments,
    comparison::{Comparison, GETH},
    counted,
    driven_geth::{self, DrivenGeth},
    held_state::{HeldState, REPORTS_MERGES},
    http, refuted, wait_head, wait_logged,
};
use crate::{
    harness::{
        Process, Server, after, check, json as parse, request, scratch, serving, wait_until,
    },
    rng::Rng,
    upstreams::{Keys, Payload, of_files, proxy::Proxy, steps},
    window,
};

/// What `kill -9` may lose: the time between two writes, and one more for a machine that is busy.
const LOST_MAX: Duration = Duration::from_millis(1_500);

/// A geth behind a proxy that counts calls, and the folder of the nearhead that follows it.
struct Scene {
    geth: DrivenGeth,
    proxy: Proxy,
    url: String,
    data: PathBuf,
}

impl Scene {
    fn of(name: &str, genesis: &Path, payloads: &[Payload]) -> Self {
        let geth = DrivenGeth::at(&format!("{name}-geth"), genesis, payloads);
        let proxy = Proxy::to(&[geth.address()]);
        Self {
            url: http(proxy.address),
            geth,
            proxy,
            data: scratch(&format!("{name}-data")),
        }
    }

    fn command(&self) -> Command {
        let data = ["--data-dir", self.data.to_str().unwrap()];
        let upstreams = [self.url.clone()];
        serving(&[&arguments(&upstreams)[..], &data, &REPORTS_MERGES].concat())
    }

    /// Starts nearhead; returns when the window is filled.
    fn start(&self) -> Server {
        Server::of(&mut self.command())
    }

    /// The file with the window.
    fn file(&self) -> PathBuf {
        let [chain] = fs::read_dir(&self.data)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        chain.join("window.sqlite")
    }

    /// Blocks that the upstream was asked for so far.
    fn blocks_fetched(&self) -> usize {
        self.proxy.calls("eth_getBlockReceipts")
    }

    fn proofs_fetched(&self) -> usize {
        self.proxy.calls("eth_getProof")
    }

    /// Checks that these blocks are served as the upstream has them.
    fn compare(&self, server: &Server, numbers: std::ops::RangeInclusive<u64>) {
        let mut comparison = Comparison::between(server, self.geth.address());
        comparison.chain();
        comparison.blocks(numbers);
        comparison.finish(GETH);
    }
}

fn restored(server: &Server, kind: &str) -> u64 {
    let series = format!("nearhead_saved_{kind}_total{{outcome=\"restored\"}} ");
    counted(server, &series)
}

fn written(server: &Server) -> u64 {
    counted(server, "nearhead_saved_writes_total{outcome=\"written\"} ")
}

fn stop(server: Server) {
    server.process.terminate();
    server.process.check_end(0);
}

/// Accounts of the genesis with a slot of each.
fn keys(genesis: &Path) -> Keys {
    let genesis: serde_json::Value = serde_json::from_slice(&fs::read(genesis).unwrap()).unwrap();
    let alloc = genesis["alloc"].as_object().unwrap().iter().take(200);
    let keys = alloc.map(|(address, account)| {
        let storage = account["storage"].as_object().into_iter().flatten();
        let slots = storage.map(|(slot, _)| slot.clone()).take(2);
        (
            format!("0x{}", address.trim_start_matches("0x")),
            slots.collect(),
        )
    });
    keys.collect()
}

#[test]
fn a_restart_fetches_what_is_new() {
    // A merge may take half of the time between two blocks, on any machine.
    let chain = ["--blocks", "160", "--seed", "71", "--block-time", "12s"];
    let (genesis, chain) = window::export("node-saved", &chain);
    let (_, payloads) = of_files(&genesis, &chain);
    let mut scene = Scene::of("node-saved", &genesis, &payloads);
    let keys = keys(&genesis);
    let wanted = scene.geth.go_to(&payloads[129]);
    let server = scene.start();
    let mut held = HeldState::of(server, scene.geth.connect());
    held.compare(&keys);
    held.compare_codes(&keys);
    stop(held.server);
    let (blocks, proofs) = (scene.blocks_fetched(), scene.proofs_fetched());
    assert!(blocks >= 128 && proofs > 0);

    // Nothing is new.
    let server = scene.start();
    wait_head(&server, wanted);
    // The genesis is below the window, which has one block more that shows its oldest one's parent.
    wait_until("all are restored", || restored(&server, "blocks") == 129);
    scene.compare(&server, 3..=130);
    let mut held = HeldState::of(server, scene.geth.connect());
    held.compare(&keys);
    held.compare_codes(&keys);
    check("blocks", &scene.blocks_fetched(), &blocks);
    check("proofs", &scene.proofs_fetched(), &proofs);
    assert!(restored(&held.server, "items") > 0);

    // The head goes on, and the process is killed once that is saved.
    for payload in &payloads[130..133] {
        let wanted = scene.geth.go_to(payload);
        wait_head(&held.server, wanted);
        held.wait_merged(&payload.hash.to_string());
    }
    let before = written(&held.server);
    wait_until("saved", || written(&held.server) > before);
    check("blocks", &scene.blocks_fetched(), &(blocks + 3));
    drop(held);

    // Twenty blocks are new.
    scene.geth.go_to(&payloads[152]);
    let server = scene.start();
    check("blocks", &scene.blocks_fetched(), &(blocks + 23));
    let mut held = HeldState::of(server, scene.geth.connect());
    held.wait_merged(&payloads[152].hash.to_string());
    let proofs = scene.proofs_fetched();
    held.compare(&keys);
    check("proofs", &scene.proofs_fetched(), &proofs);
    scene.compare(&held.server, 26..=153);
    check("faults", &refuted(&held.server, 0), &Default::default());
}

/// Bytes of the file are changed while nobody has it open.
#[test]
fn a_damaged_file_costs_only_time() {
    let (genesis, payloads) = driven_geth::chain("node-saved-damaged", 73, 40);
    let mut scene = Scene::of("node-saved-damaged", &genesis, &payloads);
    let keys: Keys = keys(&genesis).into_iter().take(40).collect();
    scene.geth.go_to(&payloads[39]);
    let mut rng = Rng::new(5);
    let mut blocks_restored = 0;
    for round in 0..campaign::rounds(6, 200) {
        let server = scene.start();
        blocks_restored += restored(&server, "blocks");
        scene.compare(&server, 31..=40);
        let mut held = HeldState::of(server, scene.geth.connect());
        held.compare(&keys);
        check("faults", &refuted(&held.server, 0), &Default::default());
        stop(held.server);
        let file = OpenOptions::new().write(true).open(scene.file()).unwrap();
        let length = file.metadata().unwrap().len();
        match round {
            0 => file.set_len(length / 2).unwrap(),
            1 => file.set_len(0).unwrap(),
            _ => {
                for _ in 0..rng.between(1, 200) {
                    let at = rng.between(0, length - 1);
                    file.write_all_at(&rng.bytes::<1>(), at).unwrap();
                }
            }
        }
    }
    let server = scene.start();
    scene.compare(&server, 1..=40);
    assert!(blocks_restored > 0, "what is whole is used");
}

/// The process is killed at any moment, while blocks come, branches change and clients read.
#[test]
fn a_process_that_is_killed_loses_the_last_second() {
    let rounds = campaign::rounds(10, 200);
    let (genesis, steps) = steps("node-saved-killed", 79, 60 + 20 * rounds, (7, 3));
    let mut scene = Scene::of("node-saved-killed", &genesis, &[]);
    let keys = keys(&genesis);
    let some: Keys = keys.clone().into_iter().take(20).collect();
    let mut rng = Rng::new(11);
    let mut steps = steps.into_iter();
    // When each step was made.
    let mut made = Vec::new();
    let mut go_on = |scene: &mut Scene, made: &mut Vec<Instant>| {
        let step = steps.next().unwrap();
        scene.geth.send_blocks(&step);
        made.push(Instant::now());
        (scene.geth.go_to(step.last().unwrap()), step.len())
    };
    let mut head = (0, Default::default());
    for _ in 0..60 {
        head = go_on(&mut scene, &mut made).0;
    }
    let mut killed_at = None;
    let mut blocks_while_down = 0;
    for round in 0..rounds {
        let before = scene.blocks_fetched();
        let server = scene.start();
        wait_head(&server, head);
        if let Some(killed_at) = killed_at {
            let fetched = scene.blocks_fetched() - before;
            let lost = made
                .iter()
                .filter(|at| **at + LOST_MAX >= killed_at)
                .count();
            // A step of a reorg has three blocks more.
            let fetched_max = 4 * lost + blocks_while_down;
            assert!(
                fetched <= fetched_max,
                "round {round}: {fetched} blocks fetched, of which {fetched_max} may be lost"
            );
        }
        scene.compare(&server, head.0 - 9..=head.0);
        let mut held = HeldState::of(server, scene.geth.connect());
        held.compare_proofs(&some);
        let server = held.server;
        check("faults", &refuted(&server, 0), &Default::default());
        // Clients read until it is killed, which is after some answer of theirs.
        let (answers, is_killed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let last = rng.between(1, 400) as usize;
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let mut connection = server.connect();
                    for (address, slots) in keys.iter().cycle() {
                        let params = json!([address, slots, "latest"]);
                        let call = request(1, "eth_getProof", &params).to_string();
                        let headers = ["content-type: application/json"];
                        let asked = connection.request(&headers, call.as_bytes());
                        connection.send_until_closed(&asked);
                        let Some(answer) = connection.try_receive() else {
                            assert!(is_killed.load(Ordering::Relaxed), "it ended before");
                            return;
                        };
                        let answer = parse(&answer.body);
                        // The block may have left the upstream meanwhile.
                        assert!(answer["result"].is_object() || answer["error"].is_object());
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut count = 0;
            while answers.load(Ordering::Relaxed) < last && count < 19 {
                head = go_on(&mut scene, &mut made).0;
                count += 1;
                let next = answers.load(Ordering::Relaxed) + 20;
                wait_until("reads", || answers.load(Ordering::Relaxed) >= next);
            }
            is_killed.store(true, Ordering::Relaxed);
            server.process.kill();
            killed_at = Some(Instant::now());
        });
        drop(server);
        let (next, count) = go_on(&mut scene, &mut made);
        (head, blocks_while_down) = (next, count);
    }
    let server = scene.start();
    wait_head(&server, head);
    scene.compare(&server, head.0.saturating_sub(WINDOW - 1).max(1)..=head.0);
}

/// A file may have 128 KiB: a stand-in for a disk on which there is room for nothing more. The
/// system writes a part of what it is given, and refuses the rest.
#[test]
fn a_disk_without_room_keeps_nobody_from_reading() {
    let (genesis, payloads) = driven_geth::chain("node-saved-full", 83, 60);
    let mut scene = Scene::of("node-saved-full", &genesis, &payloads);
    scene.geth.go_to(&payloads[49]);
    let limit = "trap '' XFSZ; ulimit -f 128";
    let server = Server::of(&mut after(limit, &scene.command(), &[]));
    wait_logged(&server, "the window cannot be saved");
    scene.compare(&server, 1..=50);
    let wanted = scene.geth.go_to(&payloads[54]);
    wait_head(&server, wanted);
    scene.compare(&server, 1..=55);
    let failed = counted(&server, "nearhead_saved_writes_total{outcome=\"failed\"} ");
    assert!(failed > 0);
    check("one line", &logged(&server.process, "cannot be saved"), &1);
    stop(server);
    let server = scene.start();
    wait_head(&server, wanted);
    scene.compare(&server, 1..=55);
    wait_until("saved", || written(&server) > 0);
    let file = scene.file();
    assert!(bytes_of(&file) > 128 << 10, "{}", file.display());
}

fn logged(process: &Process, text: &str) -> usize {
    let count = |log: &str| Some(log.lines().filter(|line| line.contains(text)).count());
    process.output.wait_for(text, count)
}

/// Bytes of the file and of its log.
fn bytes_of(file: &Path) -> u64 {
    let log = file.with_extension("sqlite-wal");
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    bytes(file) + bytes(&log)
}
