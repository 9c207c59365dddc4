#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    io::Read as _,
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::AtomicBool,
};

use tokio::{
    sync::mpsc::{self, Receiver},
    task::{self, JoinHandle, LocalSet},
};

use super::{super::bind, *};
use crate::metrics::{ListenerKind, Metrics};

/// An acceptor, and its workers as it sees them.
struct Scene {
    address: SocketAddr,
    metrics: ListenerMetrics,
    queues: Vec<Receiver<TcpStream>>,
    overloaded: Vec<Arc<AtomicBool>>,
    took: Arc<Notify>,
    _running: JoinHandle<()>,
}

impl Scene {
    /// Workers whose queues are this long.
    fn new(workers: usize, room: usize) -> Self {
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        listener.listen(16).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().unwrap();
        let (senders, queues): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::channel(room)).unzip();
        let overloaded: Vec<Arc<AtomicBool>> = (0..workers).map(|_| Arc::default()).collect();
        let took = Arc::new(Notify::new());
        let handles = senders.into_iter().zip(&overloaded);
        let handles = handles.map(|(connections, overloaded)| WorkerHandle {
            connections,
            is_overloaded: Arc::clone(overloaded),
        });
        let metrics = Metrics::new([]).unwrap().of_listener(ListenerKind::Public);
        let acceptor = Acceptor {
            listener,
            backlog: 16,
            workers: Workers {
                handles: handles.collect(),
                took: Arc::clone(&took),
                next: 0,
            },
            metrics: metrics.clone(),
        };
        Self {
            address,
            metrics,
            queues,
            overloaded,
            took,
            _running: task::spawn_local(acceptor.run()),
        }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    fn overload(&self, is_overloaded: bool) {
        for worker in &self.overloaded {
            worker.store(is_overloaded, Ordering::Relaxed);
        }
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
        .run_until(async { act(Scene::new(workers, room)).await })
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

#[tokio::test]
async fn connections_are_refused_while_all_workers_are_overloaded() {
    scene(2, 1, async |mut scene| {
        scene.overload(true);
        let clients: Vec<_> = (0..4).map(|_| scene.connect()).collect();
        scene.until_refusing(true).await;
        // Two are in the queues of workers. The one that the acceptor held is refused, and the one
        // in the kernel's queue.
        for mut refused in clients.iter().skip(2) {
            let error = refused.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        let refused = TcpStream::connect(scene.address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        // One of them takes what waits for it.
        scene.take(1).await;
        scene.overload(false);
        scene.until_refusing(false).await;
        let client = scene.connect();
        assert_eq!(scene.take(1).await, client.local_addr().unwrap());
        drop(clients);
    })
    .await;
}

#[tokio::test]
async fn connections_wait_for_a_worker_that_has_room_soon() {
    scene(2, 1, async |mut scene| {
        // One of them is busy only with other connections.
        scene.overload(true);
        scene.overloaded[1].store(false, Ordering::Relaxed);
        let clients: Vec<_> = (0..4).map(|_| scene.connect()).collect();
        let waits = 2 * OVERLOAD_PATIENCE;
        let is_refused = scene.until_refusing(true);
        assert!(time::timeout(waits, is_refused).await.is_err());
        for client in [1, 2, 3] {
            let from = clients[client].local_addr().unwrap();
            assert_eq!(scene.take(1).await, from);
        }
    })
    .await;
}
