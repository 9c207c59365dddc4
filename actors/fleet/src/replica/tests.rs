//! What a replica makes of entries that are in order, and of those that are not.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{
    block_id::EntryBlock,
    entry::{SealedEntry, VERSION},
    fleet_key::{MAC_BYTES, Purpose, digest},
};

fn key() -> FleetKey {
    FleetKey::new(&[7; 32], b"chain").unwrap()
}

/// A block's bytes are its number; one of another branch has another hash. A false one says so.
fn block(number: u64, branch: u8) -> EntryBlock {
    EntryBlock {
        id: id(number, branch),
        parent: id(number - 1, branch).hash,
        bytes: number.to_be_bytes().to_vec().into(),
    }
}

fn id(number: u64, branch: u8) -> BlockId {
    let mut hash = B256::with_last_byte(u8::try_from(number).unwrap());
    hash[0] = branch;
    BlockId { number, hash }
}

/// Verifies the numbers of blocks, and counts.
#[derive(Default)]
struct Numbers(usize);

impl Verifier for Numbers {
    type Verified = Vec<u64>;

    fn verify(&mut self, content: &Content) -> Result<Vec<u64>, FalseContent> {
        self.0 += 1;
        let blocks = content.blocks().iter();
        let numbers = blocks.map(
            |block| match block.bytes[..] == block.id.number.to_be_bytes() {
                true => Ok(block.id.number),
                false => Err(FalseContent("false".to_owned())),
            },
        );
        numbers.collect()
    }
}

/// Writes entries, each after the one before.
struct Writer {
    position: Position,
    previous: B256,
}

impl Writer {
    const fn new(epoch: u64) -> Self {
        Self {
            position: Position::new(epoch, 0),
            previous: B256::ZERO,
        }
    }

    fn write(&mut self, content: Content) -> SealedEntry {
        let entry = Entry {
            position: self.position,
            previous: self.previous,
            content,
        };
        let sealed = entry.seal(&key()).unwrap();
        self.position = self.position.next();
        self.previous = sealed.digest;
        sealed
    }

    /// A snapshot of two parts, with a block each up to this head.
    fn snapshot(&mut self, head: u64) -> [SealedEntry; 2] {
        [0, 1].map(|part| {
            self.write(Content::Snapshot(SnapshotPart {
                part,
                parts: 2,
                head: id(head, 0),
                blocks: vec![block(head - 1 + u64::from(part), 0)],
                settled: Settled::default(),
                records: 3,
            }))
        })
    }

    fn change(&mut self, block: EntryBlock) -> SealedEntry {
        let number = block.id.number - 1;
        self.write(Content::Change(HeadChange {
            ancestor: BlockId {
                number,
                hash: block.parent,
            },
            reverted: Vec::new(),
            blocks: vec![block],
            settled: Settled::default(),
            records: 4,
        }))
    }
}

struct Reader {
    replica: Replica<Vec<u64>>,
    numbers: Numbers,
}

impl Reader {
    fn new() -> Self {
        Self {
            replica: Replica::new(key(), 8),
            numbers: Numbers::default(),
        }
    }

    fn read(&mut self, entry: &SealedEntry) -> Reading<Vec<u64>> {
        self.read_at(entry.position, &entry.bytes)
    }

    fn read_at(&mut self, id: Position, bytes: &[u8]) -> Reading<Vec<u64>> {
        self.replica.read(id, bytes, &mut self.numbers)
    }

    /// A replica that has read a snapshot up to block 5, and its writer.
    fn following() -> (Self, Writer) {
        let (mut reader, mut writer) = (Self::new(), Writer::new(1));
        for entry in writer.snapshot(5) {
            reader.read(&entry);
        }
        assert_eq!(reader.head(), Some(5));
        (reader, writer)
    }

    fn head(&self) -> Option<u64> {
        Some(self.replica.chain().head()?.number)
    }
}

#[test]
fn a_snapshot_is_applied_once_it_is_complete_and_changes_follow() {
    let (mut reader, mut writer) = (Reader::new(), Writer::new(3));
    let [first, last] = writer.snapshot(5);
    let reading = reader.read(&first);
    assert!(reading.update.is_none());
    assert_eq!(reading.events, [ReplicaEvent::Epoch(3)]);
    assert_eq!(reader.head(), None);
    let update = reader.read(&last).update.unwrap();
    assert_eq!(update.verified, [vec![4], vec![5]]);
    assert_eq!((update.ancestor, update.head), (None, id(5, 0)));
    let change = writer.change(block(6, 0));
    let reading = reader.read(&change);
    let update = reading.update.unwrap();
    assert_eq!((update.ancestor, update.head), (Some(id(5, 0)), id(6, 0)));
    assert_eq!(reading.events, [ReplicaEvent::Applied(change.position)]);
    // Again: nothing.
    let reading = reader.read(&change);
    assert!(reading.update.is_none() && reading.events.is_empty());
    assert_eq!(reader.replica.cursor(), change.position);
    assert_eq!(reader.replica.counters().applied(), 2);
    assert_eq!(reader.replica.records(), 4);
}

