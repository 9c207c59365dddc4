//! One client, a proxy, and two processes of which one is behind.

use std::{
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

use serde_json::json;

use super::{LONG_WAIT, number, number_request, post, seen};
use crate::harness::{self, Connection, KEY, Server, check, wait_until};

/// Gives each new connection to the next of these addresses, until the test process ends.
fn round_robin(backends: [SocketAddr; 2]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (client, backend) in listener.incoming().zip(backends.iter().cycle()) {
            let (client, server) = (client.unwrap(), TcpStream::connect(backend).unwrap());
            for (from, to) in [(&client, &server), (&server, &client)] {
                let [mut from, mut to] = [from, to].map(|end| end.try_clone().unwrap());
                thread::spawn(move || {
                    // Either end may close first.
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

/// Reads of the client in each round: as many as there are processes.
const ROUNDS: usize = 6;

/// The oracle: the numbers of a client's answers never go down. Without the header they do.
#[test]
fn a_client_that_passes_on_what_it_saw_never_goes_back() {
    let chain = [&["--block-time", "300ms"][..], &LONG_WAIT].concat();
    let ahead = Server::start(&chain);
    let head = |server: &Server| number(&server.connect().result("eth_blockNumber", &json!([])));
    let first = head(&ahead);
    // The other one makes the same chain, a block or more later.
    wait_until("a block", || head(&ahead) > first);
    let behind = Server::start(&chain);
    let at = json!([format!("{first:#x}"), false]);
    let [one, other] = [&ahead, &behind].map(|server| {
        let mut connection = server.connect();
        wait_until("it has come as far", || head(server) >= first);
        connection.result("eth_getBlockByNumber", &at)["hash"].take()
    });
    check("both have one chain", &one, &other);
    let proxy = round_robin([ahead.address, behind.address]);
    let read = |min_block: Option<&str>| {
        let mut connection = Connection::open(proxy, &format!("/v3/{KEY}"));
        let response = match min_block {
            Some(min_block) => post(&mut connection, min_block, &number_request()),
            None => connection.post(number_request().to_string()),
        };
        check("status", &response.status, &200);
        let answer = harness::json(&response.body);
        let (_, named) = seen(&response);
        (number(&answer["result"]), named)
    };
    let went_back = |numbers: &[u64]| numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let plain: Vec<_> = (0..2 * ROUNDS).map(|_| read(None).0).collect();
    assert!(went_back(&plain) > 0, "nobody is behind: {plain:?}");
    let mut numbers = Vec::new();
    let mut last = None;
    for _ in 0..2 * ROUNDS {
        let (number, named) = read(last.as_deref());
        numbers.push(number);
        last = Some(named);
    }
    check("stale reads", &went_back(&numbers), &0);
    let reached = behind.metric(r#"nearhead_min_block_waits_total{outcome="reached"}"#);
    assert!(reached >= 1.0, "nothing waited: {numbers:?}");
}
