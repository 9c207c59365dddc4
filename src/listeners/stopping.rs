//! The word that a server stops, and that its threads have.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

/// Stops the threads of a server. Dropping it stops them at once.
#[derive(Debug)]
pub(super) struct Stop {
    /// How long connections may still take when the server stops gracefully.
    grace: Duration,
    /// How long they may still take, once it stops.
    stopping: watch::Sender<Option<Duration>>,
    /// Closed once no thread serves any more.
    all_ended: mpsc::Receiver<()>,
}

/// Waits for the word that the server stops.
#[derive(Clone, Debug)]
pub(super) struct Stopping(watch::Receiver<Option<Duration>>);

/// Dropped when a thread serves no more.
#[derive(Clone, Debug)]
pub(super) struct Ended(#[expect(dead_code, reason = "it is dropped")] mpsc::Sender<()>);

/// Reports a thread of a server that ends before the server stops, such as by a panic.
pub(super) struct EndsUnexpectedly<F: FnOnce(String)> {
    thread: &'static str,
    failed: Option<F>,
}

impl<F: FnOnce(String)> EndsUnexpectedly<F> {
    /// Calls `failed` unless the thread may end.
    pub(super) const fn new(thread: &'static str, failed: F) -> Self {
        Self {
            thread,
            failed: Some(failed),
        }
    }

    /// The server stops, so the thread may end.
    pub(super) fn allow(mut self) {
        self.failed = None;
    }
}

impl<F: FnOnce(String)> Drop for EndsUnexpectedly<F> {
    fn drop(&mut self) {
        if let Some(failed) = self.failed.take() {
            failed(format!("{} has ended by a defect", self.thread));
        }
    }
}

impl Stop {
    pub(super) fn new(grace: Duration) -> (Self, Stopping, Ended) {
        let (sender, stopping) = watch::channel(None);
        let (ended, all_ended) = mpsc::channel(1);
        let this = Self {
            grace,
            stopping: sender,
            all_ended,
        };
        (this, Stopping(stopping), Ended(ended))
    }

    /// Stops the server: no connection is accepted any more. Those that are open may take their
    /// time if it stops gracefully.
    pub(super) async fn stop(mut self, graceful: bool) {
        let grace = if graceful { self.grace } else { Duration::ZERO };
        self.stopping.send_replace(Some(grace));
        // Nothing is sent: the channel is closed.
        let _ = self.all_ended.recv().await;
    }
}

impl Stopping {
    /// Returns how long connections may still take, once the server stops. If nobody is left who
    /// could stop it, that is no time.
    pub(super) async fn wait(&mut self) -> Duration {
        let grace = self.0.wait_for(Option::is_some).await;
        grace.map_or(None, |grace| *grace).unwrap_or_default()
    }
}
