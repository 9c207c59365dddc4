//! Blocks with 8 MiB of extra data are refused, and cost a bounded amount of memory.

use std::fs;

use alloy_primitives::Bytes;

use super::{Claims, HonestChain, SECONDS, Target, check, http, wait_until};
use crate::{
    harness::Process,
    node::{faults, ws},
    upstreams::proxy::{Change, Fault, Lie, Proxy},
};

/// Blocks of the invented chain.
const BLOCKS: usize = 14;

/// Most MiB that a process may grow by.
const MIB_MAX: u64 = 200;

/// Sets the peak of a process's resident memory to what is resident now, and returns that in MiB.
fn reset_peak(process: &Process) -> u64 {
    // 5: the peak (proc(5)).
    fs::write(format!("/proc/{}/clear_refs", process.id()), "5").unwrap();
    peak(process)
}

/// The most MiB of a process that have been resident at once since the last reset.
fn peak(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib >> 10
}

/// The node is the only one, so that only the bounds on answers keep its blocks out: once it names
/// its heads in full, and once in brief, so that the blocks themselves are fetched.
#[test]
fn large_extra_data_is_refused() {
    let mut chain = HonestChain::start(SECONDS);
    let large = Bytes::from(vec![0x42; 8 << 20]);
    for is_brief in [false, true] {
        let liar = chain.liar();
        let target = Target::follow(&[http(liar.address)], &[]);
        let mut parent = liar.real_header(chain.head().0);
        let blocks = (0..BLOCKS).map(|_| {
            let block = liar.invent(&parent, |header| header.extra_data = large.clone());
            parent = block.header.clone();
            block
        });
        let claims = Claims {
            is_brief,
            ..Claims::chain(&blocks.collect::<Vec<_>>())
        };
        let before = reset_peak(&target.server.process);
        liar.claim(claims);
        let (reason, least) = match is_brief {
            true => ("malformed_member", BLOCKS),
            false => ("malformed", 0),
        };
        wait_until("refused", || {
            target.check_honest(&chain);
            let refused = faults(&target.server, 0).get(reason).copied();
            refused.is_some() && liar.blocks_given() >= least
        });
        let most = peak(&target.server.process);
        println!("is_brief {is_brief}: {before} MiB, at most {most} MiB");
        assert!(most - before < MIB_MAX, "{before} MiB, at most {most} MiB");
        check(
            "the head stands",
            &target.check_honest(&chain),
            &chain.head(),
        );
        liar.be_honest();
        chain.mine();
        target.wait_honest_head(&chain);
    }
}

/// Over WebSocket, an answer is in memory before its length is known, and the next one follows at
/// once. The receipts of many blocks are asked for at a time.
#[test]
fn large_answers_are_refused_over_websocket() {
    let mut chain = HonestChain::start(SECONDS);
    let proxy = Proxy::to(&[chain.anvil.address]);
    let target = Target::follow(&[ws(proxy.address)], &[]);
    let large = format!("[\"0x{}\"]", "42".repeat(8 << 20));
    let becomes = Change::Becomes(large.leak());
    proxy.fail(vec![Fault::Lie(Lie::about(
        &["eth_getBlockReceipts"],
        "",
        becomes,
    ))]);
    let (before, honest) = (reset_peak(&target.server.process), chain.head());
    for _ in 0..BLOCKS {
        chain.mine();
    }
    wait_until("refused", || {
        check("the head stands", &target.check_honest(&chain), &honest);
        // After each, it waits longer before it asks again.
        !faults(&target.server, 0).is_empty() && proxy.applied() >= 6
    });
    let most = peak(&target.server.process);
    println!("over WebSocket: {before} MiB, at most {most} MiB");
    assert!(most - before < MIB_MAX, "{before} MiB, at most {most} MiB");
    proxy.heal();
    target.wait_honest_head(&chain);
}
