use super::*;
use crate::{
    id::TenantId,
    usage::{counted::RequestUse, counts::UsageCounts},
};

fn key(number: u64) -> KeyId {
    KeyId::of_configured(&number.to_string())
}

fn request(method: u16) -> RequestUse {
    RequestUse {
        method,
        outcome: 0,
        units: 1,
        bytes_in: 1,
        bytes_out: 1,
        took: Duration::ZERO,
    }
}

fn merged() -> Merged {
    Merged::new(Labels::new(["a", "b"], ["ok"]), UnixMillis(0))
}

/// Everything that is written, or the error.
fn flush(merged: &mut Merged, now: u64) -> Vec<UsageCell> {
    let mut written = Vec::new();
    let owner = KeyOwner {
        tenant: TenantId::of_configured("t"),
        chain: None,
    };
    let Ok(()) = merged.flush(
        UnixMillis(now),
        |_| Some(owner),
        |cells| {
            assert!(cells.len() <= FLUSH_CELLS_MAX);
            written.extend_from_slice(cells);
            Ok::<(), std::convert::Infallible>(())
        },
    );
    written
}

#[test]
fn counts_of_workers_are_summed_by_minute() {
    let mut merged = merged();
    for now in [59_000, 59_500, 60_000] {
        let mut worker = UsageCounts::default();
        worker.request(key(1), &request(1));
        worker.request(key(1), &request(7));
        worker.session_opened(key(2), 0);
        merged.merge(&worker.take(), UnixMillis(now));
    }
    let mut found: Vec<_> = flush(&mut merged, 61_000)
        .into_iter()
        .map(|cell| {
            let used = cell.used.requests + cell.used.sessions;
            let (method, outcome) = (cell.method.to_string(), cell.outcome.to_string());
            (
                cell.minute.0,
                cell.key == key(1),
                method,
                outcome,
                cell.last.0,
                used,
            )
        })
        .collect();
    found.sort();
    let row = |minute, is_one, method: &str, outcome: &str, last, used| {
        (
            minute,
            is_one,
            method.to_owned(),
            outcome.to_owned(),
            last,
            used,
        )
    };
    let expected = [
        row(0, false, "session", "session", 59_500, 2),
        row(0, true, "b", "ok", 59_500, 2),
        row(0, true, "other", "ok", 59_500, 2),
        row(60_000, false, "session", "session", 60_000, 1),
        row(60_000, true, "b", "ok", 60_000, 1),
        row(60_000, true, "other", "ok", 60_000, 1),
    ];
    assert_eq!(found, expected);
    assert!(merged.is_empty() && flush(&mut merged, 62_000).is_empty());
}

#[test]
fn a_flush_is_due_every_seven_seconds_or_if_half_of_the_room_is_taken() {
    let mut merged = merged();
    assert!(
        !merged.is_due(UnixMillis(7_000)),
        "there is nothing to write"
    );
    let mut worker = UsageCounts::default();
    worker.request(key(1), &request(0));
    merged.merge(&worker.take(), UnixMillis(1_000));
    assert!(!merged.is_due(UnixMillis(6_999)));
    assert!(merged.is_due(UnixMillis(7_000)));
    let refused = merged.flush(UnixMillis(7_000), |_| None, |_| Err("full"));
    assert_eq!((refused, merged.len()), (Err("full"), 1), "nothing is lost");
    assert!(
        !merged.is_due(UnixMillis(13_999)),
        "a full disk is not tried each second"
    );
    assert!(merged.is_due(UnixMillis(14_000)));
    assert!(merged.is_due(UnixMillis(5_000)), "the clock was set back");
    for number in 0..MERGED_CELLS_MAX as u64 / 2 {
        worker.request(key(number / 1_000), &request((number % 1_000) as u16));
    }
    merged.merge(&worker.take(), UnixMillis(8_000));
    assert!(merged.is_due(UnixMillis(8_000)));
}

#[test]
fn what_awaits_a_flush_is_bounded() {
    let mut merged = merged();
    for minute in 0..3_u64 {
        let mut worker = UsageCounts::default();
        for number in 0..60_000_u64 {
            worker.request(key(number / 1_000), &request((number % 1_000) as u16));
        }
        merged.merge(&worker.take(), UnixMillis(minute * 60_000));
    }
    assert_eq!(merged.len(), MERGED_CELLS_MAX);
    let lost = 180_000 - MERGED_CELLS_MAX as u64;
    assert_eq!(merged.dropped(), lost);
    let written = flush(&mut merged, 180_000);
    assert_eq!(
        written.iter().map(|cell| cell.used.requests).sum::<u64>() + lost,
        180_000
    );
    assert!(
        written.is_sorted_by_key(|cell| cell.minute),
        "the oldest first"
    );
}
