//! The first node is of another chain than the other two: these are followed.

use super::{HonestChain, SECONDS, Target, check, http, wait_until};
use crate::{
    node::{
        comparison::{ANVIL_EMPTY, Comparison},
        faults,
    },
    upstreams::{Anvil, proxy::Proxy},
};

#[test]
fn a_node_of_another_chain_is_outvoted_by_two() {
    let mut chain = HonestChain::start(SECONDS);
    let proxy = Proxy::to(&[chain.anvil.address]);
    // Another chain id; and the same chain id, with another genesis.
    let others = ["77", "31337"].map(|id| {
        let mut other =
            Anvil::start(&["--no-mining", "--chain-id", id, "--timestamp", "1700000000"]);
        other.mine(60);
        other
    });
    let urls = others.each_ref().map(|other| http(other.address));
    let targets = urls.map(|other| Target::follow(&[other, chain.url(), http(proxy.address)], &[]));
    for target in &targets {
        wait_until("the fault wrong_chain", || {
            target.check_honest(&chain);
            faults(&target.server, 0).contains_key("wrong_chain")
        });
    }
    for _ in 0..3 {
        chain.mine();
        for target in &targets {
            target.wait_honest_head(&chain);
        }
    }
    for target in &targets {
        let mut comparison = Comparison::between(&target.server, chain.anvil.address);
        comparison.chain();
        comparison.blocks(0..=chain.head().0);
        comparison.finish(ANVIL_EMPTY);
        check("ready", &target.is_ready(), &true);
    }
}
