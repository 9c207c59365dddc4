//! Names of servers, and name servers that hang.

use std::{
    io,
    net::IpAddr,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use futures_util::{FutureExt as _, future::join_all};
use parking_lot::Mutex;
use tokio::{runtime::Builder, task};

use crate::fleet::store::{
    StoreOptions,
    connect::Connector,
    fake_server::{FakeServer, NIL, list},
    resolver::Resolver,
};

/// Held while a name server hangs.
static HANGS: Mutex<()> = Mutex::new(());
static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// A name server that hangs keeps neither callers waiting nor the threads for other work, and gets
/// one thread, however often it is asked.
#[test]
fn a_name_server_that_hangs_stops_nothing_else() {
    // As the runtime that verifies blocks, on a machine without cores to spare.
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let hanging = Resolver::of(|_, port| {
        LOOKUPS.fetch_add(1, Ordering::Relaxed);
        assert_eq!(thread::current().name(), Some("fleet-names"));
        drop(HANGS.lock());
        Ok(vec![([127, 0, 0, 1], port).into()])
    });
    let hangs = HANGS.lock();
    let (_server, connector) = runtime.block_on(async {
        let server = FakeServer::start(async |_| list(&[NIL.to_vec()])).await;
        let url = format!("redis://redis.example.org:{}", server.port);
        let options = StoreOptions {
            urls: vec![url.parse().unwrap()],
            ..server.options()
        };
        let connector = Connector::with(&options, hanging).unwrap();
        let calls = (0..5).map(|_| connector.connect());
        for end in join_all(calls).await {
            let error = end.map(drop).unwrap_err();
            assert_eq!(error.fault().label(), "timeout");
            // Blocks are verified by such work.
            assert_eq!(task::spawn_blocking(|| 7).await.unwrap(), 7);
        }
        (server, connector)
    });
    drop(hangs);
    assert!(runtime.block_on(connector.connect()).is_ok());
    // Nobody waited for the others any more.
    assert_eq!(LOOKUPS.load(Ordering::Relaxed), 2);
}

/// Lookups that wait have a bound. Addresses need none.
#[tokio::test]
async fn lookups_are_bounded_and_addresses_need_none() {
    let never = Resolver::of(|_, _| {
        loop {
            thread::park();
        }
    });
    let mut waiting = Vec::new();
    let refusal = loop {
        let mut lookup = Box::pin(never.addresses("redis.example.org", 1));
        match lookup.as_mut().now_or_never() {
            Some(end) => break end,
            None => waiting.push(lookup),
        }
        assert!(waiting.len() < 100);
    };
    assert_eq!(refusal.unwrap_err().kind(), io::ErrorKind::Other);
    for host in ["127.0.0.1", "::1"] {
        let addresses = never.addresses(host, 1).await.unwrap();
        assert_eq!(addresses, [(host.parse::<IpAddr>().unwrap(), 1).into()]);
    }
}
