#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    convert::Infallible,
    hint,
    io::{
        ErrorKind::{ConnectionReset, WouldBlock},
        Read as _, Write as _,
    },
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use actix_service::fn_service;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{super::stopping::Stop, *};
use crate::limits::{INTAKE_GROWTH, INTAKE_TIME, TURNS_TIME_MAX};

/// Connections, each a client's end and a server's.
fn pairs(count: usize) -> Vec<(StdStream, StdStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let pair = |_| {
        let client = StdStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        (client, server)
    };
    (0..count).map(pair).collect()
}

/// What one of so many workers has. The others have nothing to do.
fn one_of(workers: usize, slots: usize, stopping: Stopping, ended: Ended) -> WorkerParts {
    let loads = Loads::none(workers);
    let load = loads.iter().next().unwrap().clone();
    WorkerParts {
        slots,
        niceness: 0,
        load,
        loads,
        took: Arc::default(),
        stopping,
        ended,
    }
}

/// A worker whose service takes `work` of its thread for each byte, and sends the byte back.
fn echo(slots: usize, work: Duration, grace: Duration) -> (WorkerHandle, Stop) {
    let (stop, stopping, ended) = Stop::new(grace);
    let parts = one_of(1, slots, stopping, ended);
    (echo_of(parts, work, Arc::default()), stop)
}

/// The same with these parts. Other work waits for too long while `waits` is set.
fn echo_of(parts: WorkerParts, work: Duration, waits: Arc<AtomicBool>) -> WorkerHandle {
    echo_with(parts, work, waits, (Arc::default(), false))
}

/// A worker that has nothing to do, and whose other work waits for too long while that is set.
fn echo_that_waits() -> (WorkerHandle, Stop, Arc<AtomicBool>) {
    let waits = Arc::new(AtomicBool::new(true));
    let (stop, stopping, ended) = Stop::new(Duration::ZERO);
    let parts = one_of(1, 10_000, stopping, ended);
    let worker = echo_of(parts, Duration::ZERO, Arc::clone(&waits));
    (worker, stop, waits)
}

/// The same as `echo_of`, and it believes that so many requests have begun, and that either all of
/// its clients are newcomers for as long as they stay, or none is.
fn echo_with(
    parts: WorkerParts,
    work: Duration,
    waits: Arc<AtomicBool>,
    (requests, are_newcomers): (Arc<AtomicU64>, bool),
) -> WorkerHandle {
    let factory = move || {
        let newcomers = Rc::<Newcomers>::default();
        let counted = Rc::clone(&newcomers);
        let service = fn_service(move |mut stream: TcpStream| {
            let newcomer = are_newcomers.then(|| counted.add());
            async move {
                let mut byte = [0];
                while let Ok(1) = stream.read(&mut byte).await {
                    // The worker can do nothing else meanwhile.
                    let began = Instant::now();
                    while began.elapsed() < work {
                        hint::spin_loop();
                    }
                    if stream.write_all(&byte).await.is_err() {
                        break;
                    }
                }
                drop(newcomer);
                Ok::<(), Infallible>(())
            }
        });
        let work_wait: WorkWait = Rc::new(move || match waits.load(Ordering::Relaxed) {
            true => 2 * TURNS_TIME_MAX,
            false => Duration::ZERO,
        });
        let connections = WorkerConnections {
            requests_begun: Rc::new(move || requests.load(Ordering::Relaxed)),
            newcomers,
            ..connections(work_wait)
        };
        (service, connections)
    };
    start(factory, parts, |reason| panic!("{reason}")).unwrap()
}

/// Of a worker whose connections have no first request.
fn connections(work_wait: WorkWait) -> WorkerConnections {
    WorkerConnections {
        work_wait,
        requests_begun: Rc::new(|| 0),
        new_connections: Rc::default(),
        newcomers: Rc::default(),
        ending: watch::Sender::default(),
    }
}

/// Sends a byte, and waits until it is back.
fn ask(mut client: &StdStream) {
    client.write_all(&[1]).unwrap();
    client.read_exact(&mut [0]).unwrap();
}

