#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;
use crate::record::Record;

fn key() -> FleetKey {
    FleetKey::new(&[7; 32], b"chain").unwrap()
}

fn name(owner: u8, id: u8) -> FilterName {
    FilterName {
        tenant: [1; 8],
        owner: [owner; 8],
        id: [id; 16],
    }
}

fn place(number: u64) -> FilterPlace {
    FilterPlace {
        block: BlockId {
            number,
            hash: B256::repeat_byte(9),
        },
        moved_at: 1_700_000_000_000,
        tag: 3,
    }
}

fn bounds() -> impl Strategy<Value = FilterBound> {
    prop_oneof![
        any::<u64>().prop_map(FilterBound::Number),
        Just(FilterBound::Latest),
        Just(FilterBound::Earliest),
        Just(FilterBound::Pending),
        Just(FilterBound::Safe),
        Just(FilterBound::Finalized),
    ]
}

fn hashes() -> impl Strategy<Value = B256> {
    any::<[u8; 32]>().prop_map(B256::from)
}

fn criteria() -> impl Strategy<Value = FilterCriteria> {
    let blocks = prop_oneof![
        hashes().prop_map(FilterBlocks::Hash),
        (bounds(), bounds()).prop_map(|(from, to)| FilterBlocks::Range(from, to)),
    ];
    let addresses = prop::collection::vec(any::<[u8; 20]>().prop_map(Address::from), 0..5);
    let topics = prop::collection::vec(prop::collection::vec(hashes(), 0..4), 0..=TOPICS_MAX);
    let logs = (blocks, addresses, topics);
    let logs = logs.prop_map(|(blocks, addresses, topics)| FilterCriteria::Logs {
        blocks,
        addresses,
        topics,
    });
    prop_oneof![1 => Just(FilterCriteria::Blocks), 9 => logs]
}

proptest! {
    #[test]
    fn criteria_are_read_as_they_were_written(criteria in criteria()) {
        let sealed = criteria.seal(&name(1, 2), &key()).unwrap();
        prop_assert_eq!(FilterCriteria::open(&name(1, 2), &sealed, &key()), Ok(criteria));
    }

    #[test]
    fn places_are_read_as_they_were_written(
        number: u64, hash in hashes(), moved_at: u64, tag: u64,
    ) {
        let place = FilterPlace { block: BlockId { number, hash }, moved_at, tag };
        let sealed = place.seal(&name(1, 2), &key());
        prop_assert!(sealed.len() <= FILTER_PLACE_BYTES_MAX);
        prop_assert_eq!(FilterPlace::open(&name(1, 2), &sealed, &key()), Ok(place));
    }

    /// Whatever the store has: no panic, and nothing that the fleet has not sealed.
    #[test]
    fn other_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(FilterPlace::open(&name(1, 2), &bytes, &key()).is_err());
        prop_assert!(FilterCriteria::open(&name(1, 2), &bytes, &key()).is_err());
    }

    /// Who has the key may be of another version, or wrong.
    #[test]
    fn sealed_bytes_of_any_form_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        for kind in [Kind::Criteria, Kind::Place] {
            let sealed = name(1, 2).seal(kind, &key(), |out| out.extend_from_slice(&bytes));
            drop(FilterPlace::open(&name(1, 2), &sealed, &key()));
            drop(FilterCriteria::open(&name(1, 2), &sealed, &key()));
        }
    }
}

#[test]
fn records_are_of_one_filter_and_of_one_kind() {
    let sealed = place(5).seal(&name(1, 2), &key());
    for other in [name(1, 3), name(2, 2)] {
        let opened = FilterPlace::open(&other, &sealed, &key());
        assert_eq!(opened, Err(RecordError::Name));
    }
    let opened = FilterCriteria::open(&name(1, 2), &sealed, &key());
    assert_eq!(opened, Err(RecordError::Name));
    let criteria = FilterCriteria::Blocks.seal(&name(1, 2), &key()).unwrap();
    let opened = FilterPlace::open(&name(1, 2), &criteria, &key());
    assert_eq!(opened, Err(RecordError::Name));
    for at in 0..sealed.len() {
        let mut bytes = sealed.to_vec();
        bytes[at] ^= 1;
        let opened = FilterPlace::open(&name(1, 2), &bytes, &key());
        assert_eq!(opened, Err(OpenError::Mac.into()), "byte {at}");
    }
    // A record of another purpose with the same content.
    let record = Record {
        name: "filter".to_owned(),
        revision: 1,
        payload: sealed,
    };
    let record = record.seal(&key()).unwrap();
    let opened = FilterPlace::open(&name(1, 2), &record, &key());
    assert_eq!(opened, Err(OpenError::Mac.into()));
}

#[test]
fn a_place_differs_from_the_same_block_later() {
    let [one, other] = [1, 2].map(|tag| FilterPlace { tag, ..place(5) });
    assert_ne!(
        one.seal(&name(1, 2), &key()),
        other.seal(&name(1, 2), &key())
    );
}

/// The largest filter that a client may make fits.
#[test]
fn lengths_are_bounded() {
    let largest = |count: usize| FilterCriteria::Logs {
        blocks: FilterBlocks::Range(FilterBound::Number(u64::MAX), FilterBound::Latest),
        addresses: Vec::new(),
        topics: vec![vec![B256::repeat_byte(1); count]],
    };
    let sealed = largest(5_000).seal(&name(1, 2), &key()).unwrap();
    assert!(FilterCriteria::open(&name(1, 2), &sealed, &key()).is_ok());
    let refused = largest(6_000).seal(&name(1, 2), &key());
    assert!(matches!(refused, Err(RecordError::Length(_))));
    assert_eq!(
        name(1, 2).member(),
        format!("{}:{}", "01".repeat(8), "02".repeat(16))
    );
}
