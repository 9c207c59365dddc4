//! How long new work waits for its first turn.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

/// Work of one kind and one thread that waits for its first turn: its large replies, or its calls
/// of contracts.
///
/// The wait is told by the newest work that has had its turn: nothing that came after it has had
/// one. That something large waits while other work passes it says nothing.
#[derive(Debug, Default)]
pub struct FirstTurns {
    waiting: Cell<usize>,
    /// When the newest work came that has had its first turn, or what waits first if there was
    /// nothing before it.
    served: Cell<Option<Instant>>,
}

/// Work that waits for its first turn.
#[derive(Debug)]
pub struct FirstTurn {
    all: Rc<FirstTurns>,
    came: Instant,
}

impl FirstTurns {
    /// Something begins to wait.
    pub fn wait(self: &Rc<Self>, now: Instant) -> FirstTurn {
        if self.waiting.get() == 0 {
            self.serve(now);
        }
        self.waiting.set(self.waiting.get() + 1);
        FirstTurn {
            all: Rc::clone(self),
            came: now,
        }
    }

    /// What came then has its first turn.
    pub(super) fn serve(&self, came: Instant) {
        self.served.set(self.served.get().max(Some(came)));
    }

    /// How far behind the thread is: the age of the newest work that has had its first turn, while
    /// other work waits.
    #[must_use]
    pub fn waited(&self, now: Instant) -> Duration {
        match self.served.get() {
            Some(served) if self.waiting.get() > 0 => now.saturating_duration_since(served),
            _ => Duration::ZERO,
        }
    }
}

impl FirstTurn {
    /// It has its turn.
    pub(crate) fn had(self) {
        self.all.serve(self.came);
    }
}

impl Drop for FirstTurn {
    fn drop(&mut self) {
        self.all.waiting.set(self.all.waiting.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_that_of_the_newest_work_that_had_its_turn() {
        let turns = Rc::new(FirstTurns::default());
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let waited = |seconds| turns.waited(at(seconds)).as_secs();
        assert_eq!(waited(0), 0);
        let first = turns.wait(at(1));
        let second = turns.wait(at(2));
        let third = turns.wait(at(3));
        assert_eq!(waited(4), 3, "nobody has had a turn");
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