#[actix::test]
async fn a_worker_takes_no_more_than_its_slots() {
    let (worker, stop) = echo(2, Duration::ZERO, Duration::ZERO);
    let (clients, servers): (Vec<_>, Vec<_>) = pairs(3).into_iter().unzip();
    for server in servers {
        worker.connections.send(server).await.unwrap();
    }
    let [first, second, third] = clients.try_into().unwrap();
    ask(&first);
    while worker.load.room() != Room::NoSlot {
        task::yield_now().await;
    }
    (&third).write_all(&[1]).unwrap();
    // Turns in which it would have been answered.
    for _ in 0..10 {
        ask(&first);
        ask(&second);
    }
    third.set_nonblocking(true).unwrap();
    assert_eq!((&third).read(&mut [0]).unwrap_err().kind(), WouldBlock);
    third.set_nonblocking(false).unwrap();
    drop(first);
    (&third).read_exact(&mut [0]).unwrap();
    stop.stop(false).await;
}

/// Keeps connections of a worker busy for as long as it exists.
struct Busy {
    ended: Arc<AtomicBool>,
    asking: Vec<thread::JoinHandle<()>>,
}

impl Busy {
    async fn new(worker: &WorkerHandle, connections: usize) -> Self {
        let (clients, servers): (Vec<_>, Vec<_>) = pairs(connections).into_iter().unzip();
        for server in servers {
            worker.connections.send(server).await.unwrap();
        }
        // All have been taken before they keep the worker busy.
        clients.iter().for_each(ask);
        let ended = Arc::new(AtomicBool::new(false));
        let ask_until_the_end = |client: StdStream| {
            let ended = Arc::clone(&ended);
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    ask(&client);
                }
            })
        };
        Self {
            asking: clients.into_iter().map(ask_until_the_end).collect(),
            ended,
        }
    }

    fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        for asking in self.asking {
            asking.join().unwrap();
        }
    }
}

/// While its connections keep a worker busy, it takes no other, and says so; those who wait for
/// long are refused. Then it takes them again.
#[actix::test]
async fn a_worker_that_is_overloaded_takes_no_connection() {
    let (worker, stop) = echo(10_000, TURNS_TIME_MAX / 2, Duration::ZERO);
    // Connections that ask for nothing. However busy the worker is, it takes some.
    let mut idle: Vec<StdStream> = Vec::new();
    for (client, server) in pairs(BUSY_CONNECTIONS_MIN) {
        client.set_nonblocking(true).unwrap();
        worker.connections.send(server).await.unwrap();
        idle.push(client);
    }
    // A turn with these four is too long.
    let busy = Busy::new(&worker, 4).await;
    // Now and then it takes one more, when those that are busy are slow.
    let refused = loop {
        if worker.connections.capacity() == BUSY_CONNECTIONS_MAX {
            let (client, server) = pairs(1).pop().unwrap();
            client.set_nonblocking(true).unwrap();
            worker.connections.try_send(server).unwrap();
            idle.push(client);
        }
        task::yield_now().await;
        let errors = idle
            .iter()
            .filter_map(|mut client| client.read(&mut [0]).err());
        if let Some(error) = errors
            .map(|error| error.kind())
            .find(|it| *it != WouldBlock)
        {
            break error;
        }
    };
    assert_eq!(refused, ConnectionReset);
    assert!(idle.len() > BUSY_CONNECTIONS_MIN);
    let does_not_keep_up = async {
        loop {
            let (answer, answered) = oneshot::channel();
            worker.questions.send(answer).await.unwrap();
            if answered.await.unwrap() == 0 {
                break;
            }
        }
    };
    does_not_keep_up.await;

    busy.end();
    assert_eq!(would_take(worker.questions.clone()).await, usize::MAX);
    let (client, server) = pairs(1).pop().unwrap();
    worker.connections.send(server).await.unwrap();
    ask(&client);
    stop.stop(false).await;
}

