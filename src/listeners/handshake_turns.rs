//! The turns in which a worker takes the steps of TLS handshakes.

use std::{
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::Poll,
    time::{Duration, Instant},
};

use nearhead_actors::admission::FirstTurns;
use tokio::{sync::Semaphore, task};

use crate::limits::HANDSHAKE_STEPS_PER_TURN;

/// Turns of one worker.
///
/// A step of a handshake takes as long as tens of cheap requests, and strangers decide when it is
/// due: thousands of them may connect slowly and then go on at once. So only some steps are taken
/// in one turn of the event loop, and those who are connected have their turns in between.
#[derive(Debug)]
pub(super) struct HandshakeTurns {
    steps: Semaphore,
    waiting: Rc<FirstTurns>,
}

impl Default for HandshakeTurns {
    fn default() -> Self {
        Self {
            steps: Semaphore::new(HANDSHAKE_STEPS_PER_TURN),
            waiting: Rc::default(),
        }
    }
}

impl HandshakeTurns {
    /// Polls a handshake once when it is its turn, and returns in the turn after that.
    pub(super) async fn step<F: Future + Unpin>(&self, handshake: &mut F) -> Poll<F::Output> {
        let wait = self.waiting.wait(Instant::now());
        // It is never closed: without a permit, nothing would be lost but the order.
        let _permit = self.steps.acquire().await;
        wait.had(Instant::now());
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *handshake).poll(cx))).await;
        task::yield_now().await;
        polled
    }

    /// How long a step waits that is due now, while others wait.
    pub(super) fn wait_of_next(&self) -> Duration {
        self.waiting.wait_of_next(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// However many are due at once, others have a turn after some of them.
    #[actix::test]
    async fn few_steps_are_taken_in_one_turn() {
        const STEPS: usize = 40;
        let (turns, taken) = (
            Rc::<HandshakeTurns>::default(),
            Rc::<Cell<usize>>::default(),
        );
        for _ in 0..STEPS {
            let (turns, taken) = (Rc::clone(&turns), Rc::clone(&taken));
            actix_web::rt::spawn(async move {
                let mut step = Box::pin(async { taken.set(taken.get() + 1) });
                assert!(turns.step(&mut step).await.is_ready());
            });
        }
        assert_eq!(turns.wait_of_next(), Duration::ZERO, "nobody waits yet");
        let mut rounds = 0;
        while taken.get() < STEPS {
            let before = taken.get();
            task::yield_now().await;
            let in_turn = taken.get() - before;
            assert!(in_turn <= HANDSHAKE_STEPS_PER_TURN, "{in_turn} at once");
            assert!(taken.get() == STEPS || turns.wait_of_next() > Duration::ZERO);
            rounds += 1;
            assert!(rounds < 10 * STEPS, "they go on");
        }
        assert!(rounds >= STEPS / HANDSHAKE_STEPS_PER_TURN, "{rounds} turns");
    }
}
