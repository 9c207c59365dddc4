//! geth as a process.

use std::{net::SocketAddr, path::Path, process::Command};

use crate::harness::Process;

/// A running geth that has imported a chain.
pub(super) struct Geth {
    pub(super) address: SocketAddr,
    /// Stops it when dropped.
    _process: Process,
}

impl Geth {
    /// Imports the chain into an archive below `folder` and serves it; panics unless the whole chain was taken.
    pub(super) fn start(folder: &Path, genesis: &Path, chain: &Path) -> Self {
        let program = Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/.tools/bin/geth"
        ));
        assert!(
            program.is_file(),
            "{} is missing: run tests/setup",
            program.display()
        );
        let geth = |arguments: &[&str]| {
            let mut command = Command::new(program);
            // By hash and archive: the state of every block. Preimages: debug_accountRange names accounts and slots.
            command.args([
                "--datadir",
                folder.to_str().unwrap(),
                "--state.scheme",
                "hash",
                "--gcmode",
                "archive",
            ]);
            command.args([
                "--syncmode",
                "full",
                "--cache",
                "64",
                "--cache.preimages",
                "--verbosity",
                "3",
            ]);
            command.args(arguments).env("HOME", folder);
            command
        };
        for step in [
            ["init", genesis.to_str().unwrap()],
            ["import", chain.to_str().unwrap()],
        ] {
            let (status, text) = Process::start(&mut geth(&step)).wait();
            assert!(status.success(), "geth {step:?}: {text}");
        }
        let process = Process::start(
            geth(&[
                "--port",
                "0",
                "--nodiscover",
                "--maxpeers",
                "0",
                "--nat",
                "none",
                "--ipcdisable",
            ])
            .args([
                "--http",
                "--http.port",
                "0",
                "--http.api",
                "eth,net,web3,debug",
            ])
            .args(["--authrpc.port", "0", "--rpc.batch-request-limit", "0"])
            .args(["--rpc.batch-response-max-size", "0"]),
        );
        let address = process.output.wait_for("geth's HTTP server", |text| {
            let line = text
                .lines()
                .find(|line| line.contains("HTTP server started") && line.contains("auth=false"))?;
            line.split_once("endpoint=")?
                .1
                .split(' ')
                .next()?
                .parse()
                .ok()
        });
        Self {
            address,
            _process: process,
        }
    }
}
