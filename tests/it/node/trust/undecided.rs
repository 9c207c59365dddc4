//! A node that lies, and no quorum against it: the head stands, or goes on honestly.

use std::time::{Duration, Instant};

use super::{HonestChain, SECONDS, Target, ahead, check, finalized_ahead, http, wait_until};
use crate::{
    node::{GONE, counted, faults},
    upstreams::proxy::Proxy,
};

/// Heads that a liar has to name.
const HEADS: usize = 4;

/// The same while the others are stopped. A node is polled every quarter of a block time, which is
/// a second here: this many take about eleven seconds.
const HEADS_ALONE: usize = 11 * 4;

/// At least so long, with which the attack succeeded once.
const STOPPED_FOR: Duration = Duration::from_secs(11);

#[test]
fn one_of_two_nodes_does_not_move_the_head() {
    let mut chain = HonestChain::start(SECONDS);
    let liar = chain.liar();
    let target = Target::follow(&[http(liar.address), chain.url()], &[]);
    let (number, _) = chain.head();
    for claims in [
        finalized_ahead(&liar, number),
        ahead(&liar, number, 7),
        ahead(&liar, number, 200),
    ] {
        let before = chain.head();
        let invented = claims.latest.clone().unwrap();
        liar.claim(claims);
        // Nobody confirms the next block.
        let (number, hash) = chain.mine();
        target.check_honest_until(&chain, &liar, HEADS);
        check("the head stands", &target.check_honest(&chain), &before);
        wait_until("not ready", || target.is_below_quorum());
        // One line in the log says what each of them names.
        let honest = format!("{} {number} {hash}", chain.url());
        let (number, hash) = (invented.header.number, invented.hash);
        let lie = format!("{} {number} {hash}", http(liar.address));
        let output = &target.server.process.output;
        output.wait_for("what each node names", |log| {
            let names_both = |line: &str| line.contains(&honest) && line.contains(&lie);
            let mut lines = log.lines().filter(|line| line.contains("the head stands"));
            lines.any(names_both).then_some(())
        });
        // Nothing shows which of them is wrong, so both are counted.
        for node in [0, 1] {
            let dissent = format!("nearhead_node_dissent_total{{node=\"{node}\"}} ");
            wait_until("dissent", || counted(&target.server, &dissent) > 0);
            check("quarantined", &target.is_in(node, "quarantined"), &false);
        }
        liar.be_honest();
        target.wait_honest_head(&chain);
        wait_until("ready", || target.is_ready());
    }
}

/// The honest nodes are stopped, and a process that is stopped answers nothing.
#[test]
fn a_liar_does_not_move_the_head_while_the_others_are_stopped() {
    let mut chain = HonestChain::start(SECONDS);
    let proxy = Proxy::to(&[chain.anvil.address]);
    let liars = [chain.liar(), chain.liar()];
    let [one, two] = liars.each_ref().map(|liar| http(liar.address));
    // One honest node of two, and two of three.
    let targets = [
        Target::follow(&[one, chain.url()], &[]),
        Target::follow(&[two, chain.url(), http(proxy.address)], &[]),
    ];
    let (number, _) = chain.head();
    let stopped_at = Instant::now();
    for liar in &liars {
        let claims = ahead(liar, number, 7);
        liar.cut_off();
        liar.claim(claims);
    }
    for target in &targets {
        // The state of this head is held from now on.
        check("head", &target.check_honest(&chain), &chain.head());
    }
    chain.anvil.process.freeze();
    for (target, liar) in targets.iter().zip(&liars) {
        target.check_honest_until(&chain, liar, HEADS_ALONE);
        wait_until("the others are silent, and it is not ready", || {
            target.check_honest(&chain);
            let faults = faults(&target.server, 1);
            let is_silent = GONE.iter().any(|gone| faults.contains_key(*gone));
            is_silent && target.is_below_quorum()
        });
        check(
            "the head stands",
            &target.check_honest(&chain),
            &chain.head(),
        );
    }
    wait_until("they have been stopped for long enough", || {
        for target in &targets {
            check("head", &target.check_honest(&chain), &chain.head());
        }
        stopped_at.elapsed() >= STOPPED_FOR
    });
    chain.anvil.process.thaw();
    // Two honest nodes decide against the liar; one alone does not.
    let before = chain.head();
    chain.mine();
    targets[1].wait_honest_head(&chain);
    wait_until("ready", || targets[1].is_ready());
    let named = liars[0].heads_named();
    targets[0].check_honest_until(&chain, &liars[0], named + HEADS);
    check("the head stands", &targets[0].check_honest(&chain), &before);
    for liar in &liars {
        liar.be_honest();
    }
    for target in &targets {
        target.wait_honest_head(&chain);
        wait_until("ready", || target.is_ready());
    }
}
