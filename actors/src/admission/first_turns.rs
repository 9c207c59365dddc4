//! How long new work waits for its first turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Work of one kind that waits for its first turn: the large replies of a thread, or the calls of
/// contracts.
///
/// The wait is told by the newest work that has had its turn: nothing that came after it has had
/// one. That something large waits while other work passes it says nothing.
#[derive(Debug, Default)]
pub struct FirstTurns(Mutex<Turns>);

#[derive(Debug, Default)]
struct Turns {
    waiting: usize,
    /// When the newest work came that has had its first turn, or what waits first if there was
    /// nothing before it.
    served: Option<Instant>,
}

/// Work that waits for its first turn. It waits no more when this is dropped.
#[derive(Debug)]
pub struct FirstTurn {
    all: Arc<FirstTurns>,
    came: Instant,
    is_over: AtomicBool,
}

impl FirstTurns {
    /// Something begins to wait.
    pub fn wait(self: &Arc<Self>, now: Instant) -> FirstTurn {
        let mut turns = self.0.lock();
        if turns.waiting == 0 {
            turns.serve(now);
        }
        turns.waiting += 1;
        FirstTurn {
            all: Arc::clone(self),
            came: now,
            is_over: AtomicBool::new(false),
        }
    }

    /// What came then has its first turn.
    pub(super) fn serve(&self, came: Instant) {
        self.0.lock().serve(came);
    }

    /// How long the newest work that has had its first turn has been here, while other work waits.
    #[must_use]
    pub fn waited(&self, now: Instant) -> Duration {
        let turns = self.0.lock();
        match turns.served {
            Some(served) if turns.waiting > 0 => now.saturating_duration_since(served),
            _ => Duration::ZERO,
        }
    }
}

impl Turns {
    fn serve(&mut self, came: Instant) {
        self.served = self.served.max(Some(came));
    }
}

impl FirstTurn {
    /// It has its turn.
    pub fn had(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            let mut turns = self.all.0.lock();
            turns.serve(self.came);
            turns.waiting -= 1;
        }
    }
}

impl Drop for FirstTurn {
    fn drop(&mut self) {
        if !*self.is_over.get_mut() {
            self.all.0.lock().waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_that_of_the_newest_work_that_had_its_turn() {
        let turns = Arc::new(FirstTurns::default());
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let waited = |seconds| turns.waited(at(seconds)).as_secs();
        assert_eq!(waited(0), 0);
        let first = turns.wait(at(1));
        let second = turns.wait(at(2));
        let third = turns.wait(at(3));
        assert_eq!(waited(4), 3, "nobody has had a turn");
        second.had();
        second.had();
        assert_eq!(waited(4), 2);
        // One that came before does not make it longer.
        first.had();
        assert_eq!(waited(5), 3);
        // One that does not have to wait.
        turns.serve(at(6));
        assert_eq!(waited(7), 1);
        drop(third);
        assert_eq!(waited(8), 0, "nobody waits");
        let _fourth = turns.wait(at(9));
        assert_eq!(waited(11), 2);
    }
}
