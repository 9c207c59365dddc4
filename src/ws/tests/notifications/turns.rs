//! Sessions are woken in turns of the event loop.

use std::{
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tokio::sync::broadcast;

use super::{model::World, notifications, subscribe, tree::TREE};
use crate::{
    rpc::SubscriptionKind,
    subscriptions::{WOKEN_MAX, next_change},
    test_rng::Rng,
    ws::session::Session,
};

/// More than are woken in one turn.
const COUNT: usize = WOKEN_MAX + 10;

/// How often a session was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sessions that follow all logs.
struct Followers {
    sessions: Vec<Rc<Session>>,
    wakes: Vec<Arc<Wakes>>,
}

impl Followers {
    fn of(world: &World) -> Self {
        let kind = || SubscriptionKind::Logs(Rc::default());
        let sessions: Vec<_> = (0..COUNT).map(|_| subscribe(world, kind())).collect();
        let wakes = sessions.iter().map(|session| {
            let wakes = Arc::<Wakes>::default();
            session.set_waker(&Context::from_waker(&Arc::clone(&wakes).into()));
            wakes
        });
        let wakes = wakes.collect();
        Self { sessions, wakes }
    }

    /// How often each was woken since the last call.
    fn woken(&self) -> Vec<usize> {
        let wakes = self.wakes.iter();
        wakes.map(|it| it.0.swap(0, Ordering::Relaxed)).collect()
    }

    /// The most messages that any of them has.
    fn notified(&self) -> usize {
        let messages = self.sessions.iter().map(|it| notifications(it).len());
        messages.max().unwrap_or(0)
    }
}

/// Each of these was woken once, the others not at all.
fn once(woken: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..COUNT).map(|at| usize::from(woken(at))).collect()
}

/// Who is woken in each turn.
async fn turns(world: &World, followers: &Followers) -> Vec<Vec<usize>> {
    let mut turns = Vec::new();
    let mut waking = pin!(world.hub.wake_in_turns());
    poll_fn(|cx| {
        let polled = waking.as_mut().poll(cx);
        turns.push(followers.woken());
        polled
    })
    .await;
    turns
}

/// Each once, however many messages wait for it.
#[actix::test]
async fn notified_sessions_are_woken_in_turns() {
    let mut rng = Rng(3);
    let world = World::new(&TREE.windows[1], 1 << 24);
    let followers = Followers::of(&world);
    let mut notified_most = 0;
    for _ in 0..20 {
        let change = world.advance(world.head_move(&mut rng).unwrap());
        world.hub.fan_out(&change);
        assert_eq!(followers.woken(), once(|_| false), "before their turn");
        let turns = turns(&world, &followers).await;
        match followers.notified() {
            0 => assert_eq!(turns, [once(|_| false)]),
            count => {
                let expected = [once(|at| at < WOKEN_MAX), once(|at| at >= WOKEN_MAX)];
                assert_eq!(turns, expected);
                notified_most = notified_most.max(count);
            }
        }
    }
    assert!(notified_most > 1, "{notified_most}");
}

#[actix::test]
async fn sessions_that_are_to_catch_up_are_woken_in_turns() {
    let world = World::new(&TREE.windows[1], 1 << 24);
    let followers = Followers::of(&world);
    world.hub.adopt(world.snapshot());
    let expected = [once(|at| at < WOKEN_MAX), once(|at| at >= WOKEN_MAX)];
    assert_eq!(turns(&world, &followers).await, expected);
    // On a busy machine.
    followers.notified();
    world.hub.adopt(world.snapshot());
    world.hub.set_late();
    assert_eq!(turns(&world, &followers).await, [once(|_| true)]);
}

/// A change that comes while sessions are woken is queued for all of them first.
#[actix::test]
async fn changes_do_not_wait_for_sessions_to_be_woken() {
    let mut rng = Rng(3);
    let world = World::new(&TREE.windows[1], 1 << 24);
    let followers = Followers::of(&world);
    let (sender, mut changes) = broadcast::channel(8);
    let change = Arc::new(world.advance(world.head_move(&mut rng).unwrap()));
    let mut cx = Context::from_waker(Waker::noop());
    world.hub.adopt(world.snapshot());
    {
        let mut next = pin!(next_change(&mut changes, Some(&world.hub)));
        assert!(next.as_mut().poll(&mut cx).is_pending());
        assert_eq!(followers.woken(), once(|at| at < WOKEN_MAX));
        sender.send(Arc::clone(&change)).unwrap();
        let Poll::Ready(Ok(next)) = next.as_mut().poll(&mut cx) else {
            unreachable!("the change has come");
        };
        assert_eq!(next.snapshot.head().hash, change.snapshot.head().hash);
        assert_eq!(followers.woken(), once(|_| false));
    }
    // The rest is woken while the next one is awaited.
    let mut next = pin!(next_change(&mut changes, Some(&world.hub)));
    assert!(next.as_mut().poll(&mut cx).is_pending());
    assert_eq!(followers.woken(), once(|at| at >= WOKEN_MAX));
}
