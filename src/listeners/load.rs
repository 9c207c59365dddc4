//! How busy a worker is.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::limits::{INTAKE_MAX, OVERLOAD_MEMORY};

/// How busy a worker is. The worker writes it when it takes connections, the acceptor reads it.
#[derive(Clone, Debug)]
pub(super) struct Load(Arc<Mutex<State>>);

/// The loads of all workers of a server.
#[derive(Clone, Debug)]
pub(super) struct Loads(Vec<Load>);

#[derive(Debug)]
struct State {
    room: Room,
    /// When the first of its long turns began, and the last one ended. There is less than
    /// [`OVERLOAD_MEMORY`] between two of them.
    long_turns: Option<(Instant, Instant)>,
}

/// How many connections may wait for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// As many as it takes at a time.
    For(usize),
    /// None: its turns take too long, or its work waits for too long.
    Overloaded,
    /// None: all its slots are taken.
    NoSlot,
}

impl Load {
    /// That of a worker that has nothing to do.
    pub(super) fn none() -> Self {
        Self(Arc::new(Mutex::new(State {
            room: Room::For(INTAKE_MAX),
            long_turns: None,
        })))
    }

    /// Room for this many connections.
    pub(super) fn set_room(&self, count: usize) {
        self.0.lock().room = Room::For(count);
    }

    /// All slots are taken.
    pub(super) fn set_no_slot(&self) {
        self.0.lock().room = Room::NoSlot;
    }

    /// Turns from then until now took so long that the worker takes nobody.
    pub(super) fn set_overloaded(&self, began: Instant, now: Instant) {
        let mut state = self.0.lock();
        let first = state.overload(began).map_or(began, |(first, _)| first);
        *state = State {
            room: Room::Overloaded,
            long_turns: Some((first, now)),
        };
    }

    /// Whatever was, the worker takes connections now.
    pub(super) fn set_calm(&self) {
        self.0.lock().long_turns = None;
    }

    pub(super) fn room(&self) -> Room {
        self.0.lock().room
    }

    /// For how long its turns have been long again and again: until now if it takes nobody, else
    /// until the last of them.
    pub(super) fn overloaded_for(&self, now: Instant) -> Duration {
        let overload = self.0.lock().overload(now);
        overload.map_or(Duration::ZERO, |(began, until)| {
            until.saturating_duration_since(began)
        })
    }
}

impl Loads {
    /// Those of so many workers that have nothing to do.
    pub(super) fn none(workers: usize) -> Self {
        Self((0..workers).map(|_| Load::none()).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Load> {
        self.0.iter()
    }

    /// For how long all workers that have slots have been overloaded; `None` if none has a slot.
    pub(super) fn overloaded_for(&self, now: Instant) -> Option<Duration> {
        let with_slots = self.iter().filter(|load| load.room() != Room::NoSlot);
        with_slots.map(|load| load.overloaded_for(now)).min()
    }
}

impl State {
    /// When the overload began that is not over yet, and until when turns have been long.
    fn overload(&self, now: Instant) -> Option<(Instant, Instant)> {
        let (first, last) = self.long_turns?;
        if self.room == Room::Overloaded {
            return Some((first, now));
        }
        let goes_on = now.saturating_duration_since(last) < OVERLOAD_MEMORY;
        goes_on.then_some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens to the load of a worker.
    enum Act {
        /// Long turns, since then.
        Long(f64),
        /// It takes connections.
        Short,
        Calm,
    }

    /// What happens when, then a time, and for how long there has been an overload at that time.
    type Case = (&'static [(f64, Act)], f64, f64);

    #[test]
    fn an_overload_lasts_while_long_turns_follow_each_other_soon() {
        use Act::{Calm, Long, Short};

        let began = Instant::now();
        // All times are in units of `OVERLOAD_MEMORY`.
        let at = |time: f64| began + OVERLOAD_MEMORY.mul_f64(time);
        let cases: [Case; 9] = [
            (&[], 1.0, 0.0),
            (&[(0.5, Long(0.2))], 0.6, 0.4),
            // One long turn is no long overload, although it is remembered.
            (&[(0.5, Long(0.4)), (0.5, Short)], 1.4, 0.1),
            // As long as it takes nobody, however long that is.
            (&[(0.5, Long(0.2))], 9.0, 8.8),
            (&[(5.0, Long(0.2)), (9.0, Long(5.0))], 9.0, 8.8),
            // Some short turns do not end it.
            (
                &[
                    (0.5, Long(0.2)),
                    (0.5, Short),
                    (1.4, Long(1.2)),
                    (1.4, Short),
                ],
                2.3,
                1.2,
            ),
            // If others follow later, it is another one.
            (
                &[(0.5, Long(0.2)), (0.5, Short), (1.7, Long(1.6))],
                1.8,
                0.2,
            ),
            (&[(0.5, Long(0.2)), (0.5, Short)], 1.6, 0.0),
            (&[(0.5, Long(0.2)), (0.6, Short), (0.6, Calm)], 0.7, 0.0),
        ];
        for (number, (acts, now, expected)) in cases.into_iter().enumerate() {
            let load = Load::none();
            for (time, act) in acts {
                match act {
                    Long(since) => load.set_overloaded(at(*since), at(*time)),
                    Short => load.set_room(1),
                    Calm => load.set_calm(),
                }
            }
            let found = load
                .overloaded_for(at(now))
                .div_duration_f64(OVERLOAD_MEMORY);
            assert!((found - expected).abs() < 1e-6, "case {number}: {found}");
        }
    }
}
