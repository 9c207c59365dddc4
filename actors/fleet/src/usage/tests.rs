#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use super::*;
use crate::{
    bounds::{
        USAGE_CELLS_MAX, USAGE_COARSE_CELLS_SMALL, USAGE_COARSE_PARTS_KEPT, USAGE_PART_BYTES_MAX,
        USAGE_PART_CELLS,
    },
    fleet_key::FleetKey,
    sealed::OpenError,
};

/// 10:30 on a day of 2027.
const BEGIN: u64 = 1_800_009_000_000;

fn key() -> FleetKey {
    FleetKey::new(&[7; 32], b"chain").unwrap()
}

fn cell(number: u64, last: u64) -> UsageCell {
    let mut numbers = [0; USAGE_NUMBERS];
    numbers[0] = 1;
    numbers[USAGE_NUMBERS - 1] = number;
    UsageCell {
        key: number.to_be_bytes(),
        owner: Some(UsageOwner {
            tenant: [1; 8],
            chain: number.is_multiple_of(2).then_some([2; 8]),
        }),
        method: "eth_call".into(),
        outcome: "ok".into(),
        last,
        numbers,
    }
}

fn open(sealed: &SealedPart) -> UsagePart {
    UsagePart::open(&sealed.name, &sealed.bytes, &key()).unwrap()
}

/// The store of a test: parts by name.
type Stored = BTreeMap<String, UsagePart>;

fn write(own: &mut OwnUsage, stored: &mut Stored, with_coarse: bool) -> usize {
    let parts = own.unwritten(with_coarse, &key());
    for sealed in &parts {
        stored.insert(sealed.name.clone(), open(sealed));
    }
    own.written(&parts);
    parts.len()
}

/// Requests of a period in the store, and cells.
fn requests(stored: &Stored, period: UsagePeriod) -> (u64, usize) {
    let parts = stored.values().filter(|part| part.period == period);
    let cells = parts.flat_map(|part| &part.cells);
    cells.fold((0, 0), |(sum, count), cell| {
        (sum + cell.numbers[0], count + 1)
    })
}

#[test]
fn a_part_is_read_under_its_name_alone() {
    let mut own = OwnUsage::new("process".to_owned());
    own.add(BEGIN, &cell(1, BEGIN + 7));
    own.add(BEGIN, &cell(2, BEGIN + 8));
    let other = UsageCell {
        owner: None,
        method: "eth_getLogs".into(),
        numbers: [u64::MAX; USAGE_NUMBERS],
        ..cell(3, BEGIN + 9)
    };
    own.add(BEGIN, &other);
    let parts = own.unwritten(true, &key());
    let periods: Vec<_> = parts.iter().map(|part| part.period).collect();
    assert_eq!(periods, UsagePeriod::ALL);
    for sealed in &parts {
        let part = open(sealed);
        assert_eq!((part.period, part.start), (sealed.period, sealed.start));
        assert_eq!(part.start, sealed.period.start(BEGIN));
        let expected: Vec<_> = own
            .cells(part.period, part.start, part.start + 1)
            .map(|(_, cell)| cell.clone())
            .collect();
        assert_eq!(part.cells, expected);
    }
    let [minute, hour, ..] = parts.as_slice() else {
        panic!("{parts:?}");
    };
    let under = |name: &str, bytes: &[u8]| UsagePart::open(name, bytes, &key());
    assert_eq!(
        under(&hour.name, &minute.bytes),
        Err(crate::record::RecordError::Name)
    );
    for at in 0..minute.bytes.len() {
        let mut bytes = minute.bytes.to_vec();
        bytes[at] ^= 1;
        let opened = under(&minute.name, &bytes);
        assert_eq!(opened, Err(OpenError::Mac.into()), "byte {at}");
    }
    // It passes for no record, whatever its name is.
    let record = crate::record::Record::open(&minute.name, &minute.bytes, &key());
    assert_eq!(record, Err(OpenError::Mac.into()));
}

/// Whatever is written when, and forgotten: the store has each request once.
#[test]
fn what_is_written_again_counts_once() {
    let mut own = OwnUsage::new("process".to_owned());
    let mut stored = Stored::new();
    let mut expected = 0;
    for round in 0..400 {
        let now = BEGIN + round * 20_000;
        for number in 0..round % 7 {
            own.add(now, &cell(number, now));
            expected += 1;
        }
        match round % 5 {
            0 => drop(write(&mut own, &mut stored, false)),
            // The answer was lost: it is written again.
            1 => drop(own.unwritten(true, &key())),
            2 => own.forget_ended(now),
            3 if round.is_multiple_of(3) => own.forget_minutes(),
            _ => {}
        }
    }
    write(&mut own, &mut stored, true);
    assert!(own.is_written());
    for period in [UsagePeriod::Minute, UsagePeriod::Hour, UsagePeriod::Day] {
        assert_eq!(requests(&stored, period).0, expected, "{period:?}");
    }
    let last = stored
        .values()
        .filter(|part| part.period == UsagePeriod::LastUse);
    let last = last
        .flat_map(|part| &part.cells)
        .map(|cell| cell.last)
        .max();
    assert_eq!(last, Some(BEGIN + 398 * 20_000));
    assert_eq!(requests(&stored, UsagePeriod::LastUse).0, 0);
}

