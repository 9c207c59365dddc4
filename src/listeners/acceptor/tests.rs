#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    cell::Cell,
    io::{ErrorKind, Read as _},
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use tokio::{
    sync::{
        mpsc::{self, Receiver},
        oneshot,
    },
    task::LocalSet,
};

use super::{
    super::{bind, load::Load},
    *,
};
use crate::{
    limits::OVERLOAD_MEMORY,
    metrics::{ListenerKind, Metrics},
};

/// An acceptor, and its workers as it sees them.
struct Scene {
    /// The socket that it accepts from.
    socket: TcpListener,
    address: SocketAddr,
    metrics: ListenerMetrics,
    queues: Vec<Receiver<TcpStream>>,
    loads: Vec<Load>,
    /// How many connections a worker would take, and how often they were asked.
    would_take: Rc<Cell<usize>>,
    asked: Rc<Cell<usize>>,
    took: Arc<Notify>,
}

/// Answers the acceptor's questions in the place of a worker.
async fn answer(
    mut questions: Receiver<oneshot::Sender<usize>>,
    would_take: Rc<Cell<usize>>,
    asked: Rc<Cell<usize>>,
    load: Load,
) {
    while let Some(answer) = questions.recv().await {
        task::yield_now().await;
        asked.set(asked.get() + 1);
        if would_take.get() > 0 {
            load.set_calm();
        }
        let _ = answer.send(would_take.get());
    }
}

