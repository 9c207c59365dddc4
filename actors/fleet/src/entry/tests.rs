//! Entries are read as they were written, and nothing else is read.

#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::block_id::{BlockId, EntryBlock};
use crate::bounds::SNAPSHOT_PARTS_MAX;
use crate::fleet_key::{MAC_BYTES, digest};

fn key() -> FleetKey {
    FleetKey::new(&[7; 32], b"chain").unwrap()
}

fn hash() -> impl Strategy<Value = B256> {
    any::<[u8; 32]>().prop_map(B256::from)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..80).prop_map(Bytes::from)
}

fn block() -> impl Strategy<Value = EntryBlock> {
    (any::<u64>(), hash(), hash(), bytes()).prop_map(|(number, hash, parent, bytes)| EntryBlock {
        id: BlockId { number, hash },
        parent,
        bytes,
    })
}

fn settled() -> impl Strategy<Value = Settled> {
    any::<(Option<u64>, Option<u64>)>().prop_map(|(safe, finalized)| Settled { safe, finalized })
}

fn content() -> impl Strategy<Value = Content> {
    let both = || (vec(block(), 0..4), settled(), any::<u64>());
    let part = (0_u32..5, both()).prop_map(|(part, (blocks, settled, records))| {
        Content::Snapshot(SnapshotPart {
            part,
            parts: 5,
            head: BlockId {
                number: 7,
                hash: B256::repeat_byte(7),
            },
            blocks,
            settled,
            records,
        })
    });
    let change = (any::<u64>(), hash(), vec(hash(), 0..4), both()).prop_map(
        |(number, hash, reverted, (blocks, settled, records))| {
            Content::Change(HeadChange {
                ancestor: BlockId { number, hash },
                reverted,
                blocks,
                settled,
                records,
            })
        },
    );
    prop_oneof![part, change]
}

fn entry() -> impl Strategy<Value = Entry> {
    (1..=EPOCH_MAX, any::<u64>(), hash(), content()).prop_map(
        |(epoch, sequence, previous, content)| Entry {
            position: Position::new(epoch, sequence),
            previous,
            content,
        },
    )
}

proptest! {
    #[test]
    fn an_entry_is_read_as_it_was_written(entry in entry()) {
        let sealed = entry.seal(&key()).unwrap();
        let (read, digest) = Entry::open(&sealed.bytes, &key()).unwrap();
        prop_assert_eq!(read, entry);
        prop_assert_eq!(digest, sealed.digest);
    }

    #[test]
    fn a_changed_byte_is_noticed(
        entry in entry(),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let mut bytes = entry.seal(&key()).unwrap().bytes.to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        prop_assert_eq!(Entry::open(&bytes, &key()), Err(OpenError::Mac));
    }

    /// What the fleet itself has signed is decoded without a panic, and only in its one form.
    #[test]
    fn any_signed_bytes_are_read_or_refused(
        entry in entry(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        end in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let sealed = entry.seal(&key()).unwrap();
        let mut bytes = sealed.bytes[..sealed.bytes.len() - MAC_BYTES].to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(1 + end.index(bytes.len()));
        }
        let signed = sign(bytes.clone());
        match Entry::open(&signed, &key()) {
            Ok((read, _)) => prop_assert_eq!(read.seal(&key()).unwrap().bytes, signed),
            Err(OpenError::Version(version)) => prop_assert_eq!(version, bytes[0]),
            Err(OpenError::Malformed(_)) => {}
            Err(OpenError::Length(length)) => prop_assert_eq!(length, 1 + MAC_BYTES),
            Err(OpenError::Mac) => prop_assert!(false, "the MAC is right"),
        }
    }
}

/// Bytes with the fleet's MAC.
fn sign(mut bytes: Vec<u8>) -> Bytes {
    let mac = key().sign(Purpose::Entry, &digest(&bytes));
    bytes.extend_from_slice(mac.as_ref());
    bytes.into()
}

#[test]
fn another_version_is_named_only_if_the_fleet_has_written_it() {
    let bytes = vec![VERSION + 1, 0xc0];
    assert_eq!(
        Entry::open(&sign(bytes.clone()), &key()),
        Err(OpenError::Version(2))
    );
    let invented = [bytes, vec![0; MAC_BYTES]].concat();
    assert_eq!(Entry::open(&invented, &key()), Err(OpenError::Mac));
}

fn some_block(bytes: usize) -> EntryBlock {
    EntryBlock {
        id: BlockId::default(),
        parent: B256::ZERO,
        bytes: vec![0; bytes].into(),
    }
}

#[test]
fn lengths_are_bounded() {
    let part = |parts| Entry {
        position: Position::new(1, 0),
        previous: B256::ZERO,
        content: Content::Snapshot(SnapshotPart {
            part: 0,
            parts,
            head: BlockId::default(),
            blocks: Vec::new(),
            settled: Settled::default(),
            records: 0,
        }),
    };
    let open = |entry: Entry| Entry::open(&entry.seal(&key()).unwrap().bytes, &key());
    assert!(open(part(SNAPSHOT_PARTS_MAX)).is_ok());
    assert!(matches!(
        open(part(SNAPSHOT_PARTS_MAX + 1)),
        Err(OpenError::Malformed(_))
    ));
    assert!(matches!(open(part(0)), Err(OpenError::Malformed(_))));
    let mut many = part(1);
    many.position.epoch = EPOCH_MAX + 1;
    assert!(matches!(open(many), Err(OpenError::Malformed(_))));
    let mut many = part(1);
    if let Content::Snapshot(part) = &mut many.content {
        part.blocks = vec![some_block(0); crate::bounds::ENTRY_BLOCKS_MAX + 1];
    }
    assert!(matches!(open(many), Err(OpenError::Malformed(_))));
    let mut large = part(1);
    if let Content::Snapshot(part) = &mut large.content {
        part.blocks = vec![some_block(ENTRY_BYTES_MAX)];
    }
    assert!(large.seal(&key()).is_err());
    assert_eq!(Entry::open(&[1; 33], &key()), Err(OpenError::Length(33)));
    let bytes = vec![1; ENTRY_BYTES_MAX + 1];
    assert!(matches!(
        Entry::open(&bytes, &key()),
        Err(OpenError::Length(_))
    ));
}
