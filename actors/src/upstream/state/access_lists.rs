//! The access lists of recent blocks (EIP-7928).

use std::collections::VecDeque;

use alloy_primitives::B256;
use bytes::Bytes;
use parking_lot::Mutex;

/// Bytes of JSON that are held: twice the lists of 128 blocks of mainnet, at 60 million gas each.
const BYTES_MAX: usize = 64 << 20;

/// Verified access lists by their hashes, as the JSON that is served. The oldest ones make room.
#[derive(Debug, Default)]
pub(super) struct AccessLists(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    /// The newest last.
    lists: VecDeque<(B256, Bytes)>,
    bytes: usize,
}

impl AccessLists {
    pub(super) fn get(&self, hash: &B256) -> Option<Bytes> {
        let held = self.0.lock();
        // Most reads are near the head.
        let mut newest_first = held.lists.iter().rev();
        let found = newest_first.find(|(held, _)| held == hash);
        found.map(|(_, json)| json.clone())
    }

    pub(super) fn insert(&self, hash: B256, json: Bytes) {
        let mut held = self.0.lock();
        if held.lists.iter().any(|(known, _)| *known == hash) {
            return;
        }
        held.bytes += json.len();
        held.lists.push_back((hash, json));
        while held.bytes > BYTES_MAX
            && let Some((_, oldest)) = held.lists.pop_front()
        {
            held.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lists_make_room() {
        let lists = AccessLists::default();
        let hash = |at: usize| B256::with_last_byte(at as u8);
        let third = Bytes::from(vec![b' '; BYTES_MAX / 3]);
        let held = || [0, 1, 2, 3].map(|at| lists.get(&hash(at)).is_some());
        for at in [0, 1, 1, 2] {
            lists.insert(hash(at), third.clone());
        }
        assert_eq!(held(), [true, true, true, false]);
        lists.insert(hash(3), third);
        assert_eq!(held(), [false, true, true, true]);
        let too_large = Bytes::from(vec![b' '; BYTES_MAX + 1]);
        lists.insert(hash(0), too_large);
        assert_eq!(held(), [false; 4]);
        lists.insert(hash(0), Bytes::from_static(b"[]"));
        assert_eq!(held(), [true, false, false, false]);
    }
}
