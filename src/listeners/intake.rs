//! How many new connections a worker takes.

use std::time::Duration;

use crate::limits::{INTAKE_MAX, TURNS_TIME_MAX};

/// How many connections one worker takes at a time.
///
/// A turn goes once through all connections that are ready, and a cheap request takes a few turns.
/// While these take too long, or large replies wait for too long to begin, a worker takes no
/// connection. After the next short wait it takes a single one, then twice as many each time. So a
/// crowd that connects at once does not slow down those that are connected already by more than
/// that.
#[derive(Debug)]
pub(super) struct Intake {
    next: usize,
}

impl Intake {
    /// That of a worker that has nothing to do.
    pub(super) const fn new() -> Self {
        Self { next: INTAKE_MAX }
    }

    /// How many connections it will take if turns stay short.
    pub(super) const fn next(&self) -> usize {
        self.next
    }

    /// How many connections to take when requests wait this long.
    pub(super) fn after(&mut self, waited: Duration) -> usize {
        if waited > TURNS_TIME_MAX {
            self.next = 1;
            return 0;
        }
        let taken = self.next;
        self.next = (taken * 2).min(INTAKE_MAX);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_turns_stop_the_intake_and_short_ones_let_it_grow() {
        let mut intake = Intake::new();
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
            assert_eq!(intake.after(turns), expected);
            assert_eq!(intake.next(), (expected * 2).clamp(1, INTAKE_MAX));
        }
    }
}