/// A few requests write little again, and what is long is not written each time.
#[test]
fn little_is_written_again() {
    let mut own = OwnUsage::new("process".to_owned());
    let mut stored = Stored::new();
    let many = 3 * USAGE_PART_CELLS as u64;
    for number in 0..many {
        own.add(BEGIN, &cell(number, BEGIN));
    }
    assert_eq!(write(&mut own, &mut stored, false), 3, "minutes alone");
    assert_eq!(write(&mut own, &mut stored, true), 9, "the others");
    assert_eq!(write(&mut own, &mut stored, true), 0);
    own.add(BEGIN, &cell(0, BEGIN));
    const { assert!(2 * USAGE_PART_CELLS > USAGE_COARSE_CELLS_SMALL) };
    assert_eq!(write(&mut own, &mut stored, false), 1);
    assert_eq!(write(&mut own, &mut stored, true), 3);
    assert_eq!(
        requests(&stored, UsagePeriod::Day),
        (many + 1, many as usize)
    );
    // If there is little, all of it is written each time.
    let mut own = OwnUsage::new("other".to_owned());
    own.add(BEGIN, &cell(0, BEGIN));
    assert_eq!(write(&mut own, &mut stored, false), 4);
}

/// Memory is bounded, and what is held no more goes on in other parts.
#[test]
fn cells_are_bounded() {
    let mut own = OwnUsage::new("process".to_owned());
    let mut stored = Stored::new();
    let mut number = 0;
    while own.has_room(1) {
        own.add(BEGIN, &cell(number, BEGIN));
        number += 1;
    }
    assert_eq!(number as usize, USAGE_CELLS_MAX / 4);
    own.forget_minutes();
    own.forget_excess();
    assert!(!own.has_room(1), "nothing is written");
    write(&mut own, &mut stored, true);
    own.forget_minutes();
    assert!(own.has_room(USAGE_CELLS_MAX / 16));
    own.forget_excess();
    let kept = USAGE_COARSE_PARTS_KEPT * USAGE_PART_CELLS;
    assert!(own.has_room((USAGE_CELLS_MAX - 3 * kept) / 4));
    let held = |own: &OwnUsage, stored: &Stored| {
        let held = stored.values().filter(|part| own.holds(part));
        held.count()
    };
    assert_eq!(held(&own, &stored), 3 * USAGE_COARSE_PARTS_KEPT);
    // One that is held, and one that begins again.
    own.add(BEGIN, &cell(0, BEGIN));
    own.add(BEGIN, &cell(number - 1, BEGIN));
    write(&mut own, &mut stored, true);
    for (period, again) in [(UsagePeriod::Minute, 2), (UsagePeriod::Day, 1)] {
        assert_eq!(
            requests(&stored, period),
            (number + 2, number as usize + again)
        );
    }
    assert_eq!(held(&own, &stored), 3 * USAGE_COARSE_PARTS_KEPT + 4);
}

/// What the store gets grows no faster than what is counted, even if a process counts more than it
/// holds: what it holds stays in its parts.
#[test]
fn what_is_held_is_not_begun_again() {
    let flush = |own: &mut OwnUsage, stored: &mut Stored, count: u64, now: u64| {
        for number in 0..count {
            // As the owner of the store does it.
            if !own.has_room(8_192) {
                write(own, stored, false);
                own.forget_minutes();
            }
            if !own.has_room(8_192) {
                write(own, stored, true);
                own.forget_excess();
            }
            own.add(now, &cell(number, now));
        }
        write(own, stored, true);
        own.forget_ended(now);
    };
    const ROUNDS: u64 = 4;
    for (count, most) in [(32_000, 32_000), (40_000, 40_000 + 3 * 2 * 16_000)] {
        let mut own = OwnUsage::new("process".to_owned());
        let mut stored = Stored::new();
        for round in 0..ROUNDS {
            flush(&mut own, &mut stored, count, BEGIN + round * 7_000);
        }
        for period in [UsagePeriod::Minute, UsagePeriod::Hour, UsagePeriod::Day] {
            assert_eq!(requests(&stored, period).0, ROUNDS * count, "{period:?}");
        }
        for period in [UsagePeriod::Hour, UsagePeriod::Day, UsagePeriod::LastUse] {
            let cells = requests(&stored, period).1;
            assert!(cells <= most, "{period:?}: {cells} cells of {count}");
        }
    }
}

