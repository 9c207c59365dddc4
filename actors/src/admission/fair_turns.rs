//! Turns that tenants share, so that no tenant waits behind all that another one has asked for.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{select, sync::oneshot, time::Instant};

use super::{
    callers::Callers,
    cost::NODE_CALL_NANOS,
    drain_rate::DrainRate,
    fair_queue::{Entry, FairQueue, Pushed, Ticket},
    standing_queue::WaitLimits,
};
use crate::share::Share;

/// Least time that a turn is charged for: one that ends at once is not for nothing.
const HELD_NANOS_MIN: u64 = 1_000_000;

/// So many turns at once; clones share them.
///
/// Whoever finds a turn free has it. Those who wait are queued by tenant, and tenants get turns in
/// proportion to their weight ([`FairQueue`]). Inside one tenant, the order is that of arrival. A
/// turn costs its tenant the time for which it is held.
#[derive(Clone, Debug)]
pub(crate) struct FairTurns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Turns that nobody has; none while somebody waits. It grows only while `waiting` is locked.
    free: AtomicUsize,
    waiting: Mutex<FairQueue<oneshot::Sender<FairTurn>>>,
}

/// One turn. Dropping it gives it to the next one.
#[derive(Debug)]
pub(crate) struct FairTurn {
    shared: Arc<Shared>,
    /// If it was waited for.
    granted: Option<Granted>,
}

/// Whose turn it is, and since when.
#[derive(Clone, Copy, Debug)]
struct Granted {
    share: Share,
    since: Instant,
}

/// A place in the queue, which is given up when this is dropped.
struct Place<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl FairTurns {
    /// All turns are free. At most `waiting_max` of one tenant may wait.
    pub(crate) fn new(turns: usize, waiting_max: usize) -> Self {
        Self(Arc::new(Shared {
            free: AtomicUsize::new(turns),
            waiting: Mutex::new(FairQueue::new(waiting_max, WaitLimits::NONE)),
        }))
    }

    /// Waits for a turn, as long as it takes; `None` if too many of the callers wait already.
    pub(crate) async fn take(&self, callers: &Callers) -> Option<FairTurn> {
        match self.take_free() {
            Some(turn) => Some(turn),
            None => self.wait(callers).await,
        }
    }

    async fn wait(&self, callers: &Callers) -> Option<FairTurn> {
        let mut shares = callers.shares();
        // As many as shares that were seen.
        let (mut places, mut granted) = (Vec::new(), FuturesUnordered::new());
        loop {
            let new = shares.borrow_and_update()[places.len()..].to_vec();
            for share in new {
                let (turn, has_turn) = oneshot::channel();
                places.push(self.enter(share, turn));
                granted.push(has_turn);
            }
            select! {
                biased;
                // A tenant that may not have more waiting: the call waits with the others.
                next = granted.next() => if let Ok(turn) = next? {
                    return Some(turn);
                },
                Ok(()) = shares.changed() => {}
            }
        }
    }

    fn take_free(&self) -> Option<FairTurn> {
        let take = |free: usize| free.checked_sub(1);
        let taken = self
            .0
            .free
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, take);
        taken.ok().map(|_| FairTurn {
            shared: Arc::clone(&self.0),
            granted: None,
        })
    }

    /// Waits behind the tenant's other calls; `None` if they are too many, or none is ahead.
    fn enter(&self, share: Share, turn: oneshot::Sender<FairTurn>) -> Option<Place<'_>> {
        let mut waiting = self.0.waiting.lock();
        // One may have become free since.
        if let Some(free) = self.take_free() {
            drop(waiting);
            // It is waited for, so this does not fail.
            let _ = turn.send(free);
            return None;
        }
        let now = Instant::now().into_std();
        let Pushed { ticket, .. } =
            waiting.push(share, NODE_CALL_NANOS, turn, now, Entry::Again)?;
        Some(Place {
            shared: &self.0,
            ticket,
        })
    }
}

impl Drop for FairTurn {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut waiting = self.shared.waiting.lock();
        if let Some(Granted { share, since }) = self.granted {
            let held = now.saturating_duration_since(since).as_nanos();
            let cost = u64::try_from(held).unwrap_or(u64::MAX);
            waiting.finish(share, NODE_CALL_NANOS, cost.max(HELD_NANOS_MIN));
        }
        let Some(next) = waiting.pop(now.into_std(), &DrainRate::new(1.0)) else {
            self.shared.free.fetch_add(1, Ordering::Release);
            return;
        };
        drop(waiting);
        let turn = Self {
            shared: Arc::clone(&self.shared),
            granted: Some(Granted {
                share: next.share,
                since: now,
            }),
        };
        // If it is not waited for any more, it is dropped, and goes to the one after.
        drop(next.content.send(turn));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shared.waiting.lock().remove(self.ticket);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{num::NonZeroU32, pin::Pin, time::Duration};

    use futures_util::poll;
    use tokio::time::advance;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Option<FairTurn>>>>;

    /// Takes a turn for a tenant, or waits for it.
    fn take(turns: &FairTurns, callers: &Callers) -> Waiting {
        let (turns, callers) = (turns.clone(), callers.clone());
        Box::pin(async move { turns.take(&callers).await })
    }

    fn callers(weight: u32) -> Callers {
        Callers::of(Share::default().with_weight(NonZeroU32::new(weight).unwrap()))
    }

