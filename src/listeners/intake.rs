//! How many new connections a worker takes.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use crate::limits::{INTAKE_GROWTH, INTAKE_MAX, INTAKE_TIME, TURNS_TIME_MAX};

/// How many connections one worker takes at a time.
///
/// A turn goes once through all connections that are ready, and a cheap request takes a few turns.
/// While these take too long, or other work waits for too long to begin, a worker takes no
/// connection. After the next short wait it takes a single one, then twice as many each time. So a
/// crowd that connects at once does not slow down those that are connected already by more than
/// that.
///
/// Short turns do not show yet what those ask for who have just come. So while [`INTAKE_MAX`]
/// clients wait for an answer, a worker takes that many beyond those that it lacks in one
/// [`INTAKE_TIME`], or [`INTAKE_GROWTH`] times as many as in the one before.
pub(super) struct Intake {
    unanswered: Unanswered,
    /// How many it takes at a time, if turns stay short.
    at_a_time: usize,
    /// When the present [`INTAKE_TIME`] began.
    began: Instant,
    /// How many it has taken since then, besides those that it lacked.
    taken: usize,
    /// How many more it may take until the end of that time.
    left: usize,
    /// Whether somebody came in that time who may not be taken.
    in_vain: bool,
}

/// How many clients wait for a reply that has not begun, or have not sent a request yet.
pub(super) type Unanswered = Rc<dyn Fn() -> usize>;

impl Intake {
    /// That of a worker that has nothing to do.
    pub(super) const fn new(unanswered: Unanswered, now: Instant) -> Self {
        Self {
            unanswered,
            at_a_time: INTAKE_MAX,
            began: now,
            taken: 0,
            left: INTAKE_MAX,
            in_vain: false,
        }
    }

    /// How many connections it will take if turns stay short.
    pub(super) fn next(&self) -> usize {
        self.at_a_time.min(self.left)
    }

    /// How many connections to take when requests wait this long.
    pub(super) fn after(&mut self, wait: Duration, now: Instant) -> usize {
        self.begin_time(now);
        if wait > TURNS_TIME_MAX {
            self.at_a_time = 1;
            return 0;
        }
        let most = self.next();
        match most {
            0 => self.in_vain = true,
            _ => self.at_a_time = (self.at_a_time * 2).min(INTAKE_MAX),
        }
        most
    }

    /// So many were taken, of which the worker lacked some.
    pub(super) fn took(&mut self, count: usize, lacked: usize) {
        let beyond = count.saturating_sub(lacked);
        self.taken += beyond;
        self.left = self.left.saturating_sub(beyond);
    }

    /// Begins the next [`INTAKE_TIME`] if the present one is over, or nearly all have their
    /// answers.
    fn begin_time(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.began);
        if passed < INTAKE_TIME && (self.unanswered)() >= INTAKE_MAX {
            return;
        }
        // After a pause in which it could have taken more, those who come are another crowd.
        let goes_on = passed < 2 * INTAKE_TIME || self.in_vain;
        let before = if goes_on { self.taken } else { 0 };
        self.left = (before * INTAKE_GROWTH).max(INTAKE_MAX);
        (self.began, self.taken, self.in_vain) = (now, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn long_turns_stop_the_intake_and_short_ones_let_it_grow() {
        let now = Instant::now();
        let mut intake = Intake::new(Rc::new(|| 0), now);
        let short = TURNS_TIME_MAX;
        let long = TURNS_TIME_MAX + Duration::from_micros(1);
        for (turns, expected) in [
            (short, INTAKE_MAX),
            (short, INTAKE_MAX),
            (long, 0),
            (long, 0),
            (short, 1),
            (short, 2),
            (short, 4),
            (long, 0),
            (short, 1),
            (short, 2),
            (short, 4),
            (short, 8),
            (short, INTAKE_MAX),
            (short, INTAKE_MAX),
            (short, INTAKE_MAX),
        ] {
            assert_eq!(intake.after(turns, now), expected);
            assert_eq!(intake.next(), (expected * 2).clamp(1, INTAKE_MAX));
        }
    }

    /// How many are taken while turns are short, by the time at which the worker asks: in units of
    /// `INTAKE_TIME`, with how many come and how many of these it lacks.
    #[test]
    fn while_many_wait_for_answers_what_is_taken_grows_from_one_time_to_the_next() {
        const SOME: usize = INTAKE_MAX;

        let began = Instant::now();
        let waiting = Rc::new(Cell::new(INTAKE_MAX));
        let waits = Rc::clone(&waiting);
        let mut intake = Intake::new(Rc::new(move || waits.get()), began);
        for (time, came, lacks, expected) in [
            // What it lacks is taken in any case, and some beside it.
            (0.0, 5 * SOME, 4 * SOME, 4 * SOME),
            (0.4, SOME, 0, SOME),
            (0.5, SOME, 0, 0),
            (0.6, SOME, SOME, SOME),
            (1.0, SOME, 0, SOME),
            (1.1, SOME, 0, SOME),
            (1.2, SOME, 0, SOME),
            (1.3, SOME, 0, SOME),
            (1.4, SOME, 0, 0),
            // On a busy machine, it asks late.
            (7.0, SOME, 0, SOME),
            (7.1, 5, 0, 5),
            (7.2, SOME, 0, SOME),
            (7.3, SOME, 0, SOME),
            (7.4, SOME, 0, SOME),
            // A pause ends the growth, also after a time in which all came who might.
            (9.5, SOME, 0, SOME),
            (11.5, SOME, 0, SOME),
            (11.6, SOME, 0, 0),
            // Clients that leave soon are lacked again and again, and others come nevertheless.
            (13.0, SOME, SOME, SOME),
            (13.1, SOME, 0, SOME),
        ] {
            let now = began + INTAKE_TIME.mul_f64(time);
            let taken = intake.after(TURNS_TIME_MAX, now).max(lacks).min(came);
            assert_eq!(taken, expected, "at {time}");
            intake.took(taken, lacks);
        }
        // Growth after long turns waits for those that may be taken.
        let late = began + INTAKE_TIME.mul_f64(13.5);
        intake.took(intake.left, 0);
        assert_eq!(intake.after(2 * TURNS_TIME_MAX, late), 0);
        for _ in 0..5 {
            assert_eq!(intake.after(TURNS_TIME_MAX, late), 0);
        }
        let next = began + 14 * INTAKE_TIME;
        assert_eq!(intake.after(TURNS_TIME_MAX, next), 1);
        for _ in 0..3 {
            intake.after(TURNS_TIME_MAX, next);
        }
        waiting.set(INTAKE_MAX - 1);
        for _ in 0..4 {
            let taken = intake.after(TURNS_TIME_MAX, began + 15 * INTAKE_TIME);
            assert_eq!(taken, INTAKE_MAX);
            intake.took(taken, 0);
        }
    }
}
