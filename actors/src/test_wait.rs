//! Polling, for tests.

use std::{thread, time::Duration};

/// Polls `state` until it holds; panics after a minute.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut state: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if state() {
            return;
        }
        // The pause between two polls; no test depends on its length.
        thread::park_timeout(Duration::from_millis(1));
    }
    panic!("timed out waiting for: {what}");
}
