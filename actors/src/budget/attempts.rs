//! How often something may be tried, by whom; the time is passed in.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

/// Attempts by some key: so many in a row, then one every so often. Keys beyond a bound share one
/// count.
#[derive(Debug)]
pub struct Attempts<K> {
    every: Duration,
    /// The time that all but one of the attempts in a row take.
    leeway: Duration,
    /// Most keys that are counted one by one.
    counted_max: usize,
    /// When the attempts so far would be over at the steady pace. A key that is not here has made
    /// none.
    over: HashMap<K, Instant>,
    /// The same for all keys that have no room in the map.
    others_over: Option<Instant>,
    /// When the keys whose attempts are over were last forgotten.
    swept: Option<Instant>,
}

/// Shortest time between two sweeps of a full map, so that a key that finds no room costs no walk
/// over all others.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

impl<K: Eq + Hash> Attempts<K> {
    /// None yet. A key is allowed `at_once` in a row and then one `every` so often; `counted_max`
    /// keys are counted one by one, and all others together.
    #[must_use]
    pub fn new(at_once: u32, every: Duration, counted_max: usize) -> Self {
        Self {
            every,
            leeway: every * at_once.saturating_sub(1),
            counted_max,
            over: HashMap::new(),
            others_over: None,
            swept: None,
        }
    }

    /// Whether the attempts of a key are counted by themselves, and not with those of others.
    pub fn has_room(&mut self, key: &K, now: Instant) -> bool {
        self.make_room(key, now);
        self.over.len() < self.counted_max || self.over.contains_key(key)
    }

    /// How long the next attempt has to wait, if it has to.
    pub fn wait(&mut self, key: &K, now: Instant) -> Option<Duration> {
        self.make_room(key, now);
        let over = match self.over.get(key) {
            Some(over) => Some(*over),
            None if self.over.len() >= self.counted_max => self.others_over,
            None => None,
        };
        let wait = over?.saturating_duration_since(now + self.leeway);
        (!wait.is_zero()).then_some(wait)
    }

    /// Counts an attempt that need not wait.
    pub fn count(&mut self, key: K, now: Instant) {
        let has_room = self.over.len() < self.counted_max || self.over.contains_key(&key);
        let over = match has_room {
            true => self.over.entry(key).or_insert(now),
            false => self.others_over.get_or_insert(now),
        };
        *over = (*over).max(now) + self.every;
    }

    /// Takes an attempt back.
    pub fn take_back(&mut self, key: &K) {
        let over = match self.over.get_mut(key) {
            Some(over) => Some(over),
            None => self.others_over.as_mut(),
        };
        if let Some(over) = over
            && let Some(before) = over.checked_sub(self.every)
        {
            *over = before;
        }
    }

    /// Forgets the keys that need not be counted any more, if another one has no room.
    fn make_room(&mut self, key: &K, now: Instant) {
        let is_due = |swept: Instant| now.saturating_duration_since(swept) >= SWEEP_EVERY;
        if self.over.len() >= self.counted_max
            && self.swept.is_none_or(is_due)
            && !self.over.contains_key(key)
        {
            self.swept = Some(now);
            self.over.retain(|_, over| *over > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTED_MAX: usize = 10;

    #[test]
    fn memory_is_bounded_and_strangers_share_what_is_left() {
        let mut attempts = Attempts::new(2, Duration::from_secs(1), COUNTED_MAX);
        let now = Instant::now();
        for key in 0..COUNTED_MAX {
            assert!(attempts.has_room(&key, now));
            assert_eq!(attempts.wait(&key, now), None);
            attempts.count(key, now);
        }
        for key in [COUNTED_MAX, COUNTED_MAX + 1] {
            assert_eq!(attempts.wait(&key, now), None);
            attempts.count(key, now);
        }
        let next = COUNTED_MAX + 2;
        assert_eq!(attempts.wait(&next, now), Some(Duration::from_secs(1)));
        assert_eq!(attempts.wait(&0, now), None, "it has room of its own");
        assert!(attempts.has_room(&0, now) && !attempts.has_room(&next, now));
        assert_eq!(attempts.over.len(), COUNTED_MAX);
        // Those whose attempts are over make room.
        let later = now + Duration::from_secs(1);
        assert_eq!(attempts.wait(&next, later), None);
        attempts.count(next, later);
        assert_eq!(attempts.over.len(), 1);
    }
}
