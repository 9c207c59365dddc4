use std::time::Duration;

use super::*;
use crate::{
    store::checks::usage::{all_usage, cell, periods_left, sums_agree, sums_expire, today},
    usage::{GroupBy, Resolution, Used},
};

/// 10:30 on a day of 2027.
const BEGIN: u64 = 1_800_009_000_000;
const DAY: u64 = 86_400_000;

#[test]
fn sums_agree_with_events() {
    sums_agree(BEGIN, rounds(40, 400) as u32, |run| {
        let folder = Folder::new("usage");
        let memory = CheckedStore::kept(Box::new(MemoryStore::default()));
        let sqlite = CheckedStore::reopened(|| Box::new(folder.open().unwrap()));
        run(&mut [memory, sqlite])
    });
}

/// Minutes, hours and days are each kept for as long as they say, and no longer.
#[test]
fn sums_are_kept_for_a_time() {
    let folder = Folder::new("sums-expire");
    let stores: [&mut dyn TenantStore; 2] =
        [&mut MemoryStore::default(), &mut folder.open().unwrap()];
    for store in stores {
        let now = today(UnixMillis(BEGIN));
        sums_expire(store, now);
        // When the key was last used is kept for longer than what it used.
        while store
            .expire(now.after(Duration::from_secs(100 * 86_400)))
            .unwrap()
        {}
        assert_eq!(periods_left(store, Resolution::Day), [0; 0]);
        assert_eq!(store.load().unwrap().last_used.len(), 1);
    }
}

/// One call removes some thousand sums, so that no command waits for long.
#[test]
fn expiry_is_in_steps() {
    let folder = Folder::new("steps");
    let mut store = folder.open().unwrap();
    let cells: Vec<_> = (0..12_000).map(|number| cell(BEGIN, number)).collect();
    store.add_usage(&cells).unwrap();
    let sums = |store: &mut SqliteStore| {
        let query = all_usage(
            Resolution::Minute,
            GroupBy {
                key: true,
                ..GroupBy::default()
            },
            1_000_000,
        );
        store.usage(&query).unwrap().rows.len()
    };
    let (mut left, mut calls) = (vec![sums(&mut store)], 0);
    while store.expire(UnixMillis(BEGIN + 3 * DAY)).unwrap() {
        left.push(sums(&mut store));
        calls += 1;
    }
    assert_eq!(left, [12_000, 6_999, 1_998]);
    assert_eq!((calls, sums(&mut store)), (2, 0));
    assert_eq!(store.load().unwrap().last_used.len(), 12_000);
    // After 400 days nothing is known of the keys.
    for _ in 0..20 {
        store.expire(UnixMillis(BEGIN + 500 * DAY)).unwrap();
    }
    assert!(store.load().unwrap().last_used.is_empty());
}

/// No sum overflows, whatever is added.
#[test]
fn large_numbers_stay_numbers() {
    let folder = Folder::new("large");
    let mut store = folder.open().unwrap();
    let mut large = cell(BEGIN, 1);
    large.used = Used::from_numbers([u64::MAX; Used::NUMBERS]);
    large.last = UnixMillis(u64::MAX);
    for _ in 0..3 {
        store.add_usage(&[large.clone()]).unwrap();
    }
    let query = all_usage(Resolution::Day, GroupBy::default(), 10);
    let rows = store.usage(&query).unwrap().rows;
    assert_eq!(rows[0].used.numbers(), [3 << 40; Used::NUMBERS]);
    assert_eq!(store.load().unwrap().last_used.len(), 1);
}