#[test]
fn a_snapshot_of_what_is_held_is_passed_over() {
    let (mut reader, mut writer) = Reader::following();
    let verified = reader.numbers.0;
    for entry in writer.snapshot(5) {
        let reading = reader.read(&entry);
        assert!(reading.update.is_none() && reading.events.is_empty());
    }
    assert_eq!(reader.numbers.0, verified);
    // One of another head is applied as a change.
    let [first, last] = writer.snapshot(6);
    reader.read(&first);
    let update = reader.read(&last).update.unwrap();
    assert_eq!((update.ancestor, update.head), (Some(id(5, 0)), id(6, 0)));
}

#[test]
fn a_new_epoch_is_a_change_from_what_is_held() {
    let (mut reader, _) = Reader::following();
    let [first, last] = Writer::new(2).snapshot(6);
    assert_eq!(reader.read(&first).events, [ReplicaEvent::Epoch(2)]);
    let update = reader.read(&last).update.unwrap();
    assert_eq!(update.ancestor, Some(id(5, 0)));
    assert_eq!(update.reverted, Vec::<B256>::new());
    // The old one is over.
    let late = Writer::new(1).snapshot(9);
    let events = reader.read(&late[0]).events;
    let refusal = Refusal::Epoch { found: 1, seen: 2 };
    let refused = ReplicaEvent::Refused(late[0].position, refusal);
    let refill = ReplicaEvent::Refill(RefillReason::Refused);
    assert_eq!(events, [refused, refill]);
}

#[test]
fn a_gap_is_filled_by_the_next_snapshot() {
    let (mut reader, mut writer) = Reader::following();
    writer.change(block(6, 0));
    let events = reader.read(&writer.change(block(7, 0))).events;
    assert_eq!(events, [ReplicaEvent::Refill(RefillReason::Gap)]);
    assert!(!reader.replica.report().wants_snapshot);
    reader.replica.at_end();
    assert!(reader.replica.report().wants_snapshot);
    // It looks for what is missing again.
    assert_eq!(reader.replica.cursor(), Position::new(1, 1));
    for entry in writer.snapshot(7) {
        reader.read(&entry);
    }
    assert_eq!(reader.head(), Some(7));
    assert_eq!(reader.replica.refill(), None);
    assert_eq!(reader.replica.counters().refills(RefillReason::Gap), 1);
}

#[test]
fn what_is_not_the_fleets_moves_nothing() {
    let (mut reader, mut writer) = Reader::following();
    let change = writer.change(block(6, 0));
    let mut bytes = change.bytes.to_vec();
    bytes[9] ^= 1;
    let far = Position::new(u64::MAX, u64::MAX);
    let events = reader.read_at(far, &bytes).events;
    let refusal = Refusal::Open(OpenError::Mac);
    let refused = ReplicaEvent::Refused(far, refusal);
    let refill = ReplicaEvent::Refill(RefillReason::Refused);
    assert_eq!(events, [refused, refill]);
    assert_eq!(reader.replica.epoch(), 1);
    reader.replica.at_end();
    assert_eq!(reader.replica.cursor(), Position::new(1, 1));
    // At another place: an entry that is the fleet's.
    let events = reader.read_at(Position::new(1, 9), &change.bytes).events;
    let refused = Refusal::Misplaced(change.position);
    assert_eq!(
        events,
        [ReplicaEvent::Refused(Position::new(1, 9), refused)]
    );
    assert!(reader.read(&change).update.is_some());
    let counters = reader.replica.counters();
    assert_eq!(counters.refused(RefusalReason::Mac), 1);
    assert_eq!(counters.refused(RefusalReason::Misplaced), 1);
}

#[test]
fn a_snapshot_goes_on_after_what_is_not_the_fleets() {
    let (mut reader, mut writer) = (Reader::new(), Writer::new(1));
    let [first, last] = writer.snapshot(5);
    reader.read(&first);
    let far = Position::new(9, 0);
    assert_eq!(reader.read_at(far, &[0; 99]).events.len(), 1);
    reader.replica.at_end();
    assert_eq!(reader.replica.cursor(), first.position);
    assert!(!reader.replica.report().wants_snapshot);
    assert!(reader.read(&last).update.is_some());
    let counters = reader.replica.counters();
    assert_eq!(counters.refused(RefusalReason::Mac), 1);
    assert_eq!(counters.refills(RefillReason::Start), 1);
}