impl Scene {
    /// Workers that have room for so many connections.
    fn new(workers: usize, room: usize, is_inherited: bool) -> Self {
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        listener.listen(64).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().unwrap();
        let took = Arc::new(Notify::new());
        let would_take = Rc::new(Cell::new(usize::MAX));
        let asked = Rc::new(Cell::new(0));
        let loads = Loads::none(workers);
        let (mut queues, mut handles) = (Vec::new(), Vec::new());
        for load in loads.iter() {
            let (connections, queue) = mpsc::channel(INTAKE_MAX);
            let (questions, answering) = mpsc::channel(1);
            let (would_take, asked) = (Rc::clone(&would_take), Rc::clone(&asked));
            task::spawn_local(answer(answering, would_take, asked, load.clone()));
            load.set_room(room);
            queues.push(queue);
            handles.push(WorkerHandle {
                connections,
                load: load.clone(),
                questions,
            });
        }
        let metrics = Metrics::new([]).unwrap().of_listener(ListenerKind::Public);
        let socket = listener.try_clone().unwrap();
        let acceptor = Acceptor {
            listener,
            backlog: 64,
            is_inherited,
            workers: Workers {
                handles,
                loads: loads.clone(),
                took: Arc::clone(&took),
                next: 0,
            },
            metrics: metrics.clone(),
        };
        task::spawn_local(acceptor.run());
        Self {
            socket,
            address,
            metrics,
            queues,
            loads: loads.iter().cloned().collect(),
            would_take,
            asked,
            took,
        }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// A worker has been overloaded for so long.
    fn overload(&self, worker: usize, time: Duration) {
        let now = Instant::now();
        self.loads[worker].set_overloaded(now - time, now);
    }

    /// A worker takes a connection.
    async fn take(&mut self, worker: usize) -> SocketAddr {
        let taken = self.queues[worker].recv().await.unwrap();
        self.took.notify_one();
        taken.peer_addr().unwrap()
    }

    async fn until_refusing(&self, refusing: bool) {
        while self.metrics.refusing.get() != i64::from(refusing) {
            task::yield_now().await;
        }
    }
}

async fn scene(workers: usize, room: usize, act: impl AsyncFnOnce(Scene)) {
    LocalSet::new()
        .run_until(async { act(Scene::new(workers, room, false)).await })
        .await;
}

#[tokio::test]
async fn workers_get_connections_in_turn_and_wait_for_those_without_room() {
    scene(2, 2, async |mut scene| {
        let clients: Vec<_> = (0..5).map(|_| scene.connect()).collect();
        let from: Vec<_> = clients.iter().map(|it| it.local_addr().unwrap()).collect();
        for (client, worker) in [(0, 0), (2, 0), (1, 1), (3, 1)] {
            assert_eq!(scene.take(worker).await, from[client]);
        }
        // It had to wait until one of them had room.
        assert_eq!(scene.take(0).await, from[4]);
        assert_eq!(scene.metrics.refusing.get(), 0);
    })
    .await;
}

/// Connections wait in the queues of workers before these are overloaded.
async fn fill(scene: &Scene, each: usize) -> Vec<TcpStream> {
    let clients = (0..scene.queues.len() * each)
        .map(|_| scene.connect())
        .collect();
    while scene.queues.iter().any(|queue| queue.len() < each) {
        task::yield_now().await;
    }
    clients
}

/// The only worker has been overloaded, and would take so many connections from now on. Returns how
/// often it was asked before.
async fn refusing_crowd(scene: &mut Scene, would_take: usize) -> usize {
    let _waiting = fill(scene, 1).await;
    scene.would_take.set(0);
    scene.overload(0, OVERLOAD_PATIENCE);
    let _held = scene.connect();
    scene.until_refusing(true).await;
    scene.take(0).await;
    scene.loads[0].set_room(INTAKE_MAX);
    scene.would_take.set(would_take);
    scene.asked.get()
}

/// This many more clients connect, refused or not, and the only worker takes those who were let in.
/// Returns how many these are.
async fn try_again(scene: &mut Scene, clients: usize) -> usize {
    for _ in 0..clients {
        let _ = TcpStream::connect(scene.address);
    }
    let mut taken = 0;
    while scene.queues[0].try_recv().is_ok() {
        taken += 1;
        scene.took.notify_one();
    }
    task::yield_now().await;
    taken
}

#[tokio::test]
async fn connections_are_refused_while_all_workers_are_overloaded() {
    scene(2, 1, async |mut scene| {
        let _waiting = fill(&scene, 1).await;
        scene.would_take.set(0);
        scene.overload(0, OVERLOAD_PATIENCE);
        scene.overload(1, OVERLOAD_PATIENCE);
        let mut held = scene.connect();
        let mut queued = scene.connect();
        scene.until_refusing(true).await;
        for refused in [&mut held, &mut queued] {
            let error = refused.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        let refused = TcpStream::connect(scene.address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        // The address is kept.
        let other = bind(scene.address).and_then(|other| other.listen(1));
        assert_eq!(other.unwrap_err().kind(), ErrorKind::AddrInUse);

        // Once one of them keeps up, connections are let in.
        scene.take(1).await;
        scene.loads[1].set_room(1);
        scene.would_take.set(usize::MAX);
        scene.until_refusing(false).await;
        let client = scene.connect();
        assert_eq!(scene.take(1).await, client.local_addr().unwrap());
    })
    .await;
}

/// The only worker has been overloaded for longer than [`SHORT_PATIENCE`], and the acceptor waits
/// for it. Then so many connect; their queue has room for 64. Returns for how long the worker had
/// been overloaded when they were refused.
async fn refused_after(waiting: usize) -> Duration {
    let measured = Cell::new(Duration::ZERO);
    scene(1, 1, async |scene| {
        let _waiting = fill(&scene, 1).await;
        scene.would_take.set(0);
        let _held = scene.connect();
        scene.overload(0, SHORT_PATIENCE);
        let overloaded_for = || scene.loads[0].overloaded_for(Instant::now());
        while overloaded_for() < SHORT_PATIENCE + 3 * WATCHED_EVERY {
            task::yield_now().await;
        }
        let _queued: Vec<_> = (0..waiting).map(|_| scene.connect()).collect();
        scene.until_refusing(true).await;
        measured.set(overloaded_for());
    })
    .await;
    measured.get()
}

/// Checks that it is less than [`OVERLOAD_PATIENCE`]. A machine may stand still for so long, but
/// not again and again.
async fn check_sooner(refused_after: impl AsyncFn() -> Duration) {
    let mut tries = 0..5;
    while refused_after().await >= OVERLOAD_PATIENCE {
        assert!(tries.next().is_some(), "refused as late as while few wait");
    }
}

#[tokio::test]
async fn connections_are_refused_sooner_while_the_queue_is_more_than_half_full() {
    assert!(refused_after(20).await >= OVERLOAD_PATIENCE);
    check_sooner(|| refused_after(40)).await;
}

/// Returns for how long the only worker had been overloaded when a connection was refused, soon
/// after another overload.
async fn refused_again_after() -> Duration {
    let measured = Cell::new(Duration::ZERO);
    scene(1, 1, async |scene| {
        let _waiting = fill(&scene, 1).await;
        scene.overload(0, OVERLOAD_PATIENCE);
        let _refused = scene.connect();
        scene.until_refusing(true).await;
        scene.until_refusing(false).await;
        scene.would_take.set(0);
        let _held = scene.connect();
        scene.overload(0, Duration::ZERO);
        scene.until_refusing(true).await;
        measured.set(scene.loads[0].overloaded_for(Instant::now()));
    })
    .await;
    assert!(measured.get() >= SHORT_PATIENCE);
    measured.get()
}

#[tokio::test]
async fn connections_are_refused_sooner_soon_after_an_overload() {
    check_sooner(refused_again_after).await;
}

/// The next process, or who opened it, has the socket as it was.
#[tokio::test]
async fn an_inherited_socket_stays_open_while_connections_are_refused() {
    let act = async {
        let mut scene = Scene::new(1, 1, true);
        let _waiting = fill(&scene, 1).await;
        scene.would_take.set(0);
        scene.overload(0, OVERLOAD_PATIENCE);
        let mut held = scene.connect();
        scene.until_refusing(true).await;
        for refused in [&mut held, &mut scene.connect()] {
            refused.set_nonblocking(true).unwrap();
            let error = loop {
                match refused.read(&mut [0]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        task::yield_now().await;
                    }
                    ended => break ended.unwrap_err(),
                }
            };
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            assert!(SockRef::from(&scene.socket).is_listener().unwrap());
        }
        // Others never stop trying, and it notices all the same that the worker keeps up.
        let (address, ended) = (scene.address, Arc::new(AtomicBool::new(false)));
        let others = [(); 2].map(|()| {
            let ended = Arc::clone(&ended);
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let _ = TcpStream::connect(address);
                }
            })
        });
        scene.take(0).await;
        scene.loads[0].set_room(INTAKE_MAX);
        let asked = scene.asked.get();
        while scene.asked.get() < asked + 3 {
            task::yield_now().await;
        }
        ended.store(true, Ordering::Relaxed);
        for other in others {
            other.join().unwrap();
        }
        scene.would_take.set(usize::MAX);
        while scene.metrics.refusing.get() != 0 {
            // Those who still wait in the kernel's queue are let in.
            while scene.queues[0].try_recv().is_ok() {
                scene.took.notify_one();
            }
            task::yield_now().await;
        }
    };
    LocalSet::new().run_until(act).await;
}

