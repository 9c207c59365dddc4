//! The tools of the integration tests: the program as a child process, a raw HTTP client, strict
//! JSON.

#[cfg(feature = "all-tests")]
pub(crate) mod failing_disk;
mod http;
#[cfg(feature = "all-tests")]
mod pair;
mod process;
mod round_robin;
mod strict_json;
#[cfg(feature = "all-tests")]
mod threads;
mod unused_port;

use std::{
    fmt::Debug,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub(crate) use self::{
    http::{Connection, Response},
    process::{Process, Server, get, nearhead, printed, run_with_input, serving},
    round_robin::RoundRobin,
    strict_json::json,
    unused_port::UnusedPort,
};
#[cfg(feature = "all-tests")]
pub(crate) use self::{
    pair::{BATCH_CALLS_MAX, Pair},
    process::{after, keep_data_in_scratch, run_by},
    round_robin::ANSWERED_BY,
    threads::usual_niceness_and,
};

/// The timeout of every wait. It turns a hang into a failure; no test measures with it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The API key of test servers.
pub(crate) const KEY: &str = "integration-test-key";

/// Methods that only a session answers; `websocket::subscriptions` covers them.
pub(crate) const SESSION_METHODS: [&str; 2] = ["eth_subscribe", "eth_unsubscribe"];

/// The folder of the execution-apis vectors and their chain, which `tests/setup vectors` installs.
#[cfg(feature = "all-tests")]
pub(crate) fn vectors() -> PathBuf {
    let folder = installed("tests/.tools/vectors");
    assert!(
        folder.join("chain.rlp").is_file(),
        "{} has no chain.rlp: run tests/setup vectors",
        folder.display()
    );
    folder
}

/// A JSON-RPC request.
pub(crate) fn request(id: usize, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// The path of a file that is committed or that tests/setup installs; panics if it is missing.
#[cfg(feature = "all-tests")]
pub(crate) fn installed(path: impl AsRef<Path>) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert!(
        path.exists(),
        "{} is missing: run tests/setup",
        path.display()
    );
    path
}

/// An empty folder of this name under the build directory.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The pause between two polls of a state, which grows while it is waited for: to look costs time
/// that what is waited for needs. No test depends on its length.
const POLL_PAUSE_MIN: Duration = Duration::from_millis(2);
pub(crate) const POLL_PAUSE_MAX: Duration = Duration::from_millis(25);

/// Asserts that `actual` equals `expected`; the failure names the case.
#[track_caller]
pub(crate) fn check<T: PartialEq + Debug>(case: &str, actual: &T, expected: &T) {
    assert!(
        actual == expected,
        "{case}\n expected: {expected:?}\n   actual: {actual:?}"
    );
}

/// Polls `state` until it returns true; panics after [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_until(what: &str, mut state: impl FnMut() -> bool) {
    let began = Instant::now();
    while !state() {
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "timed out waiting for: {what}");
        std::thread::park_timeout((waited / 16).clamp(POLL_PAUSE_MIN, POLL_PAUSE_MAX));
    }
}

/// Decodes a quantity of at most 64 bits.
#[track_caller]
pub(crate) fn quantity(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let digits = digits.unwrap_or_else(|| panic!("not a quantity: {value}"));
    u64::from_str_radix(digits, 16).unwrap()
}

/// Code that counts from `rounds` down to 0, at 26 gas each, and goes on with `rest`.
pub(crate) fn count_down(rounds: u32, rest: &str) -> String {
    format!("0x63{rounds:08x}5b6001900380600557{rest}")
}
