//! Access lists of blocks (EIP-7928) that are held for clients.

use std::{collections::VecDeque, time::Duration};

use alloy_primitives::B256;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time;

use crate::admission::{Callers, FairTurn, FairTurns, QUEUE_ITEMS_PER_TENANT_MAX};

/// Bytes of JSON that are held: twice the lists of 128 blocks of mainnet, at 60 million gas each.
const BYTES_MAX: usize = 64 << 20;
/// Lists that are held: those of the window, and of blocks that were replaced.
const LISTS_MAX: usize = 256;
/// Lists that are asked for or verified for clients at a time. Each may take some tens of megabytes
/// until it is verified, and milliseconds of a thread that new blocks need too.
const IN_PROGRESS_MAX: usize = 2;
/// Longest wait of a client's list for its turn: a hundred of usual size come within it.
const TURN_WAIT_MAX: Duration = Duration::from_secs(5);

/// Verified access lists by their hashes, as the JSON that is served. Those fetched first make
/// room.
#[derive(Debug)]
pub(super) struct AccessLists {
    held: Mutex<Held>,
    turns: FairTurns,
}

impl Default for AccessLists {
    fn default() -> Self {
        Self {
            held: Mutex::default(),
            turns: FairTurns::new(IN_PROGRESS_MAX, QUEUE_ITEMS_PER_TENANT_MAX),
        }
    }
}

#[derive(Debug, Default)]
struct Held {
    /// The newest last.
    lists: VecDeque<(B256, Bytes)>,
    bytes: usize,
}

impl AccessLists {
    /// Waits for a turn to ask for a list and to verify it, which tenants share; `None` if it does
    /// not come in time.
    pub(super) async fn turn(&self, callers: &Callers) -> Option<FairTurn> {
        let turn = time::timeout(TURN_WAIT_MAX, self.turns.take(callers)).await;
        turn.ok().flatten()
    }

    pub(super) fn get(&self, hash: &B256) -> Option<Bytes> {
        let held = self.held.lock();
        // Most reads are near the head.
        let mut newest_first = held.lists.iter().rev();
        let found = newest_first.find(|(held, _)| held == hash);
        found.map(|(_, json)| json.clone())
    }

    pub(super) fn insert(&self, hash: B256, json: Bytes) {
        let mut held = self.held.lock();
        if held.lists.iter().any(|(known, _)| *known == hash) {
            return;
        }
        held.bytes += json.len();
        held.lists.push_back((hash, json));
        while (held.bytes > BYTES_MAX || held.lists.len() > LISTS_MAX)
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
        let many = (4..260).map(|at| B256::from(alloy_primitives::U256::from(at)));
        many.for_each(|hash| lists.insert(hash, Bytes::from_static(b"[]")));
        assert_eq!((held(), lists.held.lock().lists.len()), ([false; 4], 256));
    }
}
