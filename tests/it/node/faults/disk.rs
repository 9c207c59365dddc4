//! A disk that gives errors, and one that does not answer.

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

use nearhead_chain::campaign;
use serde_json::json;

use super::world::{PLAIN, World};
use crate::{
    admin_api::client::Admin,
    harness::{
        Process, Server, check,
        failing_disk::{self, DiskFault, FailingDisk, files_of, tenants_of, window_of},
        nearhead, scratch, wait_until,
    },
    node::{logged, saved_scene::writes, wait_head, wait_logged, wait_logged_again},
    rng::Rng,
};

/// What docs/operations.md allows for the end of the process: the grace period, and ten seconds.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// What is logged once when the blocks cannot be saved, and once when they can be again.
const NOT_SAVED: &str = "the safe and the finalized block cannot be written";
const SAVED: &str = "the safe and the finalized block are written again";

const STORE_FAILS: &str = "nearhead_tenant_store_failing";

/// What is logged at the end if the disk does not answer.
const WINDOW_IS_LOST: &str = "the last of the window is not written";
const USAGE_IS_LOST: &str = "the last usage is not written";
const STORE_IS_OPEN: &str = "the store of tenants is not closed";

/// Clients are answered, the head goes on, and what could not be written is written later.
#[test]
fn the_disk_gives_errors() {
    let mut world = World::of("faults-errors", PLAIN);
    wait_until("saved", || writes(world.server(), "written") > 0);
    let files = files_of(&world.data);
    let mut rng = Rng::new(13);
    world.survives(
        "some calls of the disk fail",
        |world| {
            for _ in 0..campaign::rounds(4, 40) {
                let fault = DiskFault::SomeErrors {
                    first: rng.between(1, 9),
                    every: rng.between(2, 9),
                };
                let process = &world.server().process;
                let disk = FailingDisk::of(process, &files, fault);
                let wanted = world.go_on();
                wait_head(world.server(), wanted);
                disk.mend();
            }
        },
        |_| {},
    );
    for (what, fault) in [
        ("all calls of the disk fail", DiskFault::Errors),
        ("the disk becomes read-only", DiskFault::ReadOnly),
    ] {
        let disk = Cell::new(None);
        let [failed, written] =
            ["failed", "written"].map(|outcome| writes(world.server(), outcome));
        let [not_saved, saved] = [NOT_SAVED, SAVED].map(|text| logged(world.server(), text));
        world.survives(
            what,
            |world| {
                let process = &world.server().process;
                disk.set(Some(FailingDisk::of(process, &files, fault)));
                let wanted = world.settle();
                wait_head(world.server(), wanted);
                wait_until("a write fails", || {
                    writes(world.server(), "failed") > failed
                });
                wait_until("usage cannot be written", || {
                    world.server().metric(STORE_FAILS) > 0.0
                });
                wait_logged_again(world.server(), NOT_SAVED, not_saved);
                assert!(world.is_ready());
            },
            |_| disk.take().map_or((), FailingDisk::mend),
        );
        wait_until("saved", || writes(world.server(), "written") > written);
        wait_until("usage is written", || {
            world.server().metric(STORE_FAILS) == 0.0
        });
        wait_logged_again(world.server(), SAVED, saved);
    }
}

