//! How many new connections a worker takes.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use crate::{
    connections::Newcomers,
    limits::{INTAKE_GROWTH, INTAKE_MAX, INTAKE_TIME, TURNS_TIME_MAX},
};

/// How many connections one worker takes at a time.
///
/// A turn goes once through all connections that are ready, and a cheap request takes a few turns.
/// While these take too long, or other work waits for too long to begin, a worker takes no
/// connection. After the next short wait it takes a single one, then twice as many each time. So a
/// crowd that connects at once does not slow down those that are connected already by more than
/// that.
///
/// Short turns do not show yet what those ask for who have just come. So of the clients that came
/// in one [`INTAKE_TIME`], [`INTAKE_MAX`] may wait for an answer. If so many do, and others come,
/// [`INTAKE_GROWTH`] times as many may wait in the next one. Connections that the worker lacks are
/// taken in any case: they do not let more wait, and count while they wait themselves.
pub(super) struct Intake {
    /// Those who came in the present [`INTAKE_TIME`].
    newcomers: Rc<Newcomers>,
    /// How many it takes at a time, if turns stay short.
    at_a_time: usize,
    /// When the present [`INTAKE_TIME`] began.
    began: Instant,
    /// How many it has taken since then, besides those that it lacked.
    taken: usize,
    /// How many of those who were taken last are no newcomers yet.
    uncounted: usize,
    /// How many newcomers may wait for an answer.
    waiting_max: usize,
    /// The most that have waited at the same time.
    most_waiting: usize,
    /// Whether a client could not be taken because too many newcomers wait.
    is_full: bool,
}

impl Intake {
    /// That of a worker that has nothing to do.
    pub(super) fn new(newcomers: Rc<Newcomers>, now: Instant) -> Self {
        Self {
            newcomers,
            at_a_time: INTAKE_MAX,
            began: now,
            taken: 0,
            uncounted: 0,
            waiting_max: INTAKE_MAX,
            most_waiting: 0,
            is_full: false,
        }
    }

    /// How many connections it will take if turns stay short.
    pub(super) fn next(&self) -> usize {
        let waiting = self.newcomers.waiting() + self.uncounted;
        self.at_a_time.min(self.waiting_max.saturating_sub(waiting))
    }

    /// How many connections to take when requests wait this long.
    pub(super) fn after(&mut self, wait: Duration, now: Instant) -> usize {
        self.uncounted = 0;
        self.most_waiting = self.most_waiting.max(self.newcomers.waiting());
        self.begin_time(now);
        if wait > TURNS_TIME_MAX {
            self.at_a_time = 1;
            return 0;
        }
        let most = self.next();
        self.is_full = most == 0;
        if most > 0 {
            self.at_a_time = (self.at_a_time * 2).min(INTAKE_MAX);
        }
        most
    }

    /// So many were taken, of which the worker lacked some.
    pub(super) fn took(&mut self, count: usize, lacked: usize) {
        self.taken += count.saturating_sub(lacked);
        self.uncounted = count;
        self.is_full = false;
    }

    /// Begins the next [`INTAKE_TIME`] if the present one is over.
    fn begin_time(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.began);
        if passed < INTAKE_TIME {
            return;
        }
        // After a pause, those who come are another crowd.
        let goes_on = passed < 2 * INTAKE_TIME || self.is_full;
        let before = match goes_on {
            true => self.taken.min(self.most_waiting),
            false => 0,
        };
        self.waiting_max = (before * INTAKE_GROWTH).max(INTAKE_MAX);
        (self.began, self.taken, self.most_waiting) = (now, 0, 0);
        self.newcomers.begin();
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, iter};

    use super::*;

    #[test]
    fn long_turns_stop_the_intake_and_short_ones_let_it_grow() {
        let now = Instant::now();
        let mut intake = Intake::new(Rc::default(), now);
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

    /// By the time at which the worker looks, in units of [`INTAKE_TIME`]: how many newcomers may
    /// wait for an answer; how many come, how many of these it lacks and how many it takes; and how
    /// many have their answers after that, the earliest ones first.
    #[test]
    fn newcomers_show_what_they_ask_for_before_more_are_taken() {
        const SOME: usize = INTAKE_MAX;
        const MORE: usize = INTAKE_GROWTH * SOME;

        let began = Instant::now();
        let newcomers = Rc::<Newcomers>::default();
        let mut waiting = VecDeque::new();
        let mut intake = Intake::new(Rc::clone(&newcomers), began);
        for (time, may_wait, (came, lacks, expected), answered) in [
            // What it lacks is taken in any case.
            (0.0, SOME, (MORE + SOME, MORE, MORE), 0),
            (0.1, SOME, (SOME, 0, 0), MORE - 1),
            (0.2, SOME, (SOME, 0, SOME - 1), 0),
            (0.3, SOME, (SOME, 0, 0), 1),
            (0.4, SOME, (SOME, 0, 1), 0),
            // Four times as many as were taken before, without those that it lacked.
            (1.0, MORE, (SOME, 0, SOME), 0),
            (1.1, MORE, (SOME, 0, SOME), 0),
            (1.2, MORE, (5, 0, 5), 0),
            (1.3, MORE, (SOME, 0, SOME), 0),
            (1.4, MORE, (SOME, 0, MORE - 3 * SOME - 5), 0),
            (1.5, MORE, (SOME, 0, 0), MORE + SOME),
            // On a busy machine, it looks late. All are answered soon now.
            (7.0, INTAKE_GROWTH * MORE, (SOME, 0, SOME), SOME),
            (7.1, INTAKE_GROWTH * MORE, (SOME, 0, SOME), SOME),
            (7.2, INTAKE_GROWTH * MORE, (SOME, 0, SOME), SOME - 5),
            // No more may wait than did, however many were taken.
            (8.0, SOME + 4, (SOME, 0, SOME), 0),
            // After a pause, another crowd comes.
            (10.0, SOME, (SOME, 0, SOME), 0),
            // What it lacked does not count as taken, so this is a pause, too.
            (10.1, SOME, (SOME, SOME, SOME), 0),
            (12.5, SOME, (SOME, 0, SOME), 0),
            (12.6, SOME, (SOME, 0, 0), 0),
            (13.5, MORE, (SOME, 0, SOME), 0),
        ] {
            let now = began + INTAKE_TIME.mul_f64(time);
            let taken = intake.after(TURNS_TIME_MAX, now).max(lacks).min(came);
            assert_eq!(
                (intake.waiting_max, taken),
                (may_wait, expected),
                "at {time}"
            );
            if taken > 0 {
                let left = intake.next();
                intake.took(taken, lacks);
                let fewer = left.min(
                    intake
                        .waiting_max
                        .saturating_sub(newcomers.waiting() + taken),
                );
                assert_eq!(intake.next(), fewer, "after {time}");
            }
            waiting.extend(iter::repeat_with(|| newcomers.add()).take(taken));
            waiting.drain(..answered);
        }
    }
}
