//! geth as a process.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use nearhead_chain::{block::RawBlock, chain_file::write_block};

use crate::harness::{Connection, Process, installed};

/// A running geth.
pub(crate) struct Geth {
    /// The address of HTTP and WebSocket.
    pub(crate) address: SocketAddr,
    /// The data folder, which also has the engine API's secret.
    pub(crate) folder: PathBuf,
    /// Stops it when dropped.
    pub(crate) process: Process,
}

impl Geth {
    /// Imports the chain into an archive below `folder` and serves it; panics unless the whole
    /// chain is imported.
    pub(crate) fn start(folder: &Path, genesis: &Path, chain: &Path) -> Self {
        run(folder, &["init", genesis.to_str().unwrap()]);
        run(folder, &["import", chain.to_str().unwrap()]);
        Self::serve(folder)
    }

    /// The same as [`Self::start`] with these blocks.
    pub(crate) fn of_blocks(
        folder: &Path,
        genesis: &Path,
        blocks: impl IntoIterator<Item = RawBlock>,
    ) -> Self {
        let imported = folder.join("blocks.rlp");
        let mut file = File::create(&imported).unwrap();
        for raw in blocks {
            write_block(&mut file, &raw).unwrap();
        }
        Self::start(folder, genesis, &imported)
    }

    /// Serves the genesis; later blocks come over the engine API.
    pub(crate) fn at_genesis(folder: &Path, genesis: &Path) -> Self {
        run(folder, &["init", genesis.to_str().unwrap()]);
        Self::serve(folder)
    }

    /// Serves a chain in geth's dev mode, with a block every `period_seconds`.
    pub(crate) fn dev(folder: &Path, period_seconds: u64) -> Self {
        let period = period_seconds.to_string();
        Self::listen(folder, &["--dev", "--dev.period", &period], "dev,")
    }

    /// The same as [`Self::dev`] over this genesis, in which the account of geth's dev mode has to
    /// be rich.
    pub(crate) fn dev_at_genesis(folder: &Path, genesis: &Path, period_seconds: u64) -> Self {
        run(folder, &["init", genesis.to_str().unwrap()]);
        Self::dev(folder, period_seconds)
    }

    /// Serves the chain that a stopped geth left in `folder`.
    pub(crate) fn serve(folder: &Path) -> Self {
        Self::listen(folder, &["--syncmode", "full"], "")
    }

    fn listen(folder: &Path, arguments: &[&str], more_apis: &str) -> Self {
        let apis = format!("{more_apis}eth,net,web3,debug,testing");
        let process = Process::start(
            geth(folder, arguments)
                .args(["--port", "0", "--nodiscover", "--maxpeers", "0"])
                .args(["--nat", "none", "--ipcdisable"])
                .args(["--http", "--http.port", "0"])
                .args(["--http.api", &apis])
                // The same port as HTTP: both are given 0.
                .args(["--ws", "--ws.port", "0", "--ws.api", "eth,net,web3,debug"])
                .args(["--authrpc.port", "0", "--rpc.batch-request-limit", "0"])
                .args(["--rpc.batch-response-max-size", "0"]),
        );
        let address = listening(&process, "auth=false");
        Self {
            address,
            folder: folder.to_path_buf(),
            process,
        }
    }

    /// The address of the engine API, which geth's dev mode does not have.
    pub(super) fn engine(&self) -> SocketAddr {
        listening(&self.process, "auth=true")
    }

    /// Opens a connection for calls.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address, "/")
    }
}

/// The address in the log line of the server of this kind.
fn listening(process: &Process, kind: &str) -> SocketAddr {
    process.output.wait_for("geth's HTTP server", |text| {
        let is_logged = |line: &&str| line.contains("HTTP server started") && line.contains(kind);
        let (_, endpoint) = text.lines().find(is_logged)?.split_once("endpoint=")?;
        endpoint.split(' ').next()?.parse().ok()
    })
}

/// geth over the archive below `folder`.
fn geth(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(installed("tests/.tools/bin/geth"));
    // Archive mode with the hash scheme keeps the state of every block. With preimages
    // debug_accountRange names accounts and slots.
    command
        .args(["--datadir", folder.to_str().unwrap()])
        .args(["--state.scheme", "hash", "--gcmode", "archive"])
        .args(["--cache", "64", "--cache.preimages", "--verbosity", "3"])
        .args(arguments)
        .env("HOME", folder);
    command
}

/// Runs one of geth's commands to its end.
fn run(folder: &Path, step: &[&str]) {
    let (status, text) = Process::start(&mut geth(folder, step)).wait();
    assert!(status.success(), "geth {step:?}: {text}");
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Read},
        time::Duration,
    };

    use serde_json::json;

    use super::*;
    use crate::{
        harness::{PATIENCE, check, scratch, wait_until},
        upstreams::quantity,
        websocket::client::Client,
    };

    #[test]
    fn a_dev_chain_grows_and_takes_transactions() {
        let geth = Geth::dev(&scratch("upstreams-geth-dev"), 1);
        let mut connection = geth.connect();
        let account = connection.result("eth_accounts", &json!([]))[0].clone();
        let sent = json!([{"from": account, "to": account, "value": "0x1"}]);
        let hash = connection.result("eth_sendTransaction", &sent);
        // geth answers with an error until it has indexed its transactions.
        let receipt = |connection: &mut Connection| {
            connection.call("eth_getTransactionReceipt", &json!([hash]))["result"].take()
        };
        wait_until("the transaction", || {
            receipt(&mut connection)["status"] == "0x1"
        });
        let number = quantity(&receipt(&mut connection)["blockNumber"]);
        wait_until("a block after it", || {
            quantity(&connection.result("eth_blockNumber", &json!([]))) > number
        });

        // The same over a session.
        let mut session = Client::open(geth.address, "/");
        session.call("eth_subscribe", &json!(["newHeads"]));
        let head = session.notification()["result"].clone();
        assert!(quantity(&head["number"]) > number, "{head}");

        // Frozen, it accepts a connection and a request, and answers after it is thawed.
        geth.process.freeze();
        let mut frozen = geth.connect();
        let request = frozen.request(&[], br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#);
        frozen.send(&request);
        let mut stream = frozen.stream();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let nothing = stream.read(&mut [0]).unwrap_err().kind();
        check("frozen", &nothing, &ErrorKind::WouldBlock);
        geth.process.thaw();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        check("thawed", &stream.read(&mut [0]).unwrap(), &1);
    }
}