/// After an overload, a crowd is let in by parts that grow, while the workers keep up.
#[tokio::test]
async fn trials_let_in_more_each_time() {
    scene(1, 1, async |mut scene| {
        let asked = refusing_crowd(&mut scene, usize::MAX).await;
        let mut let_in = 0;
        while let_in < (1 + INTAKE_GROWTH) * INTAKE_MAX {
            let_in += try_again(&mut scene, 1).await;
        }
        // Of 16 and 64; the one before may have found that the workers do not keep up.
        let trials = scene.asked.get() - asked;
        assert!(trials <= 3, "{trials}");
        scene.until_refusing(false).await;
    })
    .await;
}

/// A worker that does not keep up, and has few connections, gets as many as it would take.
#[tokio::test]
async fn trials_let_in_no_more_than_a_worker_would_take() {
    scene(1, 1, async |mut scene| {
        let few = 3;
        let asked = refusing_crowd(&mut scene, few).await;
        let mut let_in = 0;
        while let_in < 10 * few {
            // All at once: if fewer came during a trial, it would be the last one.
            let_in += try_again(&mut scene, few).await;
            let trials = scene.asked.get() - asked + 1;
            assert!(let_in <= trials * few, "{let_in} in {trials} trials");
        }
    })
    .await;
}

/// One that lacks many gets them in one trial, because each trial costs as much.
#[tokio::test]
async fn a_worker_gets_all_that_it_lacks_at_once() {
    scene(1, 1, async |mut scene| {
        let lacking = 8 * INTAKE_MAX;
        let asked = refusing_crowd(&mut scene, lacking).await;
        let mut let_in = 0;
        while let_in < lacking {
            let_in += try_again(&mut scene, 1).await;
        }
        // The one before may have found that the worker does not keep up.
        let trials = scene.asked.get() - asked;
        assert!(trials <= 2, "{trials}");
    })
    .await;
}

