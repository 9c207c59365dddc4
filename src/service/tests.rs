#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use super::*;

/// A dev chain that grows only on request, on a free port.
fn config() -> Config {
    Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        block_time: Duration::ZERO,
        workers: 1,
        pool_threads: 1,
        ..Config::default()
    }
}

/// The status line and the body of one answer, on a connection of its own.
fn http(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

fn block_number(address: SocketAddr) -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#;
    let length = body.len();
    let head =
        "POST /v3/dev HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json";
    http(
        address,
        &format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}"),
    )
    .1
}

fn ready(address: SocketAddr) -> String {
    http(
        address,
        "GET /ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .0
}

/// Waits until the address refuses connections.
fn wait_until_refused(address: SocketAddr) {
    for _ in 0..60_000 {
        if TcpStream::connect(address).is_err() {
            return;
        }
        // The pause between two attempts; no test depends on its length.
        thread::park_timeout(Duration::from_millis(1));
    }
    panic!("{address} still listens");
}

#[actix::test]
async fn services_run_side_by_side_and_stop_independently() {
    let first = Service::start(config()).unwrap();
    let second = Service::start(Config {
        seed: 2,
        ..config()
    })
    .unwrap();
    assert_eq!(second.url(), format!("http://{}", second.local_addr()));
    assert_eq!(second.dev_step().await, Some(0));
    for (service, number) in [(&first, "0x7f"), (&second, "0x80")] {
        let expected = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{number}"}}"#);
        assert_eq!(block_number(service.local_addr()), expected);
        assert_eq!(ready(service.local_addr()), "HTTP/1.1 200 OK");
    }
    let gone = first.local_addr();
    first.stop().await;
    assert!(
        TcpStream::connect(gone).is_err(),
        "a stopped service does not listen"
    );
    assert_eq!(ready(second.local_addr()), "HTTP/1.1 200 OK");
    second.stop().await;
}

/// Dropping a service needs no runtime.
#[test]
fn dropping_a_service_stops_it() {
    let service = Service::start(config()).unwrap();
    let address = service.local_addr();
    drop(service);
    wait_until_refused(address);
}

#[actix::test]
async fn a_port_in_use_is_an_error_before_the_source_starts() {
    let service = Service::start(config()).unwrap();
    let address = service.local_addr();
    let config = Config {
        listen: address,
        ..config()
    };
    let report = |progress| panic!("the source started: {progress:?}");
    let error = Service::start_reporting(config, Box::new(report)).unwrap_err();
    assert!(matches!(error, StartError::Listen { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .starts_with(&format!("cannot listen on {address}: ")),
        "{error}"
    );
    service.stop().await;
}

#[test]
fn a_source_that_cannot_be_served_does_not_start() {
    let files = Config {
        source: SourceKind::Files,
        genesis: Some("/no/such/genesis.json".into()),
        chain: Some("/no/such/chain.rlp".into()),
        ..config()
    };
    let error = Service::start(files.clone()).unwrap_err();
    assert!(
        matches!(error, StartError::Config(ConfigError::NoKey { .. })),
        "{error:?}"
    );
    let api_keys = vec![crate::config::ApiKey::new("a", "a")];
    let error = Service::start(Config { api_keys, ..files }).unwrap_err();
    assert!(
        error.to_string().starts_with("/no/such/genesis.json: "),
        "{error}"
    );
}

#[actix::test]
async fn the_end_of_the_head_tracker_is_a_failure() {
    let service = Service::start(config()).unwrap();
    let address = service.local_addr();
    service.tracker().send(StopHead).await.unwrap();
    assert_eq!(service.failed().await, "the head tracker is gone");
    wait_until_refused(address);
    assert_eq!(service.dev_step().await, None);
    service.stop().await;
}

#[actix::test]
async fn reorgs_come_as_configured() {
    let config = Config {
        reorg_every: 4,
        reorg_depth: 3,
        ..config()
    };
    let service = Service::start(config).unwrap();
    let mut reverted = Vec::new();
    for _ in 0..10 {
        let before = service.head().load().unwrap();
        let count = service.dev_step().await.unwrap();
        let after = service.head().load().unwrap();
        assert_eq!(after.head().number(), before.head().number() + 1);
        assert_eq!(after.is_canonical(before.head()), count == 0);
        assert!(
            after.by_hash(&before.head().hash).is_some(),
            "replaced blocks stay readable"
        );
        reverted.push(count);
    }
    assert_eq!(
        reverted.iter().filter(|count| **count == 3).count(),
        2,
        "{reverted:?}"
    );
    service.stop().await;
}
