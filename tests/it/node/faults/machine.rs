//! The clock, the names of hosts, the disk and file descriptors.

use std::{fs, net::TcpStream, path::Path, process::Command, time::Instant};

use super::world::{PLAIN, World};
use crate::{
    harness::{Process, after, installed, run_by, scratch, wait_until},
    node::{wait_head, wait_logged},
};

/// The same command, with mounts that only its process has.
fn with_mounts(mounts: &str, command: &Command, variables: &[(&str, &Path)]) -> Command {
    let mut unshared = Command::new("unshare");
    unshared.args(["--mount", "--propagation", "private"]);
    run_by(unshared, &after(mounts, command, variables))
}

/// Runs commands where this process sees its mounts.
fn in_mounts_of(process: &Process, commands: &str) {
    let id = process.id().to_string();
    let status = Command::new("nsenter")
        .args(["--target", &id, "--mount", "bash", "-c", commands])
        .status();
    assert!(status.unwrap().success(), "{commands}");
}

#[test]
fn the_clock_is_set_back_and_forth() {
    let clock = scratch("faults-clock").join("clock");
    let set = |text: &str| fs::write(&clock, text).unwrap();
    set("+0");
    let library = installed("tests/.tools/faketime/libfaketimeMT.so.1");
    let mut world = World::of("faults-clock", &|_, mut command| {
        command
            .env("LD_PRELOAD", &library)
            .env("FAKETIME_TIMESTAMP_FILE", &clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
        command
    });
    world.survives(
        "the clock is a day ahead",
        |world| {
            set("+1d");
            let wanted = world.go_on();
            wait_head(world.server(), wanted);
        },
        |_| set("+0"),
    );
    world.survives(
        "the clock is behind the chain",
        |world| {
            set("-40y");
            world.go_on();
            wait_logged(
                world.server(),
                "the block waits because it is ahead of our clock",
            );
        },
        |_| set("+0"),
    );
}

#[test]
fn the_name_of_the_node_fails_and_changes() {
    let hosts = scratch("faults-names").join("hosts");
    let set = |text: &str| fs::write(&hosts, text).unwrap();
    set("127.0.0.1 localhost\n");
    let mut world = World::without_server("faults-names");
    // geth answers to this name alone.
    let url = format!("http://localhost:{}", world.proxy.address.port());
    let mounts = "mount --bind \"$HOSTS\" /etc/hosts";
    world.start_at(&url, &|_, mut command| {
        // A name that is not in the file is asked of a server, once and for a second.
        command.env("RES_OPTIONS", "timeout:1 attempts:1");
        with_mounts(mounts, &command, &[("HOSTS", &hosts)])
    });
    for (what, text) in [
        ("the node has no address", "127.0.0.1 another.test\n"),
        (
            "the node has the address of no machine",
            "127.0.0.77 localhost\n",
        ),
    ] {
        world.survives(
            what,
            |world| {
                set(text);
                world.proxy.disconnect();
                world.go_on();
                wait_until("it is noticed", || {
                    world.proxy.disconnect();
                    !world.is_ready()
                });
            },
            |_| set("127.0.0.1 localhost\n"),
        );
    }
}

/// What nearhead writes cannot be written. Who reads does not notice.
#[test]
fn the_disk_is_full() {
    let mut world = World::without_server("faults-disk");
    let mounts = "mount -t tmpfs -o size=64m nearhead-test \"$DATA\"";
    let data = world.data.clone();
    world.start(&|_, command| with_mounts(mounts, &command, &[("DATA", &data)]));
    let filler = data.join("filler").display().to_string();
    let writes = |world: &World, outcome: &str| {
        let series = format!("nearhead_saved_writes_total{{outcome=\"{outcome}\"}}");
        world.server().metric(&series)
    };
    let written = writes(&world, "written");
    world.survives(
        "the disk is full",
        |world| {
            let fill = format!("cat /dev/zero >{filler} 2>/dev/null || true");
            in_mounts_of(&world.server().process, &fill);
            let wanted = world.go_on();
            wait_head(world.server(), wanted);
            wait_until("a write fails", || writes(world, "failed") > 0.0);
            assert!(world.is_ready());
        },
        |world| in_mounts_of(&world.server().process, &format!("rm {filler}")),
    );
    wait_until("it is written again", || {
        writes(&world, "written") > written
    });
}

/// An operator who named the folder learns that it cannot be used.
#[test]
fn the_disk_is_read_only() {
    let mut world = World::of("faults-read-only", PLAIN);
    let saved = r#"nearhead_saved_writes_total{outcome="written"}"#;
    wait_until("saved", || world.server().metric(saved) > 0.0);
    world.kill();
    let mounts = "mount --bind \"$DATA\" \"$DATA\"; mount -o remount,bind,ro \"$DATA\"";
    let command = world.command();
    let data = world.data.clone();
    let mut refused = with_mounts(mounts, &command, &[("DATA", &data)]);
    let output = Process::start(&mut refused).check_end(1);
    assert!(
        output.contains("give a --data-dir that can be written"),
        "{output}"
    );
    let began = Instant::now();
    world.start(PLAIN);
    world.recovers("the disk can be written", world.head(), began);
}

/// The first clients get all that are left, and the others wait.
#[test]
fn descriptors_are_used_up() {
    let mut world = World::of("faults-descriptors", &|_, command| {
        after("ulimit -n 700", &command, &[])
    });
    world.survives(
        "clients take all descriptors",
        |world| {
            let server = world.server();
            wait_logged(server, "fewer connections than configured");
            let crowd: Vec<_> = (0..400)
                .map(|_| TcpStream::connect(server.address).unwrap())
                .collect();
            let connections = || {
                let kinds = ["accepted", "none"].map(|key| {
                    let labels = format!("{{key=\"{key}\",listener=\"public\"}}");
                    server.metric(&format!("nearhead_connections{labels}"))
                });
                kinds.iter().sum::<f64>()
            };
            wait_until("many are let in", || connections() > 32.0);
            assert!(connections() < 200.0);
            let wanted = world.go_on();
            // The node is followed, and operators see it.
            wait_until("followed", || {
                let ready = world.server().get_admin("/ready");
                ready.text().contains(&format!("\"head\":{}", wanted.0))
            });
            drop(crowd);
        },
        |_| {},
    );
}
