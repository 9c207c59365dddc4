#![allow(clippy::unwrap_used)]

use std::{
    future::poll_fn,
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Waker},
};

use nearhead_actors::{admission::ReplyBudget, share::Share};
use nearhead_tenants::id::TenantId;
use tokio::task::yield_now;

use super::*;
use crate::connections::socket_pair;

/// Ticks `ticks` times, and returns whether the last tick, and none before it, cut the
/// connection.
fn is_cut_after(ticks: Tick, watch: &Watch, client: &mut TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    let mut is_open =
        || matches!(client.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
    for _ in 1..ticks {
        watch.tick();
        assert!(is_open(), "cut too early");
    }
    watch.tick();
    !is_open()
}

fn limits(idle_max: Tick) -> WatchLimits {
    WatchLimits {
        idle_max: Duration::from_secs(idle_max.into()),
        slots: SlotLimits::NONE,
    }
}

fn watch(idle_max: Tick) -> Rc<Watch> {
    let metrics = Metrics::new([]).unwrap();
    Rc::new(Watch::new(
        limits(idle_max),
        ListenerKind::Public,
        SharedWatch::default(),
        &metrics,
        Rc::default(),
    ))
}

#[test]
fn requests_are_counted_when_they_begin() {
    let (_client, server) = socket_pair();
    let connection = Rc::new(Connection::of(server.as_raw_fd()));
    let watch = watch(3);
    for begun in 0..3 {
        assert_eq!(watch.requests_begun(), begun);
        drop(watch.answering(&connection));
    }
}

#[actix::test]
async fn newcomers_wait_until_they_take_the_first_part_of_a_reply() {
    let watch = watch(3);
    let waiting = || watch.newcomers().waiting();
    let [first, second] = [(); 2].map(|()| connect(&watch, None));
    assert_eq!(waiting(), 2, "no request has come");
    let answering = watch.answering(&first.1);
    assert_eq!(waiting(), 2);
    drop(second);
    assert_eq!(waiting(), 1);
    answering.took();
    answering.took();
    assert_eq!(waiting(), 0);
    drop(answering);
    assert_eq!(waiting(), 0);
    // A cheap request may come before a dear one.
    let failed = watch.answering(&first.1);
    assert_eq!(waiting(), 1);
    drop(failed);
    assert_eq!(waiting(), 0);
    let session = watch.answering(&first.1);
    assert_eq!(waiting(), 1);
    session.becomes_session();
    assert_eq!(waiting(), 0);
}

#[test]
fn slow_clients_are_cut_off() {
    let (mut client, server) = socket_pair();
    let connection = Rc::new(Connection::of(server.as_raw_fd()));
    let watch = watch(3);
    let answering = watch.answering(&connection);
    (0..100).for_each(|_| watch.tick());
    // Each part that is taken starts the time again; the second in which it was taken does not
    // count.
    for _ in 0..3 {
        answering.took();
        (0..WRITING_MAX).for_each(|_| watch.tick());
    }
    drop(answering);
    assert!(
        is_cut_after(3 + 1, &watch, &mut client),
        "sends its request too slowly"
    );

    let (mut client, server) = socket_pair();
    let connection = Rc::new(Connection::of(server.as_raw_fd()));
    watch.answering(&connection).took();
    let answering = watch.answering(&connection);
    answering.took();
    assert!(
        is_cut_after(WRITING_MAX + 1, &watch, &mut client),
        "reads too slowly"
    );
    assert_eq!(watch.metrics.slow_clients.get(), 2);
}

/// However many are overdue, what else waits on their worker has its turns in between.
#[actix::test]
async fn many_slow_clients_are_cut_off_in_turns() {
    let watch = watch(60);
    let mut clients: Vec<_> = (0..3 * CUT_MAX).map(|_| connect(&watch, None)).collect();
    let answering = clients.iter().map(|(_, it)| watch.answering(it));
    let answering: Vec<_> = answering.collect();
    answering.iter().for_each(Answering::took);
    for _ in 0..WRITING_MAX {
        watch.tick();
        assert!(!watch.has_more_to_cut());
    }
    watch.tick();
    assert!(watch.has_more_to_cut());
    let mut open = || -> Vec<usize> {
        let open = clients.iter_mut().enumerate();
        open.filter_map(|(at, (client, _))| is_open(client).then_some(at))
            .collect()
    };
    assert_eq!(open(), Vec::from_iter(CUT_MAX..3 * CUT_MAX));
    // This one goes on in time, and is watched as before.
    answering[CUT_MAX].took();
    let mut rest = Box::pin(Watch::cut_rest(Rc::downgrade(&watch)));
    let mut left = Vec::new();
    poll_fn(|cx| {
        left.push(open().len());
        rest.as_mut().poll(cx)
    })
    .await;
    left.push(open().len());
    assert_eq!(left, [2 * CUT_MAX, CUT_MAX + 1, 1, 1]);
    assert_eq!(open(), [CUT_MAX]);
    assert_eq!(watch.metrics.slow_clients.get(), 3 * CUT_MAX as u64 - 1);
    for _ in 0..=WRITING_MAX {
        assert_eq!(open().len(), 1);
        watch.tick();
    }
    assert_eq!(open(), Vec::<usize>::new());
}

/// More than are cut in a turn. Each has had an answer.
fn idle_clients(watch: &Rc<Watch>) -> Vec<(TcpStream, Rc<Connection>)> {
    let clients: Vec<_> = (0..3 * CUT_MAX).map(|_| connect(watch, None)).collect();
    let connections = clients.iter().map(|(_, connection)| connection);
    connections.for_each(|connection| drop(watch.answering(connection)));
    clients
}

/// Turns may be long on a busy machine.
#[actix::test]
async fn slow_clients_that_are_left_after_a_second_are_cut_off_at_once() {
    let watch = watch(1);
    let clients = idle_clients(&watch);
    let cut = || watch.metrics.slow_clients.get();
    while cut() == 0 {
        watch.tick();
    }
    assert_eq!(cut(), CUT_MAX as u64);
    watch.tick();
    assert_eq!(cut(), clients.len() as u64);
}

/// The last ones are cut long before the next second.
#[actix::test]
async fn a_watch_cuts_off_all_slow_clients_once_it_has_begun() {
    tokio::time::pause();
    let metrics = Metrics::new([]).unwrap();
    let shared = SharedWatch::default();
    let watch = Watch::start(limits(1), ListenerKind::Public, shared, &metrics);
    let clients = idle_clients(&watch);
    for _ in 0..10 {
        if metrics.slow_clients.get() == 0 {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }
    for _ in 0..100 {
        yield_now().await;
    }
    assert_eq!(metrics.slow_clients.get(), clients.len() as u64);
}

#[actix::test]
async fn a_reply_that_others_need_ends_with_its_connection_unless_it_is_sent() {
    for (is_read, passed_on, is_cut) in [
        (false, false, true),
        (true, false, true),
        (false, true, true),
        (true, true, false),
    ] {
        let (mut client, mut server) = socket_pair();
        server.set_nonblocking(true).unwrap();
        let budget = ReplyBudget::new(100);
        let evictions = Evictions::start();
        let socket = server.as_raw_fd();
        let connection = Rc::new(Connection::evicted_by(socket, evictions.clone()));
        let metrics = Metrics::new([]).unwrap();
        let watch = Watch::new(
            limits(60),
            ListenerKind::Public,
            SharedWatch::default(),
            &metrics,
            evictions,
        );
        let answering = Rc::new(watch).answering(&connection);
        let written: usize = std::iter::from_fn(|| server.write(&[0; 1 << 16]).ok()).sum();
        let charge = budget.charge(Share::default(), 90, Instant::now()).unwrap();
        let mut reply = Some(answering.holds(charge));
        if passed_on {
            answering.keep_until_sent(reply.take().unwrap());
        }
        if is_read {
            client.read_exact(&mut vec![0; written]).unwrap();
            while !ConnectionHandle::new(&connection).is_writable() {
                std::hint::spin_loop();
            }
        }
        // Another tenant is within its share.
        let other = budget.charge(Share::default(), 50, Instant::now());
        assert!(other.is_ok());
        let case = format!("read: {is_read}, passed on: {passed_on}");
        let is_ended = || match is_cut {
            true => matches!(server.peek(&mut [0]), Ok(0)),
            false => connection.unsent_reply().is_none(),
        };
        while !is_ended() {
            yield_now().await;
        }
        let is_open = !matches!(server.peek(&mut [0]), Ok(0));
        assert_eq!(is_open, !is_cut, "{case}");
    }
}

/// The client's side of a new connection that has a slot, and the connection.
fn connect(watch: &Rc<Watch>, network: Option<IpAddr>) -> (TcpStream, Rc<Connection>) {
    let (client, server) = socket_pair();
    server.set_nonblocking(true).unwrap();
    let stream = actix_web::rt::net::TcpStream::from_std(server).unwrap();
    let connection = watch.connect(&stream, network);
    // The test holds the connection for longer than actix would hold the stream.
    std::mem::forget(stream);
    (client, connection)
}

fn is_open(client: &mut TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    matches!(client.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

fn watch_of(slots: SlotLimits) -> (Rc<Watch>, crate::metrics::ListenerMetrics) {
    sharing_watch_of(slots, &SharedWatch::default())
}

fn sharing_watch_of(
    slots: SlotLimits,
    shared: &SharedWatch,
) -> (Rc<Watch>, crate::metrics::ListenerMetrics) {
    let metrics = Metrics::new([]).unwrap();
    let limits = WatchLimits {
        idle_max: Duration::from_secs(60),
        slots,
    };
    let watch = Rc::new(Watch::new(
        limits,
        ListenerKind::Public,
        shared.clone(),
        &metrics,
        Rc::default(),
    ));
    (watch, metrics.of_listener(ListenerKind::Public))
}

#[actix::test]
async fn strangers_are_evicted_when_slots_run_out_whatever_they_request() {
    let (watch, open) = watch_of(SlotLimits {
        slots: 4,
        strangers_per_network: 2,
    });
    let counts = || (open.strangers.get(), open.accepted.get());
    let (mut holder, held) = connect(&watch, None);
    (0..2).for_each(|_| held.accepted());
    let (mut first, first_held) = connect(&watch, None);
    let (mut second, second_held) = connect(&watch, None);
    assert_eq!(counts(), (2, 1));
    // A request without a key does not prolong its stay.
    drop(watch.answering(&first_held));
    let (mut third, third_held) = connect(&watch, None);
    assert_eq!(counts(), (2, 1));
    let open = [&mut holder, &mut first, &mut second, &mut third].map(is_open);
    assert_eq!(open, [true, false, true, true]);
    // There are as many as may be, and one of them has to leave after a second, besides the one
    // in which it connected. One whose request is answered has its own bounds.
    let answering = watch.answering(&second_held);
    for _ in 0..2 {
        watch.tick();
    }
    let open = [&mut holder, &mut second, &mut third].map(is_open);
    assert_eq!(open, [true, true, false]);
    // The last one may stay.
    drop(answering);
    for _ in 0..20 {
        watch.tick();
    }
    assert!(is_open(&mut second));
    drop((third_held, first_held));
    assert_eq!(counts(), (1, 1));
    drop(held);
    assert_eq!(counts(), (1, 0));
}

#[actix::test]
async fn an_idle_connection_of_a_key_is_evicted_for_the_last_slot_and_a_session_is_not() {
    let (watch, counts) = watch_of(SlotLimits {
        slots: 4,
        strangers_per_network: 4,
    });
    let tenant = TenantId::of_configured("one");
    let mut clients: Vec<_> = (0..3).map(|_| connect(&watch, None)).collect();
    for (at, (_, connection)) in clients.iter().enumerate() {
        let answering = watch.answering(connection);
        connection.accepted_key_of(tenant);
        if at == 0 {
            answering.becomes_session();
        }
    }
    let open = |clients: &mut Vec<(TcpStream, Rc<Connection>)>| -> Vec<bool> {
        let clients = clients.iter_mut();
        clients.map(|(client, _)| is_open(client)).collect()
    };
    // None has been idle for a second.
    watch.tick();
    clients.push(connect(&watch, None));
    assert_eq!(open(&mut clients), [true; 4]);
    let answering = watch.answering(&clients[1].1);
    watch.tick();
    assert_eq!(open(&mut clients), [true, true, false, true]);
    assert_eq!(counts.idle_evicted.get(), 1);
    assert_eq!((counts.strangers.get(), counts.accepted.get()), (1, 2));
    // The key is refused, and the connection is evicted as a stranger's.
    drop(answering);
    clients[1].1.refused();
    assert_eq!((counts.strangers.get(), counts.accepted.get()), (2, 1));
    clients[1].1.accepted_key_of(tenant);
    clients[1].1.refused();
    clients.push(connect(&watch, None));
    clients.push(connect(&watch, None));
    let expected = [true, false, false, false, true, true];
    assert_eq!(open(&mut clients), expected);
    assert_eq!((counts.strangers.get(), counts.accepted.get()), (2, 1));
    assert_eq!(counts.idle_evicted.get(), 1);
}

/// Only where nobody else is kept out for it does the wait of large replies count.
#[actix::test]
async fn replies_of_one_tenant_among_others_wait_unseen() {
    let (watch, _) = watch_of(SlotLimits {
        slots: 100,
        strangers_per_network: 100,
    });
    let (_one, first) = connect(&watch, None);
    first.accepted_key_of(TenantId::of_configured("one"));
    let mut cx = Context::from_waker(Waker::noop());
    let mut replies = [(); 2].map(|()| watch.reply_turns().reply(Share::default()));
    replies[0].took(Duration::from_secs(1));
    assert!(replies[1].poll(&mut cx, 1).is_pending());
    while watch.work_wait().is_zero() {}
    let (_other, second) = connect(&watch, None);
    assert!(!watch.work_wait().is_zero(), "a stranger");
    second.accepted_key_of(TenantId::of_configured("other"));
    assert!(watch.work_wait().is_zero());
    drop(second);
    assert!(!watch.work_wait().is_zero());
    drop(replies);
    assert!(watch.work_wait().is_zero());
}

/// All workers have the same pool, so a tenant on any of them waits unseen.
#[actix::test]
async fn queries_of_one_tenant_among_others_of_any_worker_wait_unseen() {
    let slots = SlotLimits {
        slots: 100,
        strangers_per_network: 100,
    };
    let is_busy = Arc::new(AtomicBool::new(true));
    let pool = Arc::clone(&is_busy);
    let wait = move |_| Duration::from_secs(pool.load(Ordering::Relaxed).into());
    let shared = SharedWatch::default().with_pool(PoolWait::new(wait));
    let watches = [(); 2].map(|()| sharing_watch_of(slots, &shared).0);
    let waits = || watches.each_ref().map(|watch| !watch.work_wait().is_zero());
    let mut tenants = Vec::new();
    for watch in &watches {
        tenants.push(connect(watch, None));
        tenants
            .last()
            .unwrap()
            .1
            .accepted_key_of(TenantId::of_configured("one"));
    }
    assert_eq!(waits(), [true; 2]);
    let (_other, of_other) = connect(&watches[1], None);
    of_other.accepted_key_of(TenantId::of_configured("other"));
    assert_eq!(waits(), [false; 2]);
    // Who has a connection on one worker still has one on another.
    drop(tenants.pop());
    assert_eq!(waits(), [false; 2]);
    drop(of_other);
    assert_eq!(waits(), [true; 2]);
    is_busy.store(false, Ordering::Relaxed);
    assert_eq!(waits(), [false; 2]);
}

#[actix::test]
async fn a_network_displaces_its_own_strangers_alone() {
    let (watch, _) = watch_of(SlotLimits {
        slots: 100,
        strangers_per_network: 2,
    });
    let network = |text: &str| Some(crate::access::network_of(text.parse().unwrap()));
    let (mut other, _other) = connect(&watch, network("2001:db8:0:1::1"));
    let (mut uncounted, _uncounted) = connect(&watch, None);
    // All of one /64.
    let addresses = ["2001:db8::1", "2001:db8::2", "2001:db8::3:4:5:6"];
    let mut clients = addresses.map(|address| connect(&watch, network(address)));
    let open = clients.each_mut().map(|(client, _)| is_open(client));
    assert_eq!(open, [false, true, true]);
    assert!(is_open(&mut other) && is_open(&mut uncounted));
    // One that has a key is not counted.
    clients[1].1.accepted();
    let (mut next, _next) = connect(&watch, network("2001:db8::7"));
    let open = clients.each_mut().map(|(client, _)| is_open(client));
    assert_eq!(open, [false, true, true]);
    assert!(is_open(&mut next));
}

#[test]
fn a_reply_is_held_until_the_kernel_has_its_last_bytes() {
    let (mut client, mut server) = socket_pair();
    server.set_nonblocking(true).unwrap();
    let budget = ReplyBudget::new(100);
    let connection = Rc::new(Connection::of(server.as_raw_fd()));
    let watch = watch(60);
    let hold = || {
        let answering = watch.answering(&connection);
        let charge = budget.charge(Share::default(), 7, Instant::now()).unwrap();
        let reply = answering.holds(charge);
        answering.keep_until_sent(reply);
    };
    hold();
    watch.tick();
    assert_eq!(budget.usage().used, 0, "the socket takes more");
    while server.write(&[0; 1 << 16]).is_ok() {}
    hold();
    assert_eq!(connection.idle_since(), None);
    for _ in 0..WRITING_MAX {
        watch.tick();
    }
    assert_eq!(budget.usage().used, 7);
    assert!(is_cut_after(1, &watch, &mut client), "it reads nothing");
}

#[test]
fn a_client_that_left_is_cut_off_and_a_dropped_connection_is_forgotten() {
    let (client, server) = socket_pair();
    let connection = Rc::new(Connection::of(server.as_raw_fd()));
    let watch = watch(3);
    let _answering = watch.answering(&connection);
    client.shutdown(Shutdown::Write).unwrap();
    let mut client = client;
    assert!(is_cut_after(2, &watch, &mut client));
    let other = Rc::new(Connection::of(server.as_raw_fd()));
    drop(watch.answering(&other));
    assert_eq!(watch.connections.borrow().len(), 1);
    drop(other);
    watch.tick();
    assert!(watch.connections.borrow().is_empty());
}
