#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use nearhead_actors::messages::StopHead;

use super::*;
use crate::config::{AdminListen, ConfigError, SourceKind};

fn start(config: Config) -> Result<Service, StartError> {
    Service::start(config, Box::new(|_| {}))
}

/// A dev chain that does not grow, on a free port.
fn config() -> Config {
    Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        admin_listen: AdminListen::At(SocketAddr::from(([127, 0, 0, 1], 0))),
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

fn newest_block(address: SocketAddr) -> String {
    let body =
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["latest",false]}"#;
    let length = body.len();
    let head = "POST /v3/dev HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json";
    http(
        address,
        &format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}"),
    )
    .1
}

fn ready(address: SocketAddr) -> String {
    http(
        address,
        "GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
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
    let first = start(config()).unwrap();
    let second = start(Config {
        seed: 2,
        ..config()
    })
    .unwrap();
    assert_eq!(
        second.url(),
        format!("http://{}", second.started.addresses.public)
    );
    let [one, other] = [&first, &second].map(|service| {
        let hash = service.head().load().unwrap().head().hash;
        let block = newest_block(service.started.addresses.public);
        assert!(block.contains(&format!(r#""hash":"{hash}""#)), "{block}");
        assert_eq!(ready(service.started.addresses.public), "HTTP/1.1 200 OK");
        hash
    });
    assert_ne!(one, other);
    let gone = first.started.addresses.public;
    first.stop().await;
    assert!(
        TcpStream::connect(gone).is_err(),
        "a stopped service does not listen"
    );
    assert_eq!(ready(second.started.addresses.public), "HTTP/1.1 200 OK");
    second.stop().await;
}

/// Dropping a service needs no runtime.
#[test]
fn dropping_a_service_stops_it() {
    let service = start(config()).unwrap();
    let address = service.started.addresses.public;
    drop(service);
    wait_until_refused(address);
}

#[actix::test]
async fn a_port_in_use_is_an_error_before_the_source_starts() {
    let service = start(config()).unwrap();
    let address = service.started.addresses.public;
    let config = Config {
        listen: address,
        ..config()
    };
    let report = |progress| panic!("the source started: {progress:?}");
    let error = Service::start(config, Box::new(report)).unwrap_err();
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
    let no_chain = Config {
        chain: None,
        ..files.clone()
    };
    let error = start(no_chain).unwrap_err();
    let missing = ConfigError::MissingFile { missing: "chain" };
    assert!(
        matches!(&error, StartError::Config(error) if *error == missing),
        "{error:?}"
    );
    let error = start(files).unwrap_err();
    assert!(
        error.to_string().starts_with("/no/such/genesis.json: "),
        "{error}"
    );
}

#[actix::test]
async fn the_end_of_the_head_tracker_is_a_failure() {
    let service = start(config()).unwrap();
    let address = service.started.addresses.public;
    service.started.tracker.send(StopHead).await.unwrap();
    assert_eq!(service.failed().await, "the head tracker is gone");
    wait_until_refused(address);
    service.stop().await;
}
