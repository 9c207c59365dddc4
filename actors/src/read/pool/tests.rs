#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::mpsc,
    task::{Context, Waker},
};

use actix::ArbiterHandle;
use nearhead_chain::log_search::Cancellation;
use parking_lot::Mutex;

use super::*;
use crate::admission::CpuTime;

const WORK: Duration = Duration::from_millis(10);

/// Runs until the sender is dropped.
struct Runs(Mutex<mpsc::Receiver<()>>, Cancellation);

impl Runs {
    fn new() -> (mpsc::SyncSender<()>, Self) {
        let (release, released) = mpsc::sync_channel(0);
        (release, Self(Mutex::new(released), Cancellation::default()))
    }
}

impl PoolQuery for Runs {
    type Output = ();

    fn cancellation(&self) -> &Cancellation {
        &self.1
    }

    fn run(&self) -> Reply<()> {
        // This fails when the sender is dropped.
        let _ = self.0.lock().recv();
        Ok(())
    }
}

/// Waits for this time, then uses this CPU time, and lists its tenant.
struct Uses {
    waits: Duration,
    uses: Duration,
    tenant: &'static str,
    list: Arc<Mutex<Vec<&'static str>>>,
    cancel: Cancellation,
}

impl PoolQuery for Uses {
    type Output = ();

    fn cancellation(&self) -> &Cancellation {
        &self.cancel
    }

    fn run(&self) -> Reply<()> {
        let (_sender, nothing) = mpsc::sync_channel::<()>(0);
        assert!(nothing.recv_timeout(self.waits).is_err());
        let began = CpuTime::now();
        while began.elapsed() < self.uses {
            std::hint::spin_loop();
        }
        self.list.lock().push(self.tenant);
        Ok(())
    }
}

fn uses_nothing() -> Uses {
    Uses {
        waits: Duration::ZERO,
        uses: Duration::ZERO,
        tenant: "any",
        list: Arc::default(),
        cancel: Cancellation::default(),
    }
}

/// Of two tenants whose queries take as long, one is charged for less CPU time. It has as many
/// turns as that allows, as if its thread had been preempted meanwhile.
#[actix::test]
async fn tenants_are_charged_for_cpu_time() {
    let pool = Pool::start(1, &Panics::default()).unwrap();
    let (release, blocks) = Runs::new();
    let blocking = actix::spawn({
        let pool = pool.clone();
        async move { pool.run(blocks, Share::default(), WORK, Entry::New).await }
    });
    let queue = Arc::clone(&pool.heavy.queue);
    while queue.usage().taken == 0 {
        tokio::task::yield_now().await;
    }
    let list = Arc::new(Mutex::new(Vec::new()));
    let mut queries = Vec::new();
    for (tenant, waits, uses) in [("busy", 0, 50), ("preempted", 50, 0)] {
        let share = Share::default();
        for _ in 0..6 {
            let (pool, list) = (pool.clone(), Arc::clone(&list));
            let query = Uses {
                waits: Duration::from_millis(waits),
                uses: Duration::from_millis(uses),
                tenant,
                list,
                cancel: Cancellation::default(),
            };
            queries.push(actix::spawn(async move {
                pool.run(query, share, WORK, Entry::Again).await
            }));
        }
    }
    while queue.usage().waiting < queries.len() {
        tokio::task::yield_now().await;
    }
    drop(release);
    blocking.await.unwrap().unwrap();
    for query in queries {
        query.await.unwrap().unwrap();
    }
    // All of the other's go before the second one of the tenant that uses the CPU. Charged for
    // time that passes, they would take turns.
    let list = list.lock();
    let busy = list.iter().take(8).filter(|tenant| **tenant == "busy");
    assert!(busy.count() <= 2, "{list:?}");
}

