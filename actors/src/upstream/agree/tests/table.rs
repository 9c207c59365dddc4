//! The table of decisions. docs/nodes.md says the same in words.

use std::collections::BTreeSet;

use super::*;
use crate::upstream::agree::{Choice, Decision, NodeSet};

/// The situation, and what is decided: the choice, the head that is adopted, and, where there are
/// any, the fetch, the questions, the chain that is refused, and who contradicts a quorum.
#[rustfmt::skip]
const ROWS: &[(&str, &str, &str)] = &[
    // The start.
    ("one of one", "1 | | a100", "first a100; fetch a100 of 0"),
    ("two of two", "2 | | a100 a100", "first a100; fetch a100 of 0"),
    ("the parent of a head counts", "2 | | a101 a100", "first a100; fetch a100 of 0"),
    ("a node further ahead is asked", "2 | | a110 a100", "checking; ask 0@100"),
    ("its answer counts", "2 | | a110,?100=a100 a100", "first a100; fetch a100 of 0"),
    ("the highest one comes first", "2 | | a101,a102 a101,a102 a100", "first a102; fetch a102 of 0"),
    ("but a sync goes on", "2 | sync=a101 | a101,a102 a101,a102 a100", "first a101; fetch a101 of 0"),
    ("one of two", "2 | | a100 -", "too_few_nodes"),
    ("a silent node does not count", "2 | | a100 a100@7,!", "too_few_nodes"),
    ("a syncing node does not count", "2 | | a100 a100,syncing", "too_few_nodes"),
    ("a node that failed does not count", "2 | | a100 a100,failed", "too_few_nodes"),
    ("two forks of one block have a common parent", "2 | | a101 d101,?99=a99", "checking; ask 0@99; against 0 a101 1 d101"),
    ("two forks: a common block, and then the highest one", "2 | | a101,?98=a98@1 b101,?98=a98@1", "first a98; fetch a98 of 0; ask 0@99 1@99"),
    ("no question at once after an answer", "2 | | a101,?98=a98 b101,?98=a98", "first a98; fetch a98 of 0"),
    ("a liar far above", "2 | | a100 zmax a100", "first a100; fetch a100 of 0"),
    ("a liar far above at first", "2 | | zmax a100 a100", "first a100; fetch a100 of 1"),
    ("a liar that never answers hides no agreement", "2 | | zmax a110 a100", "checking; ask 0@110 1@100"),
    ("a liar below", "2 | | z5 a100 a100", "first a100; fetch a100 of 1"),
    ("the one with the finalized block unknown", "2 | F=a90 | a100 a100", "checking; fetch a100 of 0; ask 0@90 1@90"),
    ("the one with the finalized block", "2 | F=a90 | a100,?90=a90 a100,?90=a90", "first a100; fetch a100 of 0"),
    ("the one without the finalized block", "2 | F=a90 | c100,?90=c90 c100,?90=c90", "finalized; refused finalized c100 by 0 1; against 0 c100 1 c100"),
    ("forks above the finalized block", "2 | F=a99 | a101,?99=a99@1,?98=a98@1 b101,?99=b99@1,?98=a98@1", "disagree; against 0 a101 1 b101"),
    ("a voter that does not say whether it has the finalized block", "2 | F=a90 | a110,?90=a90 a110,?90=none a109", "checking; fetch a110 of 0; ask 2@90"),
    ("a lower block whose voters say so", "2 | F=a90 | a110,?90=a90 a110,?90=none a109,?90=a90", "first a109; fetch a109 of 0"),
    ("below the finalized block", "2 | F=a110 | a100 a100", "behind; refused behind a100 by 0 1"),
    ("without a trusted block", "2 | T=a90 | c100,?90=c90 c100,?90=c90", "untrusted; refused untrusted c100 by 0 1; against 0 c100 1 c100"),
    ("a trusted block replaces a finalized one below it", "1 | F=a85 T=c90 | c100,?90=c90", "first c100; fetch c100 of 0"),
    // The next head.
    ("one of one names the next", "1 | a50..a100 F=a60 | a101", "extend a101; fetch a101 of 0"),
    ("one of three names the next", "2 | a50..a100 | a101 a100 a100", "keep; prefetch a101 of 0; ask 1@101 2@101"),
    ("another one has it", "2 | a50..a100 | a101 a100,?101=a101 a100", "extend a101; fetch a101 of 0"),
    ("it has not", "2 | a50..a100 | a101 a100,?101=none a100", "keep; prefetch a101 of 0; ask 2@101"),
    ("nodes that are not at the same block", "2 | a50..a100 | a103 a101 a100", "keep; prefetch a101 of 1; ask 0@101 2@101"),
    ("too far to be fetched on one word", "2 | a50..a100 | a110 a100 a100", "keep; ask 0@100"),
    ("a node that missed blocks", "2 | a50..a100 F=a60 | a110 a110 a100", "checking; fetch a110 of 0; ask 0@60 1@60"),
    ("what nodes stated before a jump shows nothing", "2 | a50..a100 F=a60 | a100@1,c300 a100@1,c300 -", "keep; fetch c300 of 0; ask 0@60 1@60"),
    ("its path is known", "2 | a50..a100 F=a60 linked=c110 | c110 c110 -", "replace c110; fetch c110 of 0"),
    ("a busy node is not asked for blocks", "2 | a50..a100 | busy,a101 a101 a100", "extend a101; fetch a101 of 1"),
    ("if no voter gives blocks, one is asked whose calls for heads fail", "2 | a50..a100 | busy,a101 busy,a101 a100,failed", "extend a101; fetch a101 of 2"),
    ("it is not asked otherwise", "2 | a50..a100 | busy,a101 a101 a100,failed", "extend a101; fetch a101 of 1"),
    ("a sync goes on", "2 | a50..a100 sync=a101 | a100,a101,a102 a101,a102 a100", "extend a101; fetch a101 of 0"),
    ("a sync that has lost its quorum does not", "2 | a50..a100 sync=d101 | a101 a101 d101", "extend a101; fetch a101 of 0; against 2 d101"),
    ("all are behind", "2 | a50..a100 | a99 a98 a97", "keep"),
    ("restarted nodes are behind", "2 | a50..a100 | a100@20,failed,a95@18 a100@20,failed,a95@18", "keep"),
    ("lies above the served head", "2 | a50..a100 | a100 a100 z101", "keep; prefetch z101 of 2; ask 0@101 1@101; against 2 z100"),
    ("a liar that names numbers without end", "2 | a50..a100 | a100 a100 zmax", "keep; ask 2@100"),
    ("the lowest of several heads is fetched, so that a liar's cannot hide it", "2 | a50..a100 | z102 a101 a100", "keep; prefetch a101 of 1; ask 2@101 0@100"),
    ("of a long branch that one node names, a few blocks are fetched", "2 | a50..a100 known=z101..99 | z101 a100 a100", "keep; prefetch z101 of 0; ask 1@101 2@101; against 0 z100"),
    ("and no more", "2 | a50..a100 known=z101..98 | z101 a100 a100", "keep; against 0 z100"),
    ("one voter of two denies the finalized block", "2 | a50..a100 F=a60 | a110,?60=a60 a110,?60=z60 -", "checking; fetch a110 of 0"),
    ("a third one has it", "2 | a50..a100 F=a60 | a110,?60=a60 a110,?60=z60 a110,?60=a60", "extend a110; fetch a110 of 0"),
    ("the next block waits while a higher one is checked", "2 | a50..a100 F=a60 since=1 | z130,?60=a60,?101=a101 a110,?60=a60,?101=a101 a110", "checking; fetch a110 of 1; ask 2@60"),
    ("for a block time", "2 | a50..a100 F=a60 since=2 | z130,?60=a60,?101=a101 a110,?60=a60,?101=a101 a110", "extend a101; fetch a101 of 0; ask 2@60"),
    // Standing.
    ("two of two on forks", "2 | a50..a100 | a100 d100", "disagree; against 0 a100 1 d100"),
    ("two of two, one silent", "2 | a50..a100 | a100 a99@7,!", "too_few_nodes"),
    ("two of two, by explicit choice one", "1 | a50..a100 | a101 a99@7,!", "extend a101; fetch a101 of 0"),
    ("three forks", "2 | a50..a100 | a100 d100 b100", "disagree; against 0 a100 1 d100 2 b100"),
    // Reorgs.
    ("a jump: what was stated before shows nothing", "2 | a50..a100 F=a60 | a100@2,c250 a100@2,c250 a100", "keep; fetch c250 of 0; ask 0@60 1@60"),
    ("a jump to another chain", "2 | a50..a100 F=a90 | a100@2,c250,?90=c90 a100@2,c250,?90=c90 a100", "keep; refused finalized c250 by 0 1"),
    ("at the same height", "2 | a50..a100 | d100 d100 a100", "replace d100; fetch d100 of 0; against 2 a100"),
    ("one block higher", "2 | a50..a100 | d101 d101 a100", "replace d101; fetch d101 of 0"),
    ("lower, just now", "2 | a50..a102 | a102@9,d100 a102@9,d100 a102", "disagree; fetch d100 of 0; against 2 a100"),
    ("lower, for half a block time", "2 | a50..a102 | a102@9,d100@1 a102@9,d100@1 a102", "replace d100; fetch d100 of 0; against 2 a100"),
    ("of one node", "2 | a50..a100 | d101 a100 a100", "keep; prefetch d101 of 0; ask 1@101 2@101; against 0 d100"),
    ("a reorg below the finalized block", "2 | a50..a100 F=a90 linked=c101 | c101 c101 a100", "finalized; refused finalized c101 by 0 1; against 0 c101 1 c101"),
    ("a reorg below a trusted block", "2 | a50..a100 T=a90 linked=c101 | c101 c101 a100", "untrusted; refused untrusted c101 by 0 1; against 0 c101 1 c101"),
    ("gone back, just now", "1 | a50..a100 | a100@9,a95@5", "keep"),
    ("gone back for three block times", "1 | a50..a100 | a100@9,a95@6", "go_back a95; fetch a95 of 0"),
    ("gone back below the finalized block", "1 | a50..a100 F=a98 | a100@9,a95@6", "keep; refused behind a95 by 0"),
    ("one of three gone back", "2 | a50..a100 | a100@9,a95@6 a100 a100", "keep"),
    // A quorum of at most half.
    ("two forks have a quorum", "1 | a50..a100 linked=d101 | a100 d101", "contested; refused contested d101 by 1; against 1 d100"),
    ("the served one goes on", "1 | a50..a100 linked=d102 | a101 d102", "extend a101; fetch a101 of 0; refused contested d102 by 1; against 1 d101"),
    ("the served one stands still", "1 | a50..a100 linked=d101 | a100@6 d101", "replace d101; fetch d101 of 1; against 1 d100"),
    ("both stand still", "1 | a50..a100 linked=d101 | a100@6 d101@6", "contested; refused contested d101 by 1; against 1 d100"),
    ("the served one is higher", "1 | a50..a102 | a102 d101", "contested; against 1 d101"),
    ("it is not known whether it is a fork", "1 | a50..a100 | a100 d105", "keep; fetch d105 of 1; ask 1@100"),
];

