//! How long something is held before it is released, and so how soon more of it is free.

use std::time::{Duration, Instant};

use super::cost::{HOLD_TIME_WINDOW, RETRY_AFTER_MAX, RETRY_AFTER_UNMEASURED};

/// How long a unit of something, such as a byte, is held on average, over the last seconds in which
/// any was.
///
/// What is held and how long it is held give the rate at which it is released. A rate by itself
/// would be low while little is asked for, however soon that is released.
#[derive(Debug, Default)]
pub(super) struct HoldTime {
    /// The last mark.
    marked: Option<Instant>,
    current: Window,
    /// The window before it.
    before: Window,
}

#[derive(Debug, Default)]
struct Window {
    /// Time in which anything was held.
    time: Duration,
    /// Seconds for which units were held, in sum.
    unit_seconds: f64,
    /// Units that were released.
    released: f64,
}

impl HoldTime {
    /// Records that so many units have been held since the last mark. Every change is preceded by a
    /// mark.
    pub(super) fn mark(&mut self, held: usize, now: Instant) {
        let marked = self.marked.unwrap_or(now);
        self.marked = Some(marked.max(now));
        let passed = now.saturating_duration_since(marked);
        if held == 0 || passed.is_zero() {
            return;
        }
        if self.current.time >= HOLD_TIME_WINDOW {
            self.before = std::mem::take(&mut self.current);
        }
        self.current.time += passed;
        self.current.unit_seconds += held as f64 * passed.as_secs_f64();
    }

    /// Records that so many units were released at the last mark.
    pub(super) fn released(&mut self, units: usize) {
        self.current.released += units as f64;
    }

    /// The time until so many of the units that are held will be released: at most
    /// [`RETRY_AFTER_MAX`], which it is if none were for a window.
    pub(super) fn time_for(&self, units: usize, held: usize) -> Duration {
        let windows = [&self.current, &self.before];
        let released: f64 = windows.iter().map(|window| window.released).sum();
        if released == 0.0 {
            let measured: Duration = windows.iter().map(|window| window.time).sum();
            return match measured < HOLD_TIME_WINDOW {
                true => RETRY_AFTER_UNMEASURED,
                false => RETRY_AFTER_MAX,
            };
        }
        let unit_seconds: f64 = windows.iter().map(|window| window.unit_seconds).sum();
        let seconds = unit_seconds / released * (units as f64 / held.max(1) as f64);
        // What is not a time, because it is too long, is the longest.
        Duration::try_from_secs_f64(seconds).map_or(RETRY_AFTER_MAX, |it| it.min(RETRY_AFTER_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A store of 100 units at times in milliseconds.
    struct Scene {
        time: HoldTime,
        began: Instant,
        held: usize,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                time: HoldTime::default(),
                began: Instant::now(),
                held: 0,
            }
        }

        fn mark(&mut self, at: u64) {
            let now = self.began + Duration::from_millis(at);
            self.time.mark(self.held, now);
        }

        fn take(&mut self, units: usize, at: u64) {
            self.mark(at);
            self.held += units;
        }

        fn release(&mut self, units: usize, at: u64) {
            self.mark(at);
            self.time.released(units);
            self.held -= units;
        }

        fn time_for(&mut self, units: usize, at: u64) -> Duration {
            self.mark(at);
            self.time.time_for(units, self.held)
        }

        /// 100 units are held, of which 10 are released each time and others take their place.
        fn drain(&mut self, from: u64, to: u64, every: u64) {
            for at in (from..to).step_by(usize::try_from(every).unwrap_or(1)) {
                self.release(10, at);
                self.take(10, at);
            }
        }
    }

    #[track_caller]
    fn check_near(found: Duration, expected: Duration) {
        let off = found.abs_diff(expected);
        assert!(off < expected / 10, "{found:?} instead of {expected:?}");
    }

    #[test]
    fn the_time_is_that_of_the_last_seconds() {
        let mut scene = Scene::new();
        scene.take(100, 0);
        scene.drain(0, 10_000, 100);
        check_near(scene.time_for(10, 10_000), SECOND / 10);
        check_near(scene.time_for(50, 10_000), SECOND / 2);
        // It is a tenth as fast, and then as before.
        scene.drain(10_000, 16_000, 1_000);
        check_near(scene.time_for(10, 15_000), SECOND);
        scene.drain(16_000, 22_000, 100);
        check_near(scene.time_for(10, 22_000), SECOND / 10);
    }

    #[test]
    fn what_is_released_at_once_is_free_soon_however_little_is_asked_for() {
        let mut scene = Scene::new();
        for at in (0..60_000).step_by(1_000) {
            scene.take(1, at);
            scene.release(1, at + 10);
        }
        scene.take(100, 70_000);
        // Each is held for 10 ms.
        check_near(scene.time_for(100, 70_000), SECOND / 100);
    }

    #[test]
    fn nothing_is_known_before_it_was_measured() {
        let mut scene = Scene::new();
        assert_eq!(scene.time_for(1, 0), RETRY_AFTER_UNMEASURED);
        scene.take(100, 0);
        assert_eq!(scene.time_for(1, 1_999), RETRY_AFTER_UNMEASURED);
        assert_eq!(scene.time_for(1, 2_000), RETRY_AFTER_MAX);
    }

    #[test]
    fn the_time_is_bounded() {
        let mut scene = Scene::new();
        scene.take(100, 0);
        scene.drain(0, 4_000, 100);
        // Nothing is released any more: the rate falls, until it is that of the last seconds.
        let mut last = scene.time_for(10, 4_000);
        for at in [5_000, 6_000] {
            let now = scene.time_for(10, at);
            assert!(last < now && now < RETRY_AFTER_MAX, "{now:?} at {at}");
            last = now;
        }
        assert_eq!(scene.time_for(10, 7_000), RETRY_AFTER_MAX);
        scene.release(1, 7_000);
        assert_eq!(scene.time_for(usize::MAX, 7_000), RETRY_AFTER_MAX);
    }

    #[test]
    fn a_clock_that_goes_back_counts_nothing() {
        let mut scene = Scene::new();
        scene.take(100, 1_000);
        scene.release(50, 2_000);
        scene.mark(500);
        check_near(scene.time_for(50, 2_000), 2 * SECOND);
    }
}