/// After many queries have come and left while all threads were busy, each thread takes what comes,
/// and sleeps in the end.
#[actix::test]
async fn withdrawn_queries_change_nothing() {
    const THREADS: usize = 2;
    let pool = Pool::start(THREADS, &Panics::default()).unwrap();
    let share = Share::default();
    let mut releases = Vec::new();
    let query = |releases: &mut Vec<_>| {
        let (release, query) = Runs::new();
        releases.push(release);
        query
    };
    let mut running = Vec::new();
    for _ in 0..THREADS {
        let (pool, query) = (pool.clone(), query(&mut releases));
        running.push(actix::spawn(async move {
            pool.run(query, share, WORK, Entry::New).await
        }));
    }
    while pool.heavy.queue.usage().taken < THREADS as u64 {
        tokio::task::yield_now().await;
    }
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1_000 {
        let query = query(&mut releases);
        let mut leaves = Box::pin(pool.run(query, share, WORK, Entry::New));
        assert!(leaves.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(pool.heavy.queue.usage().waiting, 0);
    for _ in 0..10 * THREADS {
        let (pool, query) = (pool.clone(), query(&mut releases));
        running.push(actix::spawn(async move {
            pool.run(query, share, WORK, Entry::New).await
        }));
    }
    drop(releases);
    for query in running {
        query.await.unwrap().unwrap();
    }
    while pool.heavy.threads.asleep().count() < THREADS {
        tokio::task::yield_now().await;
    }
}

/// One that is busy with something else for long holds up its own items alone.
#[actix::test]
async fn no_thread_waits_for_the_event_loop_of_another_one() {
    let pool = Pool::start(1, &Panics::default()).unwrap();
    let (busy, (planned, is_planned)) = (actix::Arbiter::new(), oneshot::channel());
    let (go_on, goes_on) = mpsc::sync_channel::<()>(1);
    let (of_busy, first) = (pool.clone(), uses_nothing());
    busy.spawn(async move {
        let run = of_busy.run(first, Share::default(), Duration::ZERO, Entry::New);
        let mut run = Box::pin(run);
        let waits = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(waits.is_pending());
        planned.send(()).unwrap();
        // This fails when the sender is dropped.
        let _ = goes_on.recv();
        run.await.unwrap();
    });
    is_planned.await.unwrap();
    let second = pool.run(uses_nothing(), Share::default(), Duration::ZERO, Entry::New);
    second.await.unwrap();
    drop(go_on);
    busy.stop();
    busy.join().unwrap();
}

/// However long a turn of the event loop is, the pool gets what it has pushed while it pushes more.
#[actix::test]
async fn items_are_passed_on_while_more_are_pushed() {
    let pool = Pool::start(1, &Panics::default()).unwrap();
    let mut running = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    let patience = Instant::now() + Duration::from_secs(60);
    // All of it is one turn.
    while pool.light.queue.usage().taken == 0 {
        assert!(Instant::now() < patience, "nothing is passed on");
        let pool = pool.clone();
        let mut run = Box::pin(async move {
            let share = Share::default();
            pool.run(uses_nothing(), share, Duration::ZERO, Entry::Again)
                .await
        });
        if run.as_mut().poll(&mut cx).is_pending() {
            running.push(run);
        }
    }
}

#[actix::test]
async fn as_many_threads_are_woken_as_there_are_items() {
    const THREADS: usize = 40;
    let pool = Pool::start(THREADS, &Panics::default()).unwrap();
    let mut releases = Vec::new();
    let queries = (0..THREADS).map(|_| {
        let (release, query) = Runs::new();
        releases.push(release);
        Box::pin(pool.run(query, Share::default(), Duration::ZERO, Entry::New))
    });
    let mut running: Vec<_> = queries.collect();
    // All of it is one turn of the event loop.
    let mut cx = Context::from_waker(Waker::noop());
    for query in &mut running {
        assert!(query.as_mut().poll(&mut cx).is_pending());
    }
    while pool.light.queue.usage().taken < THREADS as u64 {
        tokio::task::yield_now().await;
    }
    drop(releases);
    for query in running {
        query.await.unwrap();
    }
}

/// Otherwise each would cost switches between threads for nothing.
#[actix::test]
async fn no_thread_is_woken_for_items_that_others_have_taken() {
    let pool = Pool::start(2, &Panics::default()).unwrap();
    let PoolClass { threads, queue, .. } = &pool.light;
    // They cannot look at the queue and sleep again.
    let occupied = Occupied::new([threads]);
    threads.wake(30, queue);
    assert_eq!(threads.asleep().count(), 2);
    occupied.release().await;
}

/// Panics.
struct Breaks(Cancellation);

impl PoolQuery for Breaks {
    type Output = ();

    fn cancellation(&self) -> &Cancellation {
        &self.0
    }

    fn run(&self) -> Reply<()> {
        panic!("on purpose")
    }
}

#[actix::test]
async fn a_panic_answers_its_own_query_and_no_other() {
    let panics = Panics::default();
    let pool = Pool::start(1, &panics).unwrap();
    for class in pool.classes() {
        let occupied = Occupied::new([&class.threads]);
        let breaks = || {
            class.run(
                Breaks(Cancellation::default()),
                Share::default(),
                WORK,
                Entry::New,
            )
        };
        let reads = || class.run(uses_nothing(), Share::default(), WORK, Entry::New);
        let answered = async { tokio::join!(reads(), breaks(), reads(), breaks(), reads()) };
        let (answered, ()) = tokio::join!(answered, occupied.release());
        let (before, first, between, second, after) = answered;
        assert!(before.is_ok() && between.is_ok() && after.is_ok());
        for broken in [first, second] {
            assert!(matches!(broken, Err(QueryError::Panicked)), "{broken:?}");
        }
    }
    assert_eq!(panics.total(), 8);
}

#[actix::test]
async fn threads_end_with_the_last_clone_of_the_pool() {
    let pool = Pool::start(2, &Panics::default()).unwrap();
    let classes = pool.classes();
    let arbiters: Vec<_> = classes
        .iter()
        .flat_map(|class| class.threads.arbiters())
        .collect();
    assert_eq!(arbiters.len(), 8);
    drop(pool.clone());
    // Its threads take queries.
    let query = pool.run(uses_nothing(), Share::default(), WORK, Entry::New);
    query.await.unwrap();
    drop(pool);
    let patience = Instant::now() + Duration::from_secs(60);
    while arbiters.iter().any(ArbiterHandle::alive) {
        assert!(Instant::now() < patience, "a thread goes on");
        tokio::task::yield_now().await;
    }
}
