//! Turns of large replies: they are made part by part, and everything else on their thread has its
//! turn in between.

use std::{
    fmt, mem,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use tokio::time::timeout;

use super::{
    cost::REPLY_TURN_WAIT_MAX,
    first_turns::{FirstTurn, FirstTurns},
    reply_parts::Parts,
    turns::{Clock, TurnQueue, Turns},
};
use crate::share::Share;

/// The turns of the large replies of one thread; clones share them.
///
/// To make 32 KiB of a proof takes as long as to answer a dozen cheap requests. After
/// `REPLY_PARTS_TIME_MAX` of such work, a thread looks at its sockets again. Replies that have to
/// wait then have their turns one after the other, and tenants share these.
#[derive(Clone, Debug)]
pub struct ReplyTurns {
    turns: Turns,
    parts: Rc<Parts>,
    first: Rc<FirstTurns>,
}

/// A large reply, of which parts are made when it is its turn.
pub struct ReplyInTurns {
    all: ReplyTurns,
    share: Share,
    waiting: Option<Pin<Box<dyn Future<Output = ()>>>>,
    first: First,
    /// The look at the sockets after which it had its last turn.
    turn_after: Option<u64>,
}

/// Whether a reply has had its first turn.
#[derive(Debug)]
enum First {
    NotAsked,
    Waits(FirstTurn),
    Had,
}

impl Default for ReplyTurns {
    fn default() -> Self {
        let parts = Rc::new(Parts::default());
        let queue = Arc::new(TurnQueue::new("replies", 1));
        Self {
            turns: Turns::new(queue, Clock::OfParts(Rc::clone(&parts))),
            parts,
            first: Rc::default(),
        }
    }
}

impl ReplyTurns {
    /// A reply to a tenant with this share.
    #[must_use]
    pub fn reply(&self, share: Share) -> ReplyInTurns {
        ReplyInTurns {
            all: self.clone(),
            share,
            waiting: None,
            first: First::NotAsked,
            turn_after: None,
        }
    }

    /// How long a reply that begins now waits for its first turn, while others wait for theirs.
    #[must_use]
    pub fn wait_of_next(&self, now: Instant) -> Duration {
        self.first.wait_of_next(now)
    }
}

impl ReplyInTurns {
    /// Waits until the next part may be made, if `left` bytes of the reply are left: those with few
    /// go first, so that what was begun is finished. It must be called on the thread's arbiter.
    ///
    /// After `REPLY_TURN_WAIT_MAX` it may be made in any case: a client must not seem to be slow
    /// because its reply waits.
    pub fn poll(&mut self, cx: &mut Context<'_>, left: usize) -> Poll<()> {
        if self.waiting.is_none() && self.has_to_wait() {
            self.asks_for_turn();
            let (turns, share) = (self.all.turns.clone(), self.share);
            let waiting = async move {
                let _ = timeout(REPLY_TURN_WAIT_MAX, turns.again(share, left)).await;
            };
            self.waiting = Some(Box::pin(waiting));
        }
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            self.turn_after = Some(self.all.parts.looks());
        }
        self.has_turn();
        Poll::Ready(())
    }

    /// The part that had its turn took this long to make.
    pub fn took(&self, time: Duration) {
        self.all.parts.add(time);
    }

    fn asks_for_turn(&mut self) {
        if matches!(self.first, First::NotAsked) {
            self.first = First::Waits(self.all.first.wait(Instant::now()));
        }
    }

    fn has_turn(&mut self) {
        match mem::replace(&mut self.first, First::Had) {
            First::NotAsked => self.all.first.serve(Instant::now()),
            First::Waits(turn) => turn.had(Instant::now()),
            First::Had => {}
        }
    }

    fn has_to_wait(&self) -> bool {
        let parts = &self.all.parts;
        let has_turn = self.turn_after == Some(parts.looks());
        parts.are_enough() || (self.all.turns.are_given() && !has_turn)
    }
}

impl fmt::Debug for ReplyInTurns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ReplyInTurns")
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future::poll_fn, task::Waker};

    use tokio::task::yield_now;

    use super::{super::cost::REPLY_PARTS_TIME_MAX, *};

    /// Makes the parts of one reply, each of which takes so long.
    async fn make(mut reply: ReplyInTurns, parts: usize, took: Duration, mut made: impl FnMut()) {
        for part in 0..parts {
            poll_fn(|cx| reply.poll(cx, parts - part)).await;
            reply.took(took);
            made();
        }
    }

    #[actix::test]
    async fn short_parts_of_one_reply_do_not_wait() {
        let turns = ReplyTurns::default();
        let parts = 100;
        let short = REPLY_PARTS_TIME_MAX / (parts as u32 + 1);
        let mut made = Box::pin(make(turns.reply(Share::default()), parts, short, || ()));
        poll_fn(|cx| {
            assert!(made.as_mut().poll(cx).is_ready());
            Poll::Ready(())
        })
        .await;
    }

    #[actix::test]
    async fn replies_that_take_long_are_made_in_turn_and_tenants_share_the_turns() {
        let turns = ReplyTurns::default();
        let (flood, other) = (Share::default(), Share::default());
        let order = Rc::new(RefCell::new(Vec::new()));
        let (replies, parts) = (50, 4);
        let spawn = |share, name| {
            let order = Rc::clone(&order);
            let made = move || order.borrow_mut().push(name);
            let long = REPLY_PARTS_TIME_MAX / 2;
            actix::spawn(make(turns.reply(share), parts, long, made));
        };
        for _ in 0..replies {
            spawn(flood, "flood");
        }
        spawn(other, "other");
        let (mut seen, mut most) = (0, 0);
        while seen < (replies + 1) * parts {
            yield_now().await;
            let now = order.borrow().len();
            most = most.max(now - seen);
            seen = now;
        }
        // Two take as long as parts may, and this task may look once in two turns.
        assert!(most <= 4, "{most} parts between two looks at the sockets");
        let last = order.borrow().iter().rposition(|name| *name == "other");
        assert!(last <= Some(4 * parts), "{last:?}");
    }

    #[actix::test]
    async fn the_wait_for_a_first_turn_is_told() {
        let turns = ReplyTurns::default();
        let began = Instant::now();
        let poll =
            |reply: &mut ReplyInTurns| reply.poll(&mut Context::from_waker(Waker::noop()), 1);
        let first = turns.reply(Share::default());
        first.took(REPLY_PARTS_TIME_MAX);
        assert!(turns.wait_of_next(Instant::now()).is_zero(), "nobody waits");
        turns.turns.stop_giving();
        let mut second = turns.reply(Share::default());
        assert!(poll(&mut second).is_pending());
        let later = began + Duration::from_secs(60);
        assert!(turns.wait_of_next(later) > Duration::from_secs(50));
        // One that has had its turn and waits for the next one does not count.
        let mut begun = turns.reply(Share::default());
        begun.has_turn();
        assert!(poll(&mut begun).is_pending());
        drop(second);
        assert!(turns.wait_of_next(later).is_zero());
    }

    /// The turns of one thread that a panic has ended, say.
    #[actix::test]
    async fn a_reply_that_waits_for_too_long_goes_on() {
        tokio::time::pause();
        let turns = ReplyTurns::default();
        let first = turns.reply(Share::default());
        first.took(REPLY_PARTS_TIME_MAX);
        turns.turns.stop_giving();
        make(first, 2, REPLY_PARTS_TIME_MAX, || ()).await;
    }
}