/// Its turns are short, and large replies wait.
#[actix::test]
async fn a_worker_with_work_that_waits_takes_no_connection() {
    let (worker, stop, waits) = echo_that_waits();
    // It takes some however long others wait.
    let mut few = Vec::new();
    for (client, server) in pairs(BUSY_CONNECTIONS_MIN) {
        // Until three quarters of them are there, it promises to take the others.
        if 4 * few.len() < 3 * BUSY_CONNECTIONS_MIN {
            let missing = BUSY_CONNECTIONS_MIN - few.len();
            assert_eq!(would_take(worker.questions.clone()).await, missing);
        }
        worker.connections.send(server).await.unwrap();
        ask(&client);
        few.push(client);
    }
    let (client, server) = pairs(1).pop().unwrap();
    worker.connections.send(server).await.unwrap();
    while worker.load.room() != Room::Overloaded {
        task::yield_now().await;
    }
    client.set_nonblocking(true).unwrap();
    (&client).write_all(&[1]).unwrap();
    assert_eq!((&client).read(&mut [0]).unwrap_err().kind(), WouldBlock);
    let (answer, answered) = oneshot::channel();
    worker.questions.send(answer).await.unwrap();
    assert_eq!(answered.await.unwrap(), 0);
    waits.store(false, Ordering::Relaxed);
    client.set_nonblocking(false).unwrap();
    (&client).read_exact(&mut [0]).unwrap();
    assert_eq!(would_take(worker.questions.clone()).await, usize::MAX);
    stop.stop(false).await;
}

/// Newcomers who wait for an answer make those who come later wait.
#[actix::test]
async fn a_crowd_shows_what_it_asks_for_before_more_of_it_is_taken() {
    let (stop, stopping, ended) = Stop::new(Duration::ZERO);
    let parts = one_of(1, 10_000, stopping, ended);
    let believes = (Arc::default(), true);
    let worker = echo_with(parts, Duration::ZERO, Arc::default(), believes);
    // More than it takes beside those that it lacks in one time and the next two.
    let crowd = pairs(BUSY_CONNECTIONS_MIN + (1 + INTAKE_GROWTH + 1) * INTAKE_MAX);
    let (clients, servers): (Vec<_>, Vec<_>) = crowd.into_iter().unzip();
    let began = Instant::now();
    for (client, server) in clients.iter().zip(servers) {
        worker.connections.send(server).await.unwrap();
        ask(client);
    }
    assert!(began.elapsed() >= 2 * INTAKE_TIME);
    assert_eq!(worker.load.overloaded_for(Instant::now()), Duration::ZERO);
    stop.stop(false).await;
}

/// The cheaper its requests are, the more connections it needs.
#[actix::test]
async fn a_busy_worker_takes_what_it_has_promised_to() {
    let waits = Arc::new(AtomicBool::new(false));
    let (stop, stopping, ended) = Stop::new(Duration::ZERO);
    let parts = one_of(1, 10_000, stopping, ended);
    let requests = Arc::new(AtomicU64::new(0));
    let worker = echo_with(
        parts,
        Duration::ZERO,
        Arc::clone(&waits),
        (Arc::clone(&requests), false),
    );
    // They seem to cost nothing.
    let promised = (3 * BUSY_CONNECTIONS_MIN + BUSY_CONNECTIONS_MAX) / 4;
    let (clients, servers): (Vec<_>, Vec<_>) = pairs(promised).into_iter().unzip();
    requests.store(1 << 40, Ordering::Relaxed);
    assert_eq!(would_take(worker.questions.clone()).await, promised);
    waits.store(true, Ordering::Relaxed);
    for server in servers {
        worker.connections.send(server).await.unwrap();
    }
    clients.iter().for_each(ask);
    let (client, server) = pairs(1).pop().unwrap();
    worker.connections.send(server).await.unwrap();
    while worker.load.room() != Room::Overloaded {
        task::yield_now().await;
    }
    drop(client);
    stop.stop(false).await;
}

/// One without connections lacks some for ever if its clients leave after each request.
#[actix::test]
async fn a_worker_that_lacks_connections_says_when_it_keeps_up() {
    let (worker, stop, waits) = echo_that_waits();
    for _ in 0..3 {
        let taken = would_take(worker.questions.clone()).await;
        assert_eq!(taken, BUSY_CONNECTIONS_MIN);
    }
    waits.store(false, Ordering::Relaxed);
    // On a busy machine, the turns of its event loop may be long now and then.
    let until_it_keeps_up =
        async { while would_take(worker.questions.clone()).await != usize::MAX {} };
    let waited = time::timeout(Duration::from_secs(60), until_it_keeps_up).await;
    assert!(waited.is_ok(), "it does not keep up");
    stop.stop(false).await;
}