/// Neither a start, nor clients, nor the head, nor the end wait for a disk that hangs.
#[test]
fn the_disk_hangs() {
    let stuck = start_over_tenants_that_hang();
    let mut world = World::of("faults-hangs", PLAIN);
    wait_until("saved", || writes(world.server(), "written") > 0);
    world.kill();
    check_ends(stuck);
    let (files, window) = (files_of(&world.data), window_of(&world.data));
    let began = Instant::now();
    world.start(&|_, command| failing_disk::with_failing_disk(&command, &window, DiskFault::Hangs));
    world.recovers("the disk hangs at the start", world.head(), began);
    check("saved", &writes(world.server(), "written"), &0);
    wait_until("it is shown", || writes(world.server(), "failed") > 0);
    failing_disk::mend(&world.server().process);
    wait_until("saved", || writes(world.server(), "written") > 0);

    let disk = Cell::new(None);
    let [failed, written] = ["failed", "written"].map(|outcome| writes(world.server(), outcome));
    let hang = |world: &World| {
        let process = &world.server().process;
        disk.set(Some(FailingDisk::of(process, &files, DiskFault::Hangs)));
    };
    world.survives(
        "the disk hangs",
        |world| {
            let mut root = Admin::first(world.server());
            hang(world);
            // Asked before the disk is known to hang.
            let early = thread::spawn(move || {
                root.done("POST", "/tenants", &json!({"name": "early"}), 503)
            });
            let wanted = world.settle();
            wait_head(world.server(), wanted);
            wait_until("it is noticed", || {
                writes(world.server(), "failed") > failed
                    && world.server().metric(STORE_FAILS) > 0.0
            });
            let ready = world.server().get_admin("/ready");
            check("ready", &ready.status, &200);
            assert!(ready.text().contains("does not answer"), "{}", ready.text());
            let login = json!({"name": "anybody", "password": "a long password"});
            let mut nobody = Admin::nobody(world.server());
            nobody.refused("POST", "/login", &login, 503, "store_failed");
            world.server().process.hang_up();
            wait_logged(
                world.server(),
                "the keys of the configuration are not replaced yet",
            );
            let late = early.join().unwrap()["error"]["message"].to_string();
            assert!(late.contains("has not answered in time"), "{late}");
        },
        |_| disk.take().map_or((), FailingDisk::mend),
    );
    wait_until("saved", || writes(world.server(), "written") > written);
    wait_until("usage is written", || {
        world.server().metric(STORE_FAILS) == 0.0
    });
    wait_logged(
        world.server(),
        "the keys of the configuration were read again",
    );

    hang(&world);
    let wanted = world.settle();
    wait_head(world.server(), wanted);
    let (took, output) = world.stop(|| disk.take().map_or((), FailingDisk::mend));
    assert!(took < ENDS_WITHIN, "it ended after {took:?}");
    assert!(output.contains(USAGE_IS_LOST), "{output}");
    // What a disk that hangs has left is no worse than what a crash leaves.
    let began = Instant::now();
    world.start(PLAIN);
    world.recovers("the disk hangs at the end", world.head(), began);

    // The window alone: the store has its own time to end.
    let process = &world.server().process;
    disk.set(Some(FailingDisk::of(process, &window, DiskFault::Hangs)));
    let wanted = world.settle();
    wait_head(world.server(), wanted);
    let (took, output) = world.stop(|| disk.take().map_or((), FailingDisk::mend));
    assert!(took < ENDS_WITHIN, "it ended after {took:?}");
    assert!(output.contains(WINDOW_IS_LOST), "{output}");
    assert!(!output.contains(USAGE_IS_LOST), "{output}");
    assert!(!output.contains(STORE_IS_OPEN), "{output}");
}

/// It ends by itself, and says why.
fn check_ends(stuck: Process) {
    wait_until("ended", || stuck.has_exited());
    failing_disk::mend(&stuck);
    let output = stuck.check_end(1);
    let expected = "cannot be read and written (the disk does not answer)";
    assert!(output.contains(expected), "{output}");
}

/// A nearhead that cannot know which keys are in force.
fn start_over_tenants_that_hang() -> Process {
    let data = scratch("faults-hangs-tenants");
    let server = Server::on_data(&data, &[]);
    server.process.terminate();
    server.process.check_end(0);
    let command = nearhead([
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data.to_str().unwrap(),
    ]);
    let tenants = tenants_of(&data);
    Process::start(&mut failing_disk::with_failing_disk(
        &command,
        &tenants,
        DiskFault::Hangs,
    ))
}
