//! The genesis of geth's dev mode, with what a test adds to it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use alloy_primitives::Address;
use serde_json::{Value, json};

use super::quantity;
use crate::harness::installed;

/// A genesis that geth can be started with.
pub(crate) struct Genesis(Value);

impl Genesis {
    /// That of geth's dev mode, with no account but contracts of the protocol.
    pub(crate) fn of_dev_mode(folder: &Path) -> Self {
        let mut command = Command::new(installed("tests/.tools/bin/geth"));
        let command = command.args(["--dev", "dumpgenesis"]).env("HOME", folder);
        Self(serde_json::from_slice(&command.output().unwrap().stdout).unwrap())
    }

    /// Adds an account, as it is written in a genesis.
    pub(crate) fn add(&mut self, address: Address, account: Value) {
        self.0["alloc"][format!("{address:x}")] = account;
    }

    /// Adds an account with much ether.
    pub(crate) fn add_rich(&mut self, address: Address) {
        self.add(
            address,
            json!({"balance": "0xffffffffffffffffffffffffffff"}),
        );
    }

    /// Makes Amsterdam begin at this timestamp, with Osaka's blobs.
    pub(crate) fn begin_amsterdam(&mut self, timestamp: u64) {
        let config = &mut self.0["config"];
        config["amsterdamTime"] = json!(timestamp);
        config["blobSchedule"]["amsterdam"] = config["blobSchedule"]["osaka"].clone();
    }

    pub(crate) fn timestamp(&self) -> u64 {
        quantity(&self.0["timestamp"])
    }

    pub(crate) fn chain_id(&self) -> u64 {
        self.0["config"]["chainId"].as_u64().unwrap()
    }

    /// Writes it to a file in this folder.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        let file = folder.join("genesis.json");
        fs::write(&file, self.0.to_string()).unwrap();
        file
    }
}
