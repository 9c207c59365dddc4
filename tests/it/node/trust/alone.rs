//! The only node names extreme numbers. What it says is served then; but no number ends the
//! process, and its honest head is followed afterwards.

use super::{EXTREMES, HonestChain, SECONDS, check, follow_with, http, wait_head, wait_until};
use crate::harness::{Server, serving};

/// Heads that the liar has to name.
const HEADS: usize = 6;

#[test]
fn no_number_ends_the_process() {
    let mut chain = HonestChain::start(SECONDS);
    let (number, _) = chain.head();
    let liars = EXTREMES.map(|(name, claims)| {
        let liar = chain.liar();
        let claims = claims(&liar, number);
        (name, liar, claims)
    });
    // Half of the servers start before the lie, and half while it lasts.
    let servers: Vec<Server> = std::thread::scope(|scope| {
        let before = liars.iter().map(|(_, liar, _)| {
            let url = http(liar.address);
            scope.spawn(move || follow_with(&[url], &[]))
        });
        let before: Vec<_> = before.collect();
        let mut servers: Vec<_> = before.into_iter().map(|one| one.join().unwrap()).collect();
        for (_, liar, claims) in &liars {
            liar.claim(claims.clone());
        }
        let while_lying = liars.iter().map(|(_, liar, _)| {
            let url = http(liar.address);
            scope.spawn(move || {
                let arguments = ["--source", "node", "--head-age-max", "off", "--node", &url];
                Server::listening(&mut serving(&arguments))
            })
        });
        let while_lying: Vec<_> = while_lying.collect();
        for (name, liar, _) in &liars {
            // Those that start name it too.
            wait_until(&format!("{name}: heard"), || {
                liar.heads_named() >= 2 * HEADS
            });
            for server in &servers {
                check(name, &server.get("/health").status, &200);
            }
        }
        chain.mine();
        for (_, liar, _) in &liars {
            liar.be_honest();
        }
        servers.extend(while_lying.into_iter().map(|one| one.join().unwrap()));
        servers
    });
    for _ in 0..2 {
        for server in &servers {
            wait_head(server, chain.head());
        }
        chain.mine();
    }
}