/// A clock that was ahead for a moment costs no new parts later.
#[test]
fn a_clock_that_was_ahead_begins_no_new_parts() {
    let mut own = OwnUsage::new("process".to_owned());
    let mut stored = Stored::new();
    let ahead = BEGIN + 500 * DAY;
    own.add(ahead, &cell(0, ahead));
    write(&mut own, &mut stored, true);
    own.forget_ended(ahead);
    for round in 0..8 {
        let now = BEGIN + round * 7_000;
        own.add(now, &cell(0, now));
        write(&mut own, &mut stored, true);
        own.forget_ended(now);
    }
    let parts = stored.values().filter(|part| part.start < ahead - 60 * DAY);
    assert_eq!(parts.count(), 4);
    assert_eq!(
        own.cells(UsagePeriod::Day, 0, u64::MAX).count(),
        1,
        "that of the clock that was ahead is forgotten"
    );
}

/// A part is never longer than what is read.
#[test]
fn the_longest_part_can_be_read() {
    let mut own = OwnUsage::new("0123456789abcdef0123456789abcdef".to_owned());
    for number in 0..USAGE_PART_CELLS as u64 {
        let method = format!("{}{number}", "m".repeat(100));
        let longest = UsageCell {
            method: method.into(),
            numbers: [u64::MAX; USAGE_NUMBERS],
            ..cell(u64::MAX - number * 2 - 1, u64::MAX)
        };
        own.add(BEGIN, &longest);
    }
    let parts = own.unwritten(true, &key());
    assert_eq!(parts.len(), 4);
    for part in &parts {
        assert!(
            part.bytes.len() < USAGE_PART_BYTES_MAX,
            "{}",
            part.bytes.len()
        );
        open(part);
    }
    // What is usual is short.
    let mut own = OwnUsage::new("0123456789abcdef0123456789abcdef".to_owned());
    for number in 0..USAGE_PART_CELLS as u64 {
        let mut usual = cell(number / 4, BEGIN + number * 50);
        usual.method = [
            "eth_call",
            "eth_getLogs",
            "eth_blockNumber",
            "eth_getBalance",
        ][(number % 4) as usize]
            .into();
        usual.numbers = [
            300, 9_000, 60_000, 900_000, 0, 0, 200, 90, 10, 0, 0, 0, 0, 0,
        ];
        own.add(BEGIN, &usual);
    }
    let bytes = own.unwritten(true, &key())[0].bytes.len();
    let each = bytes / USAGE_PART_CELLS;
    assert!((20..50).contains(&each), "{each} bytes a cell");
}

/// A later version may append to a cell and to the part; what stands for nothing is refused.
#[test]
fn numbers_that_stand_for_nothing_are_refused() {
    use alloy_rlp::Encodable;
    let list = |items: &[Vec<u8>]| {
        let mut out = Vec::new();
        crate::rlp::list(&mut out, |out| out.extend(items.concat()));
        out
    };
    let text = |text: &str| {
        let mut out = Vec::new();
        text.encode(&mut out);
        out
    };
    let number = |number: u64| {
        let mut out = Vec::new();
        number.encode(&mut out);
        out
    };
    let bytes = |bytes: &[u8]| {
        let mut out = Vec::new();
        bytes.encode(&mut out);
        out
    };
    let name = "m:60000:process:0";
    let part = |at: u64, key_bytes: &[u8], more: usize| {
        let numbers = (0..USAGE_NUMBERS + more).map(|_| number(1));
        let head = [number(at), number(0), number(0), number(5)];
        let cell = list(&head.into_iter().chain(numbers).collect::<Vec<_>>());
        let content = list(&[
            text(name),
            list(&[text("eth_call")]),
            list(&[bytes(key_bytes)]),
            list(&[cell]),
            number(9),
        ]);
        let (sealed, _) = crate::sealed::seal(&key(), crate::fleet_key::Purpose::Usage, |out| {
            out.extend(content)
        });
        UsagePart::open(name, &sealed, &key())
    };
    let read = part(0, &[3; 8], 2).unwrap();
    assert_eq!((read.start, read.cells[0].last), (60_000, 60_005));
    assert!(part(0, &[3; 24], 0).is_ok());
    for (at, key_bytes) in [(1, &[3; 8][..]), (0, &[3; 7]), (0, &[]), (0, &[3; 32])] {
        let refused = part(at, key_bytes, 0).unwrap_err();
        assert_eq!(refused.label(), "malformed");
    }
}