    /// Those that wait, by name, in the order in which they came.
    struct Scene {
        turns: FairTurns,
        waiting: Vec<(&'static str, Waiting)>,
    }

    impl Scene {
        fn new(turns: usize) -> Self {
            Self {
                turns: FairTurns::new(turns, 100),
                waiting: Vec::new(),
            }
        }

        async fn wait(&mut self, name: &'static str, callers: &Callers) {
            let mut waiting = take(&self.turns, callers);
            assert!(poll!(&mut waiting).is_pending());
            self.waiting.push((name, waiting));
        }

        /// Whose turn it is, with the turn, if it is anybody's.
        async fn next(&mut self) -> Option<(&'static str, FairTurn)> {
            for at in 0..self.waiting.len() {
                if let std::task::Poll::Ready(turn) = poll!(&mut self.waiting[at].1) {
                    let (name, _) = self.waiting.remove(at);
                    return Some((name, turn.unwrap()));
                }
            }
            None
        }

        /// The order in which all have their turn after this one, each for so many milliseconds.
        async fn order(&mut self, first: FairTurn, held: impl Fn(&str) -> u64) -> String {
            drop(first);
            let mut order = String::new();
            while let Some((name, turn)) = self.next().await {
                assert!(self.next().await.is_none(), "one turn at a time");
                order.push_str(name);
                advance(Duration::from_millis(held(name))).await;
                drop(turn);
            }
            assert!(self.waiting.is_empty(), "{order}");
            order
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tenants_have_turns_by_weight_and_not_in_the_order_of_arrival() {
        for (weight, expected) in [(1, "fofofofff"), (2, "foofoffff")] {
            let (mut scene, flood) = (Scene::new(1), callers(1));
            let first = take(&scene.turns, &flood).await.unwrap();
            for _ in 0..6 {
                scene.wait("f", &flood).await;
            }
            let other = callers(weight);
            for _ in 0..3 {
                scene.wait("o", &other).await;
            }
            assert_eq!(scene.order(first, |_| 10).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_costs_the_time_for_which_it_is_held() {
        let (mut scene, slow) = (Scene::new(1), callers(1));
        let first = take(&scene.turns, &slow).await.unwrap();
        for _ in 0..3 {
            scene.wait("s", &slow).await;
        }
        let fast = callers(1);
        for _ in 0..6 {
            scene.wait("f", &fast).await;
        }
        let held = |name: &str| if name == "s" { 30 } else { 10 };
        assert_eq!(scene.order(first, held).await, "sfffsfffs");
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_alone_has_every_turn_and_what_is_free_is_not_waited_for() {
        let (mut scene, alone) = (Scene::new(3), callers(1));
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(take(&scene.turns, &alone).await.unwrap());
        }
        scene.wait("a", &alone).await;
        held.pop();
        assert_eq!(scene.next().await.unwrap().0, "a");
        drop(held);
        let mut again = Vec::new();
        for _ in 0..3 {
            let turn = poll!(take(&scene.turns, &alone));
            assert!(turn.is_ready());
            again.push(turn);
        }
        assert!(poll!(take(&scene.turns, &alone)).is_pending());
    }

    /// A call that a tenant waits for behind many of its own is early if another one needs it too.
    #[tokio::test(start_paused = true)]
    async fn who_joins_a_call_does_not_wait_behind_the_calls_of_another_tenant() {
        let (mut scene, flood) = (Scene::new(1), callers(1));
        let first = take(&scene.turns, &flood).await.unwrap();
        let shares = flood.shares().borrow().clone();
        let joined = Callers::of(shares[0]);
        for name in ["1", "2", "3", "4"] {
            scene.wait(name, &flood).await;
        }
        scene.wait("j", &joined).await;
        let other = Share::default();
        for _ in 0..2 {
            joined.add(other);
        }
        assert_eq!(joined.shares().borrow().len(), 2);
        assert!(scene.next().await.is_none(), "it has its second place now");
        assert_eq!(scene.order(first, |_| 10).await, "1j234");
        assert_eq!(scene.turns.0.waiting.lock().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_the_queue_and_loses_no_turn() {
        let (mut scene, tenant) = (Scene::new(1), callers(1));
        let first = take(&scene.turns, &tenant).await.unwrap();
        for name in ["1", "2", "3"] {
            scene.wait(name, &tenant).await;
        }
        drop(scene.waiting.remove(1));
        assert_eq!(scene.turns.0.waiting.lock().len(), 2);
        drop(first);
        // It has its turn, and leaves before it knows.
        let (name, granted) = scene.waiting.remove(0);
        assert_eq!(name, "1");
        drop(granted);
        let (name, last) = scene.next().await.unwrap();
        assert_eq!(name, "3");
        drop(last);
        assert_eq!(scene.turns.0.free.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_with_too_many_waiting_is_refused_and_others_are_not() {
        let (turns, flood) = (FairTurns::new(1, 2), callers(1));
        let _first = take(&turns, &flood).await.unwrap();
        let mut waiting = [take(&turns, &flood), take(&turns, &flood)];
        for one in &mut waiting {
            assert!(poll!(one).is_pending());
        }
        assert!(take(&turns, &flood).await.is_none());
        let both = Callers::of(flood.shares().borrow()[0]);
        both.add(Share::default());
        assert!(poll!(take(&turns, &both)).is_pending());
        assert_eq!(turns.0.waiting.lock().len(), 2, "the other one has left");
    }
}
