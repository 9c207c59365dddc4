//! What hostile statements can cost, and who is quarantined.

use super::*;
use crate::upstream::agree::{Decision, stated::Stated};
use crate::upstream::test_rng::Rng;

fn decide(scene: &mut Scene, now: Moment) -> Decision {
    let situation = Situation {
        now,
        block_time: BLOCK_TIME,
        held: scene.held.as_ref(),
        head_since: Duration::ZERO,
        links: &scene.links,
        syncing: None,
        nodes: &scene.nodes,
    };
    scene.quorum.decide(&situation)
}

#[test]
fn statements_take_bounded_memory() {
    let mut stated = Stated::default();
    for round in 0..10_000_u64 {
        let number = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = B256::left_padding_from(&round.to_be_bytes());
        let claim = HeadClaim {
            number,
            hash,
            parent_hash: hash,
        };
        stated.head_named(NOW, &claim);
        stated.hash_named(NOW, number ^ round, Some(hash));
        assert!(stated.len() <= Stated::MAX, "{}", stated.len());
    }
    let mut links = Links::default();
    for number in 0..10_000 {
        let hash = |number: u64| B256::left_padding_from(&number.to_be_bytes());
        links.insert((number, hash(number)), hash(number.wrapping_sub(1)));
        assert!(links.len() <= Links::MAX);
    }
    assert_eq!(
        links
            .parent((9_999, B256::left_padding_from(&9_999_u64.to_be_bytes())))
            .map(|(number, _)| number),
        Some(9_998)
    );
}

/// A node that states something else every millisecond does not make us call the others as often.
#[test]
fn announcements_do_not_multiply_calls() {
    let heads = [
        "z101", "z102", "zmax", "a100", "a101", "a102", "d101", "z50",
    ];
    for (pairs, answers) in [
        (&heads[..2], false),
        (&heads[..], false),
        (&heads[..], true),
    ] {
        let mut scene = Scene::new("2 | a50..a100 F=a60 | a100 a100 a100");
        let mut rng = Rng::new(pairs.len() as u64);
        let mut calls = [0; 3];
        let blocks = 8;
        for millisecond in 0..blocks * 4_000 {
            let now = NOW + Duration::from_millis(millisecond);
            let mut named = claim(pairs[rng.below(pairs.len() as u64) as usize]);
            if rng.is_one_in(2) {
                named.hash = B256::left_padding_from(&millisecond.to_be_bytes());
            }
            scene.quorum.heard(now, 2, Said::Head(named));
            if millisecond % 1_000 == 0 {
                for node in 0..2 {
                    scene.quorum.heard(now, node, Said::Head(claim("a100")));
                }
            }
            for ask in decide(&mut scene, now).asks {
                calls[ask.node] += 1;
                let (number, hash) = (ask.number, block(&format!("a{}", ask.number)).1);
                let hash = answers.then_some(hash);
                scene
                    .quorum
                    .heard(now, ask.node, Said::HashAt { number, hash });
            }
        }
        // Pauses that double up to a quarter of a block time.
        let most = calls[0].max(calls[1]);
        assert!(most <= 7 + 4 * blocks, "{pairs:?} {answers}: {calls:?}");
    }
}

#[test]
fn a_minority_that_a_quorum_contradicts_is_quarantined() {
    let after = |blocks: u32| NOW + BLOCK_TIME * blocks;
    let mut scene = Scene::new("2 | a50..a100 | a100 a100 d100");
    let name_heads = |scene: &mut Scene, now, heads: [&str; 3]| {
        for (node, head) in heads.into_iter().enumerate() {
            scene.quorum.heard(now, node, Said::Head(claim(head)));
        }
    };
    let decision = decide(&mut scene, NOW);
    assert!(decision.dissent.is_empty() && decision.quarantined.is_empty());
    name_heads(&mut scene, after(2), ["a100", "a100", "d100"]);
    let decision = decide(&mut scene, after(2));
    assert_eq!(decision.dissent.len(), 1);
    assert_eq!(decision.dissent[0].node, 2);
    assert_eq!(decision.dissent[0].theirs, block("d100"));
    assert_eq!(decision.dissent[0].ours, Some(block("a100").1));
    assert!(decision.quarantined.has(2));
    // It still has its vote, but no block is fetched from it if another node has it.
    name_heads(&mut scene, after(3), ["a100", "a100", "a101"]);
    let decision = decide(&mut scene, after(3));
    assert_eq!(decision.fetch, None);
    name_heads(&mut scene, after(3), ["a101", "a100", "a101"]);
    let decision = decide(&mut scene, after(3));
    assert_eq!(decision.adopt, Some(block("a101")));
    assert_eq!(decision.fetch.map(|fetch| fetch.from), Some(0));
    // It ends after sixteen block times on the served chain.
    name_heads(&mut scene, after(4), ["a100"; 3]);
    assert!(decide(&mut scene, after(4)).quarantined.has(2));
    name_heads(&mut scene, after(19), ["a100"; 3]);
    assert!(decide(&mut scene, after(19)).quarantined.has(2));
    name_heads(&mut scene, after(20), ["a100"; 3]);
    assert!(decide(&mut scene, after(20)).quarantined.is_empty());
}

/// A moment of agreement between two lies does not keep a liar out of quarantine. One orphaned
/// block now and then does not lead to it.
#[test]
fn a_liar_that_agrees_in_between_is_quarantined() {
    for (lies, halves, is_quarantined) in [(1, 2, true), (1, 8, false), (5, 6, true)] {
        let mut scene = Scene::new("2 | a50..a100 | a100 a100 a100");
        for half in 0..48 {
            let now = NOW + BLOCK_TIME / 2 * half;
            let third = if half % halves < lies { "d100" } else { "a100" };
            for (node, head) in ["a100", "a100", third].into_iter().enumerate() {
                scene.quorum.heard(now, node, Said::Head(claim(head)));
            }
            let quarantined = decide(&mut scene, now).quarantined;
            assert!(
                half < 8 || quarantined.has(2) == is_quarantined,
                "{lies} {halves} {half}"
            );
        }
    }
}

/// Where two forks can both have a quorum, disagreement is an alarm and nobody is quarantined.
#[test]
fn a_quorum_of_at_most_half_quarantines_nobody() {
    let mut scene = Scene::new("1 | a50..a100 linked=d100 | a100 d100");
    decide(&mut scene, NOW);
    let now = NOW + BLOCK_TIME * 2;
    for (node, head) in ["a100", "d100"].into_iter().enumerate() {
        scene.quorum.heard(now, node, Said::Head(claim(head)));
    }
    let decision = decide(&mut scene, now);
    assert!(!decision.dissent.is_empty());
    assert!(decision.quarantined.is_empty());
}

/// How many nodes agree is reported, so that readers are told how many are missing.
#[test]
fn the_votes_are_counted() {
    for (text, want) in [
        ("2 | a50..a100 | a100 - -", 1),
        ("2 | a50..a100 | a100 a99 d100", 2),
        ("3 | a50..a100 | a100 d100 b100", 1),
        ("2 | a50..a100 | a101 a101 a101", 3),
        ("2 | | a101 a101 z7", 2),
    ] {
        let mut scene = Scene::new(text);
        assert_eq!(decide(&mut scene, NOW).agreeing, want, "{text}");
    }
}
