//! What is called again and again: once a second, for bounds that need no finer clock, or in each
//! turn of the event loop.

use std::{rc::Weak, time::Duration};

use tokio::{
    task::yield_now,
    time::{MissedTickBehavior, interval},
};

/// Seconds since a worker began to count them.
pub(crate) type Tick = u32;

/// Calls `tick` with `target` once a second on the current thread, until the target is dropped.
///
/// Seconds in which the process did not run are skipped: no client could be served in them, so they
/// must not count against a client.
pub(crate) fn every_second<T: 'static>(target: Weak<T>, tick: impl Fn(&T) + 'static) {
    every(Duration::from_secs(1), target, tick);
}

/// Calls `tick` with `target` once a period, as [`every_second`] does.
pub(crate) fn every<T: 'static>(period: Duration, target: Weak<T>, tick: impl Fn(&T) + 'static) {
    actix_web::rt::spawn(async move {
        let mut periods = interval(period);
        periods.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            periods.tick().await;
            match target.upgrade() {
                Some(target) => tick(&target),
                None => return,
            }
        }
    });
}

/// Calls `act` with `target` in each turn of the event loop, until it returns `false` or the target
/// is dropped.
pub(crate) async fn every_turn<T>(target: Weak<T>, act: impl Fn(&T) -> bool) {
    while target.upgrade().is_some_and(|target| act(&target)) {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc, thread, time::Instant};

    use super::*;

    #[actix::test]
    async fn seconds_without_progress_are_not_counted() {
        let ticks = Rc::new(Cell::new(0));
        every_second(Rc::downgrade(&ticks), |ticks| ticks.set(ticks.get() + 1));
        while ticks.get() == 0 {
            tokio::task::yield_now().await;
        }
        // The whole thread stops, as in a stopped process.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(3_500) {
            thread::park_timeout(Duration::from_secs(1));
        }
        while ticks.get() == 1 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(ticks.get(), 2);
        assert_eq!(Rc::strong_count(&ticks), 1);
    }
}
