//! Who is there, by records that others may have written.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::B256;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn key() -> FleetKey {
    FleetKey::new(&[7; 32], b"chain").unwrap()
}

fn process(owner: &str) -> Process {
    Process {
        owner: owner.to_owned(),
        host: "eth-1".to_owned(),
        role: "replica".to_owned(),
        epoch: 3,
        lag_entries: 2,
        lag_millis: 140,
        head: Some(BlockId {
            number: 17,
            hash: B256::repeat_byte(9),
        }),
        version: "0.1.0".to_owned(),
        entries_version: 1,
        started_millis: 1_800_000_000_000,
    }
}

fn record(owner: &str, revision: u64) -> Bytes {
    process(owner).seal(revision, &key()).unwrap()
}

fn presence() -> Presence {
    Presence::new(key(), "me".to_owned())
}

#[test]
fn a_process_is_read_as_it_was_written() {
    let starting = Process {
        head: None,
        ..process("me")
    };
    let records = [
        record("b", 1),
        starting.seal(1, &key()).unwrap(),
        record("a", 1),
    ];
    let mut presence = presence();
    let read = presence.read(&records, SECOND);
    assert_eq!(read, [starting, process("a"), process("b")]);
    assert_eq!(presence.refused(), 0);
}

#[test]
fn a_process_is_gone_when_its_records_do_not_advance() {
    let mut presence = presence();
    let count = |presence: &mut Presence, revision, seconds| {
        // That of `gone` is there too, as if somebody had written it again.
        let records = [record("me", revision), record("gone", 5)];
        presence.read(&records, SECOND * seconds).len()
    };
    assert_eq!(count(&mut presence, 1, 1), 2);
    assert_eq!(count(&mut presence, 2, 5), 2);
    assert_eq!(count(&mut presence, 3, 6), 1);
    // A store that was away for long says nothing of who is there.
    assert_eq!(count(&mut presence, 4, 100), 2);
}

#[test]
fn false_records_are_refused() {
    let other = FleetKey::new(&[7; 32], b"another chain").unwrap();
    let mut rewritten = record("a", 1).to_vec();
    rewritten[40] ^= 1;
    let tenant = Record {
        name: "tenant:a".to_owned(),
        revision: 1,
        payload: Bytes::from_static(b"x"),
    };
    // Who has the key may have another program.
    let longer = |payload: Vec<u8>, name: &str| {
        let record = Record {
            name: name.to_owned(),
            revision: 1,
            payload: payload.into(),
        };
        record.seal(&key()).unwrap()
    };
    let (sealed, _) = Record::open("process:a", &record("a", 1), &key()).unwrap();
    let lies = [
        Bytes::new(),
        Bytes::from_static(&[1; 600]),
        rewritten.into(),
        process("a").seal(1, &other).unwrap(),
        tenant.seal(&key()).unwrap(),
        longer(sealed.payload.to_vec(), "process:b"),
        longer(sealed.payload[..20].to_vec(), "process:a"),
        longer(vec![0x80; 2_000], "process:a"),
    ];
    let mut presence = presence();
    assert_eq!(presence.read(&lies, SECOND), []);
    assert_eq!(presence.refused(), lies.len() as u64);
}

/// Processes of several versions work together while they are replaced.
#[test]
fn fields_of_a_later_version_are_left_out() {
    let (sealed, _) = Record::open("process:a", &record("a", 1), &key()).unwrap();
    let mut rest = &sealed.payload[..];
    let fields = Header::decode_bytes(&mut rest, true).unwrap();
    let mut fields = fields.to_vec();
    "more".encode(&mut fields);
    let mut payload = Vec::new();
    list(&mut payload, |out| out.extend_from_slice(&fields));
    let later = Record {
        payload: payload.into(),
        ..sealed
    };
    let read = presence().read(&[later.seal(&key()).unwrap()], SECOND);
    assert_eq!(read, [process("a")]);
}

#[test]
fn texts_are_plain_and_short() {
    let odd = Process {
        host: format!("<b>\u{1b}[31m{}\u{e9}", "x".repeat(100)),
        ..process("a")
    };
    let read = presence().read(&[odd.seal(1, &key()).unwrap()], SECOND);
    assert_eq!(read[0].host.len(), PRESENCE_TEXT_BYTES_MAX);
    assert!(read[0].host.starts_with("<b>?[31mxx"));
}

#[test]
fn the_number_of_processes_is_bounded_and_many_write_less_often() {
    let records: Vec<_> = (0..=PROCESSES_MAX)
        .map(|at| record(&format!("{at:05}"), 1))
        .collect();
    let mut presence = presence();
    assert_eq!(presence.period(), SECOND);
    let (first, last) = records.split_at(PROCESSES_MAX);
    assert_eq!(presence.read(first, SECOND).len(), PROCESSES_MAX);
    assert_eq!(presence.read(last, SECOND).len(), PROCESSES_MAX);
    assert_eq!(presence.refused(), 1);
    assert_eq!(presence.period(), Duration::from_millis(10_240));
    // All of them at once are a reply that is bounded.
    let bytes = records.iter().map(|record| record.len()).max();
    assert!(bytes <= Some(PRESENCE_BYTES_MAX));
}
