//! The throttle against a plain model: a bucket for each network.

use std::{collections::HashMap, time::Duration};

use proptest::prelude::*;

use super::*;

/// Addresses, and the network that each of them is counted by.
const ADDRESSES: [(&str, u8); 6] = [
    ("192.0.2.1", 0),
    ("::ffff:192.0.2.1", 0),
    ("192.0.2.2", 1),
    ("2001:db8::1", 2),
    ("2001:db8::ffff:1:2:3", 2),
    ("2001:db8:0:1::1", 3),
];

proptest! {
    #[test]
    fn the_throttle_agrees_with_the_model(
        guesses in prop::collection::vec((0..ADDRESSES.len(), 0..60_u64), 0..2_000),
    ) {
        let (throttle, start) = (GuessThrottle::default(), Instant::now());
        let every = u64::try_from(KEY_GUESS_EVERY.as_millis()).unwrap_or_default();
        let full = every * u64::from(KEY_GUESSES_MAX);
        // What each network has left, in milliseconds of waiting, and when it was counted.
        let mut left: HashMap<u8, (u64, u64)> = HashMap::new();
        let mut now = 0;
        for (at, pause) in guesses {
            now += pause;
            let (address, network) = ADDRESSES[at];
            let (bucket, counted) = left.get(&network).copied().unwrap_or((full, now));
            let bucket = full.min(bucket + (now - counted));
            let expected = match bucket.checked_sub(every) {
                Some(rest) => {
                    left.insert(network, (rest, now));
                    Ok(())
                }
                None => {
                    left.insert(network, (bucket, now));
                    let wait = (every - bucket).div_ceil(1_000).max(1);
                    Err(u32::try_from(wait).unwrap_or(u32::MAX))
                }
            };
            let address = address.parse().map_err(|_| TestCaseError::fail("an address"))?;
            let found = throttle.count(address, start + Duration::from_millis(now));
            prop_assert_eq!(found, expected, "{} at {}", address, now);
        }
    }
}

#[test]
fn memory_is_bounded_and_those_that_have_no_room_share_a_count() {
    let (throttle, now) = (GuessThrottle::default(), Instant::now());
    let address = |at: u32| IpAddr::from((0x0a00_0000 + at).to_be_bytes());
    let room = u32::try_from(THROTTLED_MAX).unwrap_or(u32::MAX);
    for at in 0..room + KEY_GUESSES_MAX {
        assert_eq!(throttle.count(address(at), now), Ok(()), "{at}");
    }
    assert_eq!(throttle.count(address(u32::MAX >> 8), now), Err(1));
    assert_eq!(throttle.count(address(0), now), Ok(()), "it has its own");
}
