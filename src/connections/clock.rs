//! The clock of what is looked after: once a second is often enough for bounds of whole seconds.

use std::{rc::Weak, time::Duration};

use tokio::time::{MissedTickBehavior, interval};

/// Looks at something of the present thread once a second, for as long as somebody holds it.
/// Seconds in which the process did not run are not made up for: nobody could have answered in
/// them.
pub(crate) fn every_second<T: 'static>(what: Weak<T>, look: fn(&T)) {
    actix_web::rt::spawn(async move {
        let mut seconds = interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            match what.upgrade() {
                Some(what) => look(&what),
                None => return,
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc, thread, time::Instant};

    use super::*;

    #[actix::test]
    async fn seconds_in_which_nothing_ran_are_none() {
        let looks = Rc::new(Cell::new(0));
        every_second(Rc::downgrade(&looks), |looks| looks.set(looks.get() + 1));
        while looks.get() == 0 {
            tokio::task::yield_now().await;
        }
        // The whole thread stands still, as a stopped process does.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(3_500) {
            thread::park_timeout(Duration::from_secs(1));
        }
        while looks.get() == 1 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(looks.get(), 2);
        assert_eq!(Rc::strong_count(&looks), 1);
    }
}
