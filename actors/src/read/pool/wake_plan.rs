//! When a thread that pushes items wakes threads of the pool for them.

use std::{
    cell::RefCell,
    mem,
    time::{Duration, Instant},
};

use tokio::task::yield_now;

/// Longest turn of an event loop that has nothing to do but ask the kernel for events. With one
/// request a turn takes longer. Where even an idle one does, each wake takes [`WAKE_DELAY_MAX`].
const IDLE_TURN_MAX: Duration = Duration::from_micros(8);

/// How long a thread collects items before it wakes the pool: as long as some ten short calls take.
const WAKE_DELAY_MAX: Duration = Duration::from_micros(200);

thread_local! {
    /// The plans of this thread. Each thread has its own, so that none waits for the event loop of
    /// another one.
    static PLANS: RefCell<Vec<Plan>> = const { RefCell::new(Vec::new()) };
}

/// What this thread has pushed into one queue and has not yet woken others for.
struct Plan {
    /// The address of the queue.
    queue: usize,
    items: usize,
    since: Instant,
}

/// What is to be done for one more item.
pub(super) enum Planned {
    /// Others are woken when this says so.
    New(WakePlan),
    /// There is a plan already. Others are woken at once for so many items, which have waited for
    /// [`WAKE_DELAY_MAX`].
    Held(usize),
}

/// A plan of this thread to wake others. It has ended when this is dropped.
pub(super) struct WakePlan {
    queue: usize,
    since: Instant,
}

/// Plans to wake a thread for one more item in the queue at this address.
pub(super) fn plan(queue: usize) -> Planned {
    let now = Instant::now();
    PLANS.with_borrow_mut(|plans| {
        let Some(plan) = plans.iter_mut().find(|plan| plan.queue == queue) else {
            plans.push(Plan {
                queue,
                items: 1,
                since: now,
            });
            return Planned::New(WakePlan { queue, since: now });
        };
        plan.items += 1;
        if now - plan.since <= WAKE_DELAY_MAX {
            return Planned::Held(0);
        }
        plan.since = now;
        Planned::Held(mem::take(&mut plan.items))
    })
}

impl WakePlan {
    /// Waits until it is time, and ends the plan. Returns for how many items others are to be
    /// woken.
    pub(super) async fn due(self) -> usize {
        until_idle(self.since).await;
        self.end()
    }

    fn end(&self) -> usize {
        // Nothing is planned any more when the thread ends.
        let items = PLANS.try_with(|plans| {
            let mut plans = plans.borrow_mut();
            let at = plans.iter().position(|plan| plan.queue == self.queue);
            at.map_or(0, |at| plans.swap_remove(at).items)
        });
        items.unwrap_or(0)
    }
}

impl Drop for WakePlan {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until the event loop of this thread has nothing else to do. Looks once a turn whether
/// [`WAKE_DELAY_MAX`] is over.
async fn until_idle(since: Instant) {
    let mut turn = Instant::now();
    loop {
        yield_now().await;
        let now = Instant::now();
        if now - turn < IDLE_TURN_MAX || now - since > WAKE_DELAY_MAX {
            return;
        }
        turn = now;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use super::*;

    #[actix::test]
    async fn a_thread_is_woken_when_the_event_loop_is_idle_but_soon() {
        let work = || {
            let began = Instant::now();
            while began.elapsed() < 2 * IDLE_TURN_MAX {
                std::hint::spin_loop();
            }
        };
        // On a busy machine, this thread may be kept from running until the time is over.
        let waits_until_idle = async || {
            let turns = Rc::new(Cell::new(0));
            let done = Rc::clone(&turns);
            actix::spawn(async move {
                for turn in 1..=4 {
                    work();
                    done.set(turn);
                    yield_now().await;
                }
            });
            until_idle(Instant::now()).await;
            turns.get() == 4
        };
        let mut tries = 0;
        while !waits_until_idle().await {
            tries += 1;
            assert!(tries < 1_000, "it did not wait");
        }
        let busy = actix::spawn(async move {
            loop {
                work();
                yield_now().await;
            }
        });
        until_idle(Instant::now()).await;
        busy.abort();
    }
}