#[actix::test]
async fn a_worker_lacks_what_neither_it_has_nor_waits_for_it() {
    for (slots, count, taken, queued, expected) in [
        (1_000, 0, 0, 0, 64),
        (1_000, 47, 0, 0, 17),
        (1_000, 48, 0, 0, 0),
        (1_000, 20, 0, 10, 34),
        (1_000, 20, 1, 10, 33),
        (1_000, 20, 0, 28, 0),
        (40, 0, 0, 0, 40),
        (40, 30, 0, 0, 0),
    ] {
        let open = Open::new(slots, Rc::new(|| 0));
        open.count.set(count);
        open.taken.set(taken);
        let found = open.lacking(queued, 64);
        assert_eq!(found, expected, "{slots} {count} {taken} {queued}");
    }
}

#[actix::test]
async fn a_promise_is_kept_once_and_not_for_ever() {
    let open = Rc::new(Open::new(1_000, Rc::new(|| 0)));
    open.count.set(BUSY_CONNECTIONS_MIN);
    open.promise(2);
    let mut guards = Vec::new();
    for expected in [2, 1, 0] {
        assert_eq!(open.missing(), expected);
        guards.push(open.add());
    }
    open.promised.set((2, Instant::now()));
    assert_eq!(open.missing(), 0);
}

/// While another worker keeps up, nobody is refused: who was given to one that does not is served.
#[actix::test]
async fn connections_do_not_wait_for_ever_for_one_worker_of_two() {
    let (stop, stopping, ended) = Stop::new(Duration::ZERO);
    let parts = one_of(2, 10_000, stopping, ended);
    let worker = echo_of(parts, Duration::ZERO, Arc::new(AtomicBool::new(true)));
    let mut clients = Vec::new();
    for (client, server) in pairs(BUSY_CONNECTIONS_MIN + INTAKE_MAX) {
        worker.connections.send(server).await.unwrap();
        clients.push(client);
    }
    clients.iter().for_each(ask);
    stop.stop(false).await;
}

#[actix::test]
async fn a_worker_that_panics_is_reported() {
    let (_stop, stopping, ended) = Stop::new(Duration::ZERO);
    let parts = one_of(1, 1, stopping, ended);
    let factory = || {
        let service = fn_service(|_: TcpStream| {
            assert_eq!(1, 2, "a defect");
            future::ready(Ok::<(), Infallible>(()))
        });
        (service, connections(Rc::new(|| Duration::ZERO)))
    };
    let (failed, reason) = oneshot::channel();
    let worker = start(factory, parts, |reason| failed.send(reason).unwrap()).unwrap();
    let (_client, server) = pairs(1).pop().unwrap();
    worker.connections.send(server).await.unwrap();
    assert_eq!(reason.await.unwrap(), "a worker has ended by a defect");
}

/// Connections that are open may take their time, and not more.
#[actix::test]
async fn a_worker_ends_with_its_connections_or_the_grace_period() {
    for leaves in [true, false] {
        let grace = Duration::from_secs(if leaves { 600 } else { 0 });
        let (worker, stop) = echo(2, Duration::ZERO, grace);
        let (client, server) = pairs(1).pop().unwrap();
        worker.connections.send(server).await.unwrap();
        ask(&client);
        if leaves {
            let leaving = thread::spawn(move || {
                // It is served although the server stops.
                while !worker.connections.is_closed() {
                    thread::yield_now();
                }
                ask(&client);
                worker
            });
            stop.stop(true).await;
            let worker = leaving.join().unwrap();
            assert!(worker.connections.is_closed());
        } else {
            stop.stop(true).await;
            assert_eq!((&client).read(&mut [0]).unwrap(), 0);
            assert!(worker.connections.is_closed());
        }
    }
}