/// Also if a worker lacks more than that.
#[tokio::test]
async fn an_overload_goes_on_while_a_crowd_comes() {
    scene(1, 1, async |mut scene| {
        refusing_crowd(&mut scene, 4 * INTAKE_MAX).await;
        let mut clients = loop {
            if let Ok(client) = TcpStream::connect(scene.address) {
                break vec![client];
            }
            task::yield_now().await;
        };
        clients.extend((0..INTAKE_MAX).map(|_| scene.connect()));
        let asked = scene.asked.get();
        while scene.metrics.refusing.get() != 0 {
            while scene.queues[0].try_recv().is_ok() {
                scene.took.notify_one();
            }
            task::yield_now().await;
        }
        assert!(scene.asked.get() > asked, "the trial was not the last one");
    })
    .await;
}

#[tokio::test]
async fn connections_wait_for_a_worker_that_is_not_overloaded() {
    scene(2, 1, async |mut scene| {
        let clients = fill(&scene, 1).await;
        // One of them is overloaded, and one is busy for a while.
        scene.overload(0, 2 * OVERLOAD_PATIENCE);
        let waiting: Vec<_> = (0..3).map(|_| scene.connect()).collect();
        let is_refused = scene.until_refusing(true);
        let waits = OVERLOAD_PATIENCE + OVERLOAD_MEMORY;
        assert!(time::timeout(waits, is_refused).await.is_err());
        assert_eq!(scene.take(1).await, clients[1].local_addr().unwrap());
        for client in waiting {
            assert_eq!(scene.take(1).await, client.local_addr().unwrap());
        }
    })
    .await;
}

/// Slots are waited for, however overloaded the other workers are, and for however long.
#[tokio::test]
async fn connections_wait_for_a_slot() {
    scene(2, 1, async |mut scene| {
        let _clients = fill(&scene, 1).await;
        scene.loads[0].set_no_slot();
        scene.loads[1].set_no_slot();
        let waiting: Vec<_> = (0..3).map(|_| scene.connect()).collect();
        let is_refused = scene.until_refusing(true);
        assert!(time::timeout(QUEUE_PATIENCE, is_refused).await.is_err());
        scene.take(0).await;
        for client in waiting {
            scene.loads[0].set_room(1);
            scene.took.notify_one();
            assert_eq!(scene.take(0).await, client.local_addr().unwrap());
            scene.loads[0].set_no_slot();
        }
        assert_eq!(scene.metrics.refusing.get(), 0);
    })
    .await;
}

/// A worker that has become free is overloaded: those who have waited for its slot wait for as long
/// as others, however many they are.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_crowd_that_has_waited_for_a_slot_is_not_refused_sooner() {
    scene(1, 1, async |scene| {
        let _clients = fill(&scene, 1).await;
        scene.would_take.set(0);
        scene.loads[0].set_no_slot();
        let _held = scene.connect();
        let _queued: Vec<_> = (0..40).map(|_| scene.connect()).collect();
        // 40 are left once the acceptor has the first one, for which it finds no slot.
        while crate::listeners::kernel_queue::length_and_room(&scene.socket) != Some((40, 64)) {
            task::yield_now().await;
        }
        scene.overload(0, SHORT_PATIENCE);
        scene.took.notify_one();
        scene.until_refusing(true).await;
        assert!(scene.loads[0].overloaded_for(Instant::now()) >= OVERLOAD_PATIENCE);
    })
    .await;
}

/// However short turns are: those at the end of the queue have left before they are answered.
#[tokio::test]
async fn connections_are_refused_once_the_queue_has_not_been_empty_for_long() {
    scene(1, 1, async |mut scene| {
        let mut clients = Vec::new();
        while scene.metrics.refusing.get() == 0 {
            while clients.len() < 32 {
                clients.push(scene.connect());
            }
            if let Ok(taken) = scene.queues[0].try_recv() {
                scene.took.notify_one();
                let address = taken.peer_addr().unwrap();
                clients.retain(|client| client.local_addr().unwrap() != address);
            }
            task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_has_ended_is_given_nothing() {
    scene(2, 1, async |mut scene| {
        scene.queues[0].close();
        for _ in 0..3 {
            let client = scene.connect();
            assert_eq!(scene.take(1).await, client.local_addr().unwrap());
        }
        assert_eq!(scene.metrics.refusing.get(), 0);
    })
    .await;
}
