use std::collections::HashSet;

use super::*;
use crate::upstream::client::CallError;

#[test]
fn every_state_and_fault_has_its_own_label_and_text() {
    let mut labels: Vec<_> = UpstreamState::ALL.map(|(state, _)| state.label()).to_vec();
    labels.extend(Fault::ALL.map(Fault::label));
    let mut texts: Vec<_> = UpstreamState::ALL.map(|(_, text)| text.to_owned()).to_vec();
    texts.extend(Fault::ALL.map(|fault| fault.to_string()));
    let is_label = |label: &&str| {
        label
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    assert!(labels.iter().all(is_label), "{labels:?}");
    assert_eq!(labels.iter().collect::<HashSet<_>>().len(), labels.len());
    assert_eq!(texts.iter().collect::<HashSet<_>>().len(), labels.len());
    assert_eq!(
        UpstreamState::Faulty(Fault::BadProof).to_string(),
        "faulty: a proof, contract code or access list failed a check against the block"
    );
}

#[test]
fn every_call_error_has_a_verdict() {
    let wait = Some(Duration::from_secs(9));
    let table = [
        (CallError::Busy, Verdict::NotAtFault),
        (
            CallError::RateLimited { retry_after: wait },
            Verdict::Limited(wait),
        ),
        (
            CallError::Timeout(Duration::ZERO),
            Verdict::Fault(Fault::Timeout),
        ),
        (
            CallError::Connection("".into()),
            Verdict::Fault(Fault::Connection),
        ),
        (
            CallError::Refused { status: 403 },
            Verdict::Fault(Fault::Refused),
        ),
        (
            CallError::UnsupportedMethod,
            Verdict::Fault(Fault::MethodMissing),
        ),
        (CallError::NotFound, Verdict::Fault(Fault::Missing)),
        (
            CallError::Malformed("".into()),
            Verdict::Fault(Fault::Malformed),
        ),
        (
            CallError::TooLarge { limit: 1 },
            Verdict::Fault(Fault::Malformed),
        ),
        (
            CallError::Rpc {
                code: 1,
                message: "".into(),
            },
            Verdict::Fault(Fault::ErrorAnswer),
        ),
    ];
    assert_eq!(table.len(), CallError::LABELS.len());
    for (error, verdict) in table {
        assert_eq!(Verdict::from(&error), verdict, "{error}");
    }
}

#[test]
fn waits_double_up_to_a_bound_with_jitter() {
    let backoff = backoff::Backoff::new(7);
    let block_time = Duration::from_secs(4);
    let base = |strikes: u32, is_lie| {
        let doublings = strikes - 1 + if is_lie { 4 } else { 0 };
        Duration::from_secs(1 << doublings.min(20)).min(BACKOFF_MAX)
    };
    let mut waits = HashSet::new();
    for strikes in [1, 2, 3, 6, 7, 30, 1_000, u32::MAX] {
        for upstream in 0..3 {
            for is_lie in [false, true] {
                let wait = backoff.wait(upstream, strikes, is_lie, block_time);
                let base = base(strikes.min(40), is_lie);
                assert!(
                    wait >= base * 3 / 4 && wait <= base * 5 / 4,
                    "{strikes} {wait:?}"
                );
                assert_eq!(wait, backoff.wait(upstream, strikes, is_lie, block_time));
                waits.insert(wait);
            }
        }
    }
    assert!(waits.len() > 20, "{waits:?}");
    // Any block time gives a bounded wait.
    let first = |block_time| backoff.wait(0, 1, false, block_time);
    assert!(first(Duration::ZERO) >= Duration::from_millis(75));
    assert!(first(Duration::MAX) <= Duration::from_millis(3_750));
}

/// Checks the estimate after these arrivals: blocks, and milliseconds since the last arrival.
fn check_block_time(learned: Option<[(u64, u64); 2]>, arrivals: &[(u64, u64)], millis: u64) {
    let mut block_time = BlockTime::default();
    if let Some([older, newer]) = learned {
        block_time.learn(older, newer);
    }
    let (mut number, mut now) = (100, Duration::ZERO);
    block_time.arrived(number, now);
    for (blocks, after) in arrivals {
        number += blocks;
        now += Duration::from_millis(*after);
        block_time.arrived(number, now);
    }
    let expected = Duration::from_millis(millis);
    assert_eq!(block_time.get(), expected, "{learned:?} {arrivals:?}");
}

#[test]
fn the_block_time_is_the_median_of_intervals() {
    check_block_time(None, &[], 3_000);
    check_block_time(Some([(10, 1_000), (20, 1_020)]), &[], 2_000);
    check_block_time(Some([(10, 1_000), (10, 1_020)]), &[], 3_000);
    check_block_time(Some([(10, 1_000), (9, 1_020)]), &[], 3_000);
    check_block_time(Some([(10, 1_000), (20, 1_000)]), &[], 3_000);
    check_block_time(Some([(10, 1_000), (20, 1_001)]), &[], 200);
    check_block_time(Some([(10, 1_000), (11, 0)]), &[], 3_000);
    check_block_time(Some([(0, 0), (1, u64::MAX)]), &[], 60_000);
    // Arrivals outweigh the timestamps of headers.
    check_block_time(Some([(10, 0), (20, 20)]), &[(1, 500); 4], 2_000);
    check_block_time(Some([(10, 0), (20, 20)]), &[(1, 500); 5], 500);
    check_block_time(None, &[(1, 500), (2, 1_000), (1, 9_000)], 500);
    check_block_time(None, &[(1, 0)], 200);
    check_block_time(None, &[(1, 999_999)], 60_000);
    // A reorg is no interval.
    check_block_time(None, &[(1, 1_000), (0, 50), (0, 50), (1, 1_000)], 1_000);
    let slow = [(1, 4_000); 8];
    let fast = [(1, 1_000); 8];
    check_block_time(None, &[slow, fast].concat(), 1_000);
}
