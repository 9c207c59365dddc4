//! Turns of large replies: they are made part by part, and everything else on their thread has its
//! turn in between.

use std::{
    cell::Cell,
    fmt,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::task::yield_now;

use super::{
    cost::REPLY_PARTS_TIME_MAX,
    turns::{TurnQueue, Turns},
};
use crate::share::Share;

/// The turns of the large replies of one thread; clones share them.
///
/// To make 64 KiB of a proof takes as long as to answer some dozen cheap requests. After
/// `REPLY_PARTS_TIME_MAX` of such work, its thread looks at its sockets again, and then makes one
/// part at a time until no reply waits. Tenants share these turns.
#[derive(Clone, Debug)]
pub struct ReplyTurns {
    turns: Turns,
    spent: Rc<Spent>,
}

/// The time that parts have taken since the thread last looked at its sockets.
#[derive(Debug, Default)]
struct Spent {
    time: Cell<Duration>,
    is_too_long: Cell<bool>,
}

/// The turns of one reply.
pub struct ReplyTurn {
    turns: ReplyTurns,
    share: Share,
    waiting: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Default for ReplyTurns {
    fn default() -> Self {
        Self {
            turns: Turns::new(Arc::new(TurnQueue::new("replies", 1))),
            spent: Rc::default(),
        }
    }
}

impl ReplyTurns {
    /// The turns of a reply to a tenant with this share.
    #[must_use]
    pub fn of(&self, share: Share) -> ReplyTurn {
        ReplyTurn {
            turns: self.clone(),
            share,
            waiting: None,
        }
    }

    fn add(&self, time: Duration) {
        let spent = &self.spent;
        spent.time.set(spent.time.get() + time);
        if spent.time.get() >= REPLY_PARTS_TIME_MAX && !spent.is_too_long.replace(true) {
            let spent = Rc::clone(spent);
            actix::spawn(async move {
                yield_now().await;
                spent.time.set(Duration::ZERO);
                spent.is_too_long.set(false);
            });
        }
    }

    fn must_wait(&self) -> bool {
        self.spent.is_too_long.get() || self.turns.are_wanted()
    }
}

impl ReplyTurn {
    /// Waits until the next part may be made of a reply of which so many bytes are left: those with
    /// few go first, so that what was begun is finished. It must be called on the thread's arbiter.
    pub fn poll(&mut self, cx: &mut Context<'_>, left: usize) -> Poll<()> {
        if self.waiting.is_none() && self.turns.must_wait() {
            let (turns, share) = (self.turns.turns.clone(), self.share);
            // Refused only beside thousands of others of its tenant, each of which waits.
            self.waiting = Some(Box::pin(async move { _ = turns.again(share, left).await }));
        }
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
        }
        Poll::Ready(())
    }

    /// The part that had its turn took this long to make.
    pub fn took(&self, time: Duration) {
        self.turns.add(time);
    }
}

impl fmt::Debug for ReplyTurn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ReplyTurn").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future::poll_fn};

    use super::*;

    const PART: usize = 64 << 10;

    /// Makes the parts of one reply, each of which takes so long.
    async fn make(mut turn: ReplyTurn, parts: usize, took: Duration, mut made: impl FnMut()) {
        for _ in 0..parts {
            poll_fn(|cx| turn.poll(cx, PART)).await;
            turn.took(took);
            made();
        }
    }

    #[actix::test]
    async fn short_parts_of_one_reply_do_not_wait() {
        let turns = ReplyTurns::default();
        let parts = 100;
        let short = REPLY_PARTS_TIME_MAX / (parts as u32 + 1);
        let mut made = Box::pin(make(turns.of(Share::default()), parts, short, || ()));
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
        let (replies, parts) = (50, 3);
        let spawn = |share, name| {
            let order = Rc::clone(&order);
            let made = move || order.borrow_mut().push(name);
            let long = REPLY_PARTS_TIME_MAX / 2;
            actix::spawn(make(turns.of(share), parts, long, made));
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
        // Two take as long as parts may, and one more has its turn.
        assert!(most <= 3, "{most} parts between two looks at the sockets");
        let last = order.borrow().iter().rposition(|name| *name == "other");
        assert!(last <= Some(4 * parts), "{last:?}");
    }
}
