//! What a leader appends, in which order, and what it keeps.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::Bytes;

use super::*;
use crate::{
    block_id::EntryBlock,
    entry::{HeadChange, SnapshotPart},
};

const LIMITS: LogLimits = LogLimits {
    snapshot_every: 4,
    snapshot_gap: 2,
    margin_entries: 2,
    margin_bytes: 1_000_000,
    part_bytes: 20,
    store_entries: 100,
};

fn leader(limits: LogLimits) -> Leader {
    let key = FleetKey::new(&[7; 32], b"chain").unwrap();
    Leader::new(key, 3, limits)
}

fn id(number: u64, branch: u8) -> BlockId {
    let mut hash = B256::with_last_byte(u8::try_from(number).unwrap());
    hash[0] = branch;
    BlockId { number, hash }
}

fn chain(ids: impl IntoIterator<Item = BlockId>) -> HeldChain {
    let mut chain = HeldChain::new(8);
    ids.into_iter().for_each(|id| chain.push(id).unwrap());
    chain
}

/// Blocks of ten bytes with these ids.
fn blocks(ids: &[BlockId]) -> Vec<EntryBlock> {
    let blocks = ids.iter().map(|id| EntryBlock {
        id: *id,
        parent: B256::ZERO,
        bytes: Bytes::from_static(b"0123456789"),
    });
    blocks.collect()
}

fn plan(leader: &mut Leader, own: &HeldChain) -> Option<Plan> {
    leader.plan(own, Settled::default(), |_| 10)
}

/// Plans and appends one entry; a word for what it was.
fn append(leader: &mut Leader, own: &HeldChain, is_wanted: bool) -> (String, u64) {
    let settled = Settled::default();
    let (text, content) = match plan(leader, own).unwrap() {
        Plan::Part {
            part,
            parts,
            head,
            blocks: ids,
        } => (
            format!("part {part} of {parts}: {}", ids.len()),
            Content::Snapshot(SnapshotPart {
                part,
                parts,
                head,
                blocks: blocks(&ids),
                settled,
                records: 0,
            }),
        ),
        Plan::Change {
            ancestor,
            reverted,
            blocks: ids,
        } => (
            format!("change: {} reverted, {} new", reverted.len(), ids.len()),
            Content::Change(HeadChange {
                ancestor,
                reverted,
                blocks: blocks(&ids),
                settled,
                records: 0,
            }),
        ),
    };
    let append = leader.seal(content).unwrap().clone();
    assert_eq!(plan(leader, own), None, "an entry is in progress");
    leader.appended(append.entry.position, is_wanted);
    (text, append.keep_from)
}

#[test]
fn an_epoch_begins_with_a_snapshot_and_goes_on_with_changes() {
    let mut leader = leader(LIMITS);
    let own = chain((1..=5).map(|number| id(number, 0)));
    assert_eq!(leader.last(), None);
    let texts = [(); 3].map(|()| append(&mut leader, &own, false).0);
    assert_eq!(
        texts,
        ["part 0 of 3: 2", "part 1 of 3: 2", "part 2 of 3: 1"]
    );
    assert_eq!(plan(&mut leader, &own), None);
    let own = chain([id(3, 0), id(4, 1), id(5, 1), id(6, 1)]);
    // An entry is full after two blocks.
    let texts = [(); 2].map(|()| append(&mut leader, &own, false).0);
    let changes = ["change: 2 reverted, 2 new", "change: 0 reverted, 1 new"];
    assert_eq!(texts, changes);
    assert_eq!(leader.last(), Some(Position::new(3, 4)));
    // Nothing is held of what was appended.
    let own = chain([id(60, 0), id(61, 0)]);
    assert_eq!(append(&mut leader, &own, false).0, "part 0 of 1: 2");
}

/// Replicas apply a snapshot at once, and a change as soon as its first part is there.
#[test]
fn a_reorg_is_split_only_if_its_first_part_does_not_lead_back() {
    let old = || chain((1..=6).map(|number| id(number, 0)));
    for (stays, expected) in [
        // Two blocks are as many as an entry has room for.
        (5, "change: 1 reverted, 2 new"),
        (4, "change: 2 reverted, 2 new"),
        (3, "part 0 of 4: 2"),
        (2, "part 0 of 4: 2"),
    ] {
        let mut leader = leader(LIMITS);
        (0..3).for_each(|_| _ = append(&mut leader, &old(), false));
        let new = (1..=8).map(|number| id(number, u8::from(number > stays)));
        let (text, _) = append(&mut leader, &chain(new), false);
        assert_eq!(text, expected, "{stays} stay");
    }
    // A lower head that is the whole change is followed.
    let mut leader = leader(LIMITS);
    (0..3).for_each(|_| _ = append(&mut leader, &old(), false));
    let lower = chain((1..=5).map(|number| id(number, u8::from(number > 3))));
    assert_eq!(
        append(&mut leader, &lower, false).0,
        "change: 3 reverted, 2 new"
    );
}

/// Appends a change of one block for each of these numbers.
fn extend(leader: &mut Leader, numbers: std::ops::RangeInclusive<u64>) -> Vec<(String, u64)> {
    let each = numbers.map(|number| {
        let own = chain((number - 3..=number).map(|number| id(number, 0)));
        append(leader, &own, false)
    });
    each.collect()
}

#[test]
fn a_snapshot_is_appended_again_and_the_margin_before_it_stays() {
    let mut leader = leader(LIMITS);
    let own = chain((1..=4).map(|number| id(number, 0)));
    append(&mut leader, &own, false);
    append(&mut leader, &own, false);
    let all = extend(&mut leader, 5..=8);
    assert!(
        all.iter()
            .all(|(text, keep)| text.starts_with("change") && *keep == 0)
    );
    // The parts are entries 6 and 7. Once the last one is there, two entries before them stay.
    let own = chain((6..=9).map(|number| id(number, 0)));
    assert_eq!(
        append(&mut leader, &own, false),
        ("part 0 of 2: 2".to_owned(), 0)
    );
    assert_eq!(
        append(&mut leader, &own, false),
        ("part 1 of 2: 2".to_owned(), 4)
    );
}

#[test]
fn the_margin_is_bounded_by_bytes() {
    let limits = LogLimits {
        margin_bytes: 1,
        snapshot_every: 1,
        ..LIMITS
    };
    let mut leader = leader(limits);
    let own = chain([id(1, 0), id(2, 0)]);
    append(&mut leader, &own, false);
    extend(&mut leader, 4..=4);
    let own = chain([id(4, 0), id(5, 0)]);
    assert_eq!(
        append(&mut leader, &own, false),
        ("part 0 of 1: 2".to_owned(), 2)
    );
}

#[test]
fn a_replica_that_wants_a_snapshot_gets_one_after_a_few_changes() {
    let mut leader = leader(LIMITS);
    let own = chain((1..=4).map(|number| id(number, 0)));
    append(&mut leader, &own, false);
    append(&mut leader, &own, false);
    leader.want_snapshot();
    let texts = extend(&mut leader, 5..=7);
    let kinds: Vec<_> = texts.iter().map(|(text, _)| &text[..6]).collect();
    assert_eq!(kinds, ["change", "change", "part 0"]);
}
