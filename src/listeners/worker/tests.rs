#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    convert::Infallible,
    hint,
    io::{ErrorKind::WouldBlock, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    thread,
    time::Duration,
};

use actix_service::fn_service;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{super::stopping::Stop, *};
use crate::limits::TURNS_TIME_MAX;

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

/// A worker whose service takes `work` of its thread for each byte, and sends the byte back.
fn echo(slots: usize, work: Duration, grace: Duration) -> (WorkerHandle, Stop) {
    let (stop, stopping, ended) = Stop::new(grace);
    let parts = WorkerParts {
        slots,
        took: Arc::default(),
        stopping,
        ended,
    };
    let factory = move || {
        fn_service(move |mut stream: TcpStream| async move {
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
            Ok::<(), Infallible>(())
        })
    };
    let handle = start(factory, parts, |reason| panic!("{reason}")).unwrap();
    (handle, stop)
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
    ask(&clients[0]);
    ask(&clients[1]);
    let [first, _second, third] = clients.try_into().unwrap();
    third.set_nonblocking(true).unwrap();
    (&third).write_all(&[1]).unwrap();
    assert_eq!((&third).read(&mut [0]).unwrap_err().kind(), WouldBlock);
    third.set_nonblocking(false).unwrap();
    drop(first);
    (&third).read_exact(&mut [0]).unwrap();
    stop.stop(false).await;
}

/// While its connections keep a worker busy, it takes no other, and says so; then it takes them.
#[actix::test]
async fn a_worker_that_is_overloaded_takes_no_connection() {
    // A turn with four of them is too long.
    let (worker, stop) = echo(100, TURNS_TIME_MAX / 2, Duration::ZERO);
    let busy: Vec<_> = pairs(4)
        .into_iter()
        .map(|(client, server)| {
            worker.connections.try_send(server).unwrap();
            let ended = Arc::new(AtomicBool::new(false));
            let ends = Arc::clone(&ended);
            let asking = thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    ask(&client);
                }
            });
            (ended, asking)
        })
        .collect();
    // Connections that ask for nothing.
    let mut idle = Vec::new();
    while !worker.is_overloaded.load(Ordering::Relaxed) {
        let (client, server) = pairs(1).pop().unwrap();
        // Once its queue is full, it has enough to measure.
        if worker.connections.try_send(server).is_ok() {
            idle.push(client);
        }
        task::yield_now().await;
    }
    for (ended, asking) in busy {
        ended.store(true, Ordering::Relaxed);
        asking.join().unwrap();
    }
    while worker.is_overloaded.load(Ordering::Relaxed) {
        task::yield_now().await;
    }
    ask(idle.last().unwrap());
    stop.stop(false).await;
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
            thread::spawn(move || drop(client));
            stop.stop(true).await;
        } else {
            stop.stop(true).await;
            assert_eq!((&client).read(&mut [0]).unwrap(), 0);
        }
        assert!(worker.connections.is_closed());
    }
}