#[test]
fn blocks_are_verified_whoever_says_what_they_are() {
    let (mut reader, mut writer) = Reader::following();
    let mut false_block = block(6, 0);
    false_block.bytes = vec![0].into();
    let change = writer.change(false_block);
    let events = reader.read(&change).events;
    let refused = ReplicaEvent::Refused(change.position, Refusal::False("false".to_owned()));
    let refill = ReplicaEvent::Refill(RefillReason::Refused);
    assert_eq!(events, [refused, refill]);
    let verified = reader.numbers.0;
    reader.replica.at_end();
    // It is not verified again at each pass.
    assert_eq!(reader.read(&change).events, []);
    assert_eq!(reader.numbers.0, verified);
    assert_eq!(reader.head(), Some(5));
}

#[test]
fn blocks_have_to_continue_the_chain() {
    for (broken, want) in [
        (block(8, 0), BrokenChain::Ancestor(7)),
        (block(6, 1), BrokenChain::Ancestor(5)),
    ] {
        let (mut reader, mut writer) = Reader::following();
        let change = writer.change(broken);
        let events = reader.read(&change).events;
        let refused = ReplicaEvent::Refused(change.position, Refusal::Broken(want));
        assert_eq!(events[0], refused);
        assert_eq!(reader.numbers.0, 2, "what is broken is not verified");
    }
}

#[test]
fn a_store_that_has_lost_entries_is_noticed() {
    let (mut reader, mut writer) = Reader::following();
    reader.read(&writer.change(block(6, 0)));
    let report = reader.replica.report();
    assert_eq!(
        (report.seen, report.is_forked),
        (Position::new(1, 2), false)
    );
    // Another leader of the same epoch, because the store lost that it had begun.
    let mut other = Writer::new(1);
    other.snapshot(5);
    other.change(block(6, 1));
    let events = reader.read(&other.change(block(7, 0))).events;
    assert_eq!(events, [ReplicaEvent::Refill(RefillReason::Forked)]);
    assert!(reader.replica.report().is_forked);
    // A newer epoch ends it.
    for entry in Writer::new(2).snapshot(6) {
        reader.read(&entry);
    }
    assert!(!reader.replica.report().is_forked);
    assert_eq!(reader.replica.report().seen, Position::new(2, 1));
}

#[test]
fn an_unknown_version_is_reported_until_one_is_known_again() {
    let (mut reader, mut writer) = Reader::following();
    let mut bytes = vec![VERSION + 1, 0xc0];
    let mac = key().sign(Purpose::Entry, &digest(&bytes));
    bytes.extend_from_slice(mac.as_ref());
    assert_eq!(mac.as_ref().len(), MAC_BYTES);
    let events = reader.read_at(Position::new(1, 2), &bytes).events;
    let refusal = Refusal::Open(OpenError::Version(VERSION + 1));
    let refused = ReplicaEvent::Refused(Position::new(1, 2), refusal);
    assert_eq!(events[0], refused);
    assert_eq!(reader.replica.unknown_version(), Some(VERSION + 1));
    reader.read(&writer.change(block(6, 0)));
    assert_eq!(reader.replica.unknown_version(), None);
}

#[test]
fn who_led_goes_on_with_the_next_epoch() {
    let mut reader = Reader::new();
    let mut own = HeldChain::new(8);
    own.push(id(5, 0)).unwrap();
    own.push(id(6, 0)).unwrap();
    let event = reader.replica.led(Position::new(4, 7), own);
    assert_eq!(event, ReplicaEvent::Refill(RefillReason::Led));
    assert_eq!((reader.replica.epoch(), reader.head()), (4, Some(6)));
    assert_eq!(reader.replica.cursor(), Position::new(4, 7));
    let [first, last] = Writer::new(5).snapshot(7);
    reader.read(&first);
    let update = reader.read(&last).update.unwrap();
    assert_eq!((update.ancestor, update.head), (Some(id(6, 0)), id(7, 0)));
}

#[test]
fn a_process_whose_nodes_are_ahead_does_not_go_back() {
    let mut reader = Reader::new();
    let mut own = HeldChain::new(8);
    (5..=8).for_each(|number| own.push(id(number, 0)).unwrap());
    reader.replica.hold(own);
    let mut writer = Writer::new(1);
    let [first, last] = writer.snapshot(6);
    reader.read(&first);
    let reading = reader.read(&last);
    assert!(reading.update.is_none());
    assert_eq!(reading.events, [ReplicaEvent::Applied(last.position)]);
    assert!(reader.read(&writer.change(block(7, 0))).update.is_none());
    assert_eq!(reader.head(), Some(8));
    // The fleet is on another branch: it counts, and reverts what only this process has.
    let mut other = block(8, 1);
    other.parent = id(7, 0).hash;
    let update = reader.read(&writer.change(other)).update.unwrap();
    assert_eq!(update.ancestor, Some(id(7, 0)));
    assert_eq!(update.reverted, [id(8, 0).hash]);
    assert_eq!(update.head, id(8, 1));
}
