//! The window and its state outlive the process: a restart fetches what is new, and serves nothing
//! that is not verified again.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
};

use nearhead_chain::campaign;

use super::{
    counted, driven_geth,
    held_state::HeldState,
    logged, refuted,
    saved_scene::{Scene, keys, writes},
    wait_head, wait_logged,
};
use crate::{
    harness::{Server, after, check, wait_until},
    rng::Rng,
    upstreams::{Keys, of_files},
    window,
};

fn restored(server: &Server, kind: &str) -> u64 {
    let series = format!("nearhead_saved_{kind}_total{{outcome=\"restored\"}} ");
    counted(server, &series)
}

fn stop(server: Server) {
    server.process.terminate();
    server.process.check_end(0);
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
    let before = writes(&held.server, "written");
    wait_until("saved", || writes(&held.server, "written") > before);
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
    assert!(writes(&server, "failed") > 0);
    check("one line", &logged(&server, "cannot be saved"), &1);
    stop(server);
    let server = scene.start();
    wait_head(&server, wanted);
    scene.compare(&server, 1..=55);
    wait_until("saved", || writes(&server, "written") > 0);
    let file = scene.file();
    assert!(bytes_of(&file) > 128 << 10, "{}", file.display());
}

/// Bytes of the file and of its log.
fn bytes_of(file: &Path) -> u64 {
    let log = file.with_extension("sqlite-wal");
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    bytes(file) + bytes(&log)
}
