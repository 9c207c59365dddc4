//! One client, a proxy, and two processes of which one is behind.

use std::net::SocketAddr;

use serde_json::json;

use super::{LONG_WAIT, number_request, post, seen};
use crate::harness::{self, Connection, KEY, RoundRobin, Server, check, quantity, wait_until};

/// Two processes with one chain, of which the second gets each block later, behind a proxy.
struct Fleet {
    _ahead: Server,
    behind: Server,
    proxy: SocketAddr,
}

impl Fleet {
    fn start() -> Self {
        let chain = [&["--block-time", "300ms"][..], &LONG_WAIT].concat();
        let ahead = Server::start(&chain);
        let head =
            |server: &Server| quantity(&server.connect().result("eth_blockNumber", &json!([])));
        let first = head(&ahead);
        wait_until("a block", || head(&ahead) > first);
        let behind = Server::start(&chain);
        let at = json!([format!("{first:#x}"), false]);
        let [one, other] = [&ahead, &behind].map(|server| {
            wait_until("it has come as far", || head(server) >= first);
            let mut connection = server.connect();
            connection.result("eth_getBlockByNumber", &at)["hash"].take()
        });
        check("both have one chain", &one, &other);
        Self {
            proxy: RoundRobin::of(&[ahead.address, behind.address]).address,
            _ahead: ahead,
            behind,
        }
    }

    /// Requests that waited until their block came.
    fn waited(&self) -> f64 {
        let series = r#"nearhead_min_block_waits_total{outcome="reached"}"#;
        self.behind.metric(series)
    }
}

/// How often a number is below the one before.
pub(crate) fn went_back(numbers: &[u64]) -> usize {
    numbers.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

/// The oracle: the numbers of a client's answers never go down. Without the header they do.
#[test]
fn a_client_that_passes_on_what_it_saw_never_goes_back() {
    let fleet = Fleet::start();
    let read = |min_block: Option<&str>| {
        let mut connection = Connection::open(fleet.proxy, &format!("/v3/{KEY}"));
        let response = match min_block {
            Some(min_block) => post(&mut connection, min_block, &number_request()),
            None => connection.post(number_request().to_string()),
        };
        check("status", &response.status, &200);
        let answer = harness::json(&response.body);
        let (_, named) = seen(&response);
        (quantity(&answer["result"]), named)
    };
    let plain: Vec<_> = (0..12).map(|_| read(None).0).collect();
    assert!(went_back(&plain) > 0, "nobody is behind: {plain:?}");
    let mut numbers = Vec::new();
    let mut last = None;
    for _ in 0..12 {
        let (number, named) = read(last.as_deref());
        numbers.push(number);
        last = Some(named);
    }
    check("stale reads", &went_back(&numbers), &0);
    assert!(fleet.waited() >= 1.0, "nothing waited: {numbers:?}");
}

/// The examples of docs/min-block.md do not go back, and those that are changed to pass on nothing
/// do.
#[cfg(feature = "all-tests")]
#[test]
fn the_examples_of_the_documentation_never_go_back() {
    use super::examples::Example;

    let fleet = Fleet::start();
    let url = format!("http://{}/v3/{KEY}", fleet.proxy);
    for example in Example::all("min-block") {
        let waited = fleet.waited();
        let numbers = example.run(&url);
        check(example.library, &went_back(&numbers), &0);
        let has_waited = fleet.waited() > waited;
        assert!(has_waited, "{}: {numbers:?}", example.library);
        if let Some(plain) = example.without_min_block() {
            let numbers = plain.run(&url);
            assert!(went_back(&numbers) > 0, "{}: {numbers:?}", plain.library);
        }
    }
}
