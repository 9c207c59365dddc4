//! How long new work waits for its first turn.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

/// Time with work waiting after which the pace is measured again: some periods of a CPU quota.
const PACE_TIME: Duration = Duration::from_millis(100);

/// How long a measured pace is that of the work that waits now.
const PACE_AGE_MAX: Duration = Duration::from_secs(2);

/// Work of one kind that waits for its first turn on one thread: its large replies, or its steps of
/// TLS handshakes.
///
/// The wait is told by the newest work that has had its turn: nothing that came after it has had
/// one. That something large waits while other work passes it says nothing. And it is told by how
/// much waits: a crowd that has just come has not waited for long yet.
#[derive(Debug, Default)]
pub struct FirstTurns(RefCell<Turns>);

#[derive(Debug, Default)]
struct Turns {
    waiting: usize,
    /// When the newest work came that has had its first turn, or what waits first if there was
    /// nothing before it.
    served: Option<Instant>,
    pace: Pace,
}

/// How fast work that waits has its first turns.
#[derive(Debug, Default)]
struct Pace {
    /// Up to when it is counted; `None` while nothing waits.
    counted: Option<Instant>,
    /// Time in which work waited, and the turns in it, since the last measurement.
    busy: Duration,
    turns: u32,
    /// The last turn.
    last: Option<Instant>,
    /// When it was measured last, and the time from one turn to the next then.
    measured: Option<(Instant, Duration)>,
}

/// Work that waits for its first turn. It waits no more when this is dropped.
#[derive(Debug)]
pub struct FirstTurn {
    all: Rc<FirstTurns>,
    came: Instant,
}

impl FirstTurns {
    /// Something begins to wait.
    pub fn wait(self: &Rc<Self>, now: Instant) -> FirstTurn {
        let mut turns = self.0.borrow_mut();
        if turns.waiting == 0 {
            turns.served = turns.served.max(Some(now));
            turns.pace.begin(now);
        }
        turns.waiting += 1;
        FirstTurn {
            all: Rc::clone(self),
            came: now,
        }
    }

    /// What came now has its first turn at once.
    pub(super) fn serve(&self, now: Instant) {
        self.0.borrow_mut().serve(now, now);
    }

    /// How long work that comes now waits, while other work waits: the age of the newest that has
    /// had its first turn, or the time until all that wait have had one, if that is longer.
    #[must_use]
    pub fn wait_of_next(&self, now: Instant) -> Duration {
        let turns = self.0.borrow();
        match turns.served {
            Some(served) if turns.waiting > 0 => {
                let waited = now.saturating_duration_since(served);
                waited.max(turns.pace.time_for(turns.waiting, now))
            }
            _ => Duration::ZERO,
        }
    }
}

impl Turns {
    /// What came then has its turn now.
    fn serve(&mut self, came: Instant, now: Instant) {
        self.served = self.served.max(Some(came));
        self.pace.turn(now);
    }

    /// One waits no more.
    fn leave(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.pace.counted = None;
        }
    }
}

impl Pace {
    /// Work begins to wait. What was counted long ago was another crowd's.
    fn begin(&mut self, now: Instant) {
        self.counted = Some(now);
        let last = self.last.unwrap_or(now);
        if now.saturating_duration_since(last) >= PACE_AGE_MAX {
            (self.busy, self.turns) = (Duration::ZERO, 0);
        }
    }

    /// One has its turn.
    fn turn(&mut self, now: Instant) {
        self.last = Some(now);
        let Some(counted) = &mut self.counted else {
            return;
        };
        self.busy += now.saturating_duration_since(*counted);
        *counted = now;
        self.turns += 1;
        if self.busy >= PACE_TIME {
            self.measured = Some((now, self.busy / self.turns));
            (self.busy, self.turns) = (Duration::ZERO, 0);
        }
    }

    /// How long it takes until so many have had their turns; zero if that is not known.
    fn time_for(&self, waiting: usize, now: Instant) -> Duration {
        let turns = u32::try_from(waiting).unwrap_or(u32::MAX);
        match self.measured {
            Some((measured, turn)) if now.saturating_duration_since(measured) < PACE_AGE_MAX => {
                turn.saturating_mul(turns)
            }
            _ => Duration::ZERO,
        }
    }
}

impl FirstTurn {
    /// It has its turn.
    pub fn had(self, now: Instant) {
        self.all.0.borrow_mut().serve(self.came, now);
    }
}

impl Drop for FirstTurn {
    fn drop(&mut self) {
        self.all.0.borrow_mut().leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_that_of_the_newest_work_that_had_its_turn() {
        let turns = Rc::<FirstTurns>::default();
        let began = Instant::now();
        // So few that no pace is measured.
        let at = |millis| began + Duration::from_millis(millis);
        let waited = |millis| turns.wait_of_next(at(millis)).as_millis();
        assert_eq!(waited(0), 0);
        let first = turns.wait(at(1));
        let second = turns.wait(at(2));
        let third = turns.wait(at(3));
        assert_eq!(waited(4), 3, "nobody has had a turn");
        second.had(at(4));
        assert_eq!(waited(4), 2);
        // One that came before does not make it longer.
        first.had(at(5));
        assert_eq!(waited(5), 3);
        // One that does not have to wait.
        turns.serve(at(6));
        assert_eq!(waited(7), 1);
        drop(third);
        assert_eq!(waited(8), 0, "nobody waits");
        let _fourth = turns.wait(at(9));
        assert_eq!(waited(11), 2);
    }

    #[test]
    fn a_crowd_that_has_just_come_waits_as_long_as_its_turns_take() {
        const TURN: Duration = Duration::from_millis(2);

        let turns = Rc::<FirstTurns>::default();
        let mut now = Instant::now();
        let crowd: Vec<_> = (0..40).map(|_| turns.wait(now)).collect();
        assert_eq!(turns.wait_of_next(now), Duration::ZERO, "no pace is known");
        drop(crowd);
        // While nothing waits, no time is counted.
        for _ in 0..=PACE_TIME.div_duration_f64(TURN) as u32 {
            now += TURN;
            turns.serve(now);
            let turn = turns.wait(now);
            now += TURN;
            turn.had(now);
        }
        let mut crowd: Vec<_> = (0..40).map(|_| turns.wait(now)).collect();
        assert_eq!(turns.wait_of_next(now), 40 * TURN);
        crowd.drain(..10).for_each(|turn| turn.had(now));
        assert_eq!(turns.wait_of_next(now), 30 * TURN);
        // That pace was another crowd's, and so is what was counted since.
        let counted = turns.wait(now);
        now += PACE_TIME - TURN;
        counted.had(now);
        now += PACE_AGE_MAX;
        drop(crowd);
        let mut crowd: Vec<_> = (0..40).map(|_| turns.wait(now)).collect();
        assert_eq!(turns.wait_of_next(now), Duration::ZERO);
        crowd.remove(0).had(now + TURN);
        assert_eq!(turns.wait_of_next(now + TURN), TURN, "its age alone");
    }
}