fn show(decision: &Decision) -> String {
    let set = |nodes: NodeSet| {
        let nodes: Vec<String> = nodes.iter().map(|node| node.to_string()).collect();
        nodes.join(" ")
    };
    let mut text = decision.choice.label().to_owned();
    if let Some(adopt) = decision.adopt {
        text += &format!(" {}", name(adopt));
    }
    if let Some(fetch) = decision.fetch {
        let verb = if fetch.is_agreed { "fetch" } else { "prefetch" };
        text += &format!("; {verb} {} of {}", name(fetch.to), fetch.from);
    }
    if !decision.asks.is_empty() {
        text += "; ask";
        for ask in &decision.asks {
            text += &format!(" {}@{}", ask.node, ask.number);
        }
    }
    if let Some(refusal) = decision.refusal {
        let (choice, head) = (refusal.choice.label(), name(refusal.head));
        text += &format!("; refused {choice} {head} by {}", set(refusal.by));
    }
    if !decision.dissent.is_empty() {
        text += "; against";
        for dissent in &decision.dissent {
            text += &format!(" {} {}", dissent.node, name(dissent.theirs));
        }
    }
    text
}

#[test]
fn decisions() {
    let mut failures = String::new();
    let mut choices = BTreeSet::new();
    for (case, text, want) in ROWS {
        let mut scene = Scene::new(text);
        // The pure function, without the memory of who has dissented for how long.
        let decision = scene.situation(|quorum, at| quorum.decide_now(at));
        choices.insert(decision.choice.label());
        let found = show(&decision);
        if found != *want {
            failures += &format!("{case}: {text}\n  want  {want}\n  found {found}\n");
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    for choice in Choice::ALL {
        assert!(choices.contains(choice.label()), "no row has {choice:?}");
    }
}
