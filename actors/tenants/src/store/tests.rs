//! What every store has to do, and what may happen to one on disk.
//!
//! | file | what is tested |
//! |---|---|
//! | `model` | both stores against a directory in memory, with reopening |
//! | `usage` | what workers count, merged, flushed, expired and asked for, against a list of events |
//! | `audit` | pages, and what is no longer kept |
//! | `start` | files that are damaged, newer, foreign, in use or not writable |
//! | `full` | no space, and errors of the disk |
//! | `kill` | the end of the process by force |
#![expect(clippy::unwrap_used, reason = "tests")]

mod audit;
#[path = "../../../chain/src/campaign.rs"]
#[allow(unreachable_pub, reason = "public for the package that has it")]
mod campaign;
mod full;
mod kill;
mod model;
mod start;
mod usage;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use self::campaign::rounds;
use super::{
    checks::{CheckedStore, Random, records, steps},
    *,
};

/// A folder of this process and test; dropping the value removes it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("nearhead-store-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(&self.0)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const RECORDS: &str = "tenants.sqlite";
const USAGE: &str = "usage.sqlite";

/// Names the folder for a test that runs in a process of its own.
const FOLDER_OF_CHILD: &str = "NEARHEAD_STORE_TEST_FOLDER";

/// The folder, if this is such a process.
#[expect(
    clippy::disallowed_methods,
    reason = "what the parent says to its child"
)]
fn folder_of_child() -> Option<PathBuf> {
    std::env::var_os(FOLDER_OF_CHILD).map(PathBuf::from)
}

/// Arguments by which this program runs one test, and shows what it prints.
fn arguments(test: &str) -> [String; 4] {
    let path = module_path!().split_once("::").unwrap().1;
    let test = format!("{path}::{test}");
    [
        test,
        "--exact".into(),
        "--nocapture".into(),
        "--test-threads=1".into(),
    ]
}

/// Runs one test of this program in a process of its own.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments(test)).env(FOLDER_OF_CHILD, folder);
    command
}
