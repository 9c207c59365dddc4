//! The table of safe and finalized blocks.

use super::*;

/// The situation, and the safe and the finalized block after it.
#[rustfmt::skip]
const ROWS: &[(&str, &str, &str)] = &[
    ("nobody claims anything", "1 | a50..a100 | a100", "- -"),
    ("one of one", "1 | a50..a100 | a100,f=a90", "a90 a90"),
    ("one of two", "2 | a50..a100 | a100,f=a90 a100", "- -"),
    ("the lower of two", "2 | a50..a100 | a100,f=a90 a100,f=a92", "a90 a90"),
    ("the second of three", "2 | a50..a100 | a100,f=a90 a100,f=a99 a100,f=a92", "a92 a92"),
    ("a block that does not exist", "2 | a50..a100 | a100,f=zmax a100,f=a92 a100", "a92 a92"),
    ("two blocks that do not exist", "2 | a50..a100 | zmax,f=zmax z101,f=z99 a100,f=a92", "- -"),
    ("a block of another chain", "2 | a50..a100 | a100,f=c92 a100,f=a92 a100", "- -"),
    ("above the served head", "2 | a50..a100 | a100,a101,a102,f=a102 a100,f=a92 a100", "a92 a92"),
    ("above the served head, by an answer", "2 | a50..a100 | a105,f=a102,?100=a100 a100,f=a92 a100", "a92 a92"),
    ("above the served head, linked by verified blocks", "2 | a50..a100 linked=d105 | d105,f=d102 a100,f=a92 a100", "- -"),
    ("above the served head, which it has left", "1 | a50..a100 | a100@5,a105,f=a102", "- -"),
    ("above the served head, on an unknown branch", "2 | a50..a100 | a105,f=a102 a100,f=a92 a100", "- -"),
    ("all above the served head", "1 | a50..a100 | a101,f=a101", "a100 a100"),
    ("never back", "1 | a50..a100 F=a95 | a100,f=a90", "a95 a95"),
    ("safe goes back only in a reorg", "1 | a50..a100 F=a90 S=a97 | a100,s=a95", "a97 a90"),
    ("safe in a reorg", "1 | c50..c100 F=a70 S=a97 | c100,s=c95", "c95 a70"),
    ("safe is at least finalized", "1 | a50..a100 F=a90 | a100,s=a80", "a90 a90"),
    ("a silent node's claim", "1 | a50..a100 | a100@7,f=a90,! a100", "- -"),
    ("below the window", "2 | a95..a100 | a100,f=a90 a100,f=a90", "- -"),
    ("below the window: a block of another chain", "1 | a95..a100 F=a80 | a100,f=c90", "a80 a80"),
    ("below the window and in it", "2 | a95..a100 | a100,f=a90 a100,f=a96", "- -"),
    ("it falls below the window", "2 | a95..a100 F=a90 S=a92 | a100,f=a90 a100,f=a90", "a92 a90"),
    ("before the first block", "1 | F=a90 | a100,f=a95", "- a90"),
    ("safe before a restart", "2 | a50..a100 F=a90 R=a97 | a100,s=a95 a100,s=a95", "a97 a90"),
    ("safe before a restart, and a later one", "1 | a50..a100 R=a97 | a100,s=a98", "a98 -"),
    ("safe before a restart, and reverted", "1 | c50..c100 F=a70 R=a97 | c100,s=c95", "c95 a70"),
    ("safe before a restart, on another branch", "1 | a50..a100 S=a92 R=c97 | a100,s=a90", "a92 -"),
    ("safe before a restart, above the head", "1 | a50..a96 F=a90 R=a97 | a96", "a90 a90"),
    ("safe before a restart, below the window", "1 | a95..a100 R=a92 | a100", "- -"),
    ("safe before a restart, below the finalized block", "1 | a50..a100 F=a90 R=a80 | a100", "a90 a90"),
    ("safe before a restart, before the first block", "1 | F=a90 R=a95 | a100", "- a90"),
];

#[test]
fn settled_blocks() {
    let mut failures = String::new();
    for (case, text, want) in ROWS {
        let mut scene = Scene::new(text);
        let SettledBlocks { safe, finalized } = scene.situation(|quorum, at| quorum.settle(at));
        let show = |point: Option<Point>| point.map_or("-".to_owned(), name);
        let found = format!("{} {}", show(safe), show(finalized));
        if found != *want {
            failures += &format!("{case}: {text}\n  want  {want}\n  found {found}\n");
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// What was safe before a restart waits until the window has a block of its number.
#[test]
fn a_saved_safe_block_is_shown_by_the_window() {
    for (reached, expected) in [('a', Some(block("a92"))), ('c', None)] {
        let mut scene = Scene::new("1 | a95..a100 R=a92 | a100");
        let safe = |scene: &mut Scene| scene.situation(|quorum, at| quorum.settle(at).safe);
        assert_eq!(safe(&mut scene), None);
        // A process that ends before that leaves it to the next one.
        assert_eq!(scene.quorum.to_save().safe, Some(block("a92")));
        let served = |branch, oldest| ServedBranch {
            branch,
            oldest,
            head: 100,
        };
        scene.held = Some(served(reached, 92));
        assert_eq!(safe(&mut scene), expected, "{reached}");
        assert_eq!(scene.quorum.to_save().safe, expected, "{reached}");
        // A block that was contradicted does not come back.
        scene.held = Some(served('a', 90));
        assert_eq!(safe(&mut scene), expected, "{reached}");
    }
}
