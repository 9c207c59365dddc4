//! How far the service has shut down.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use tokio::sync::watch;

/// How far the service has shut down, for all of its threads to see: it is not ready any more, and
/// later its sessions end.
#[derive(Debug, Default)]
pub struct ShutdownState {
    has_begun: AtomicBool,
    sessions_end: watch::Sender<Option<Instant>>,
}

impl ShutdownState {
    /// The service is not ready any more, and goes on serving.
    pub fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Whether the service is not ready any more.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// No session begins any more, and the last one is to be asked to end at `last`, or earlier.
    pub fn end_sessions(&self, last: Instant) {
        self.begin();
        self.sessions_end.send_if_modified(|end| {
            let is_first = end.is_none();
            // Another end that was said before stays.
            end.get_or_insert(last);
            is_first
        });
    }

    /// When the last session is to be asked to end, once sessions end.
    #[must_use]
    pub fn sessions_end(&self) -> Option<Instant> {
        *self.sessions_end.borrow()
    }

    /// Waits until sessions end: what waits for something else then has to leave.
    pub async fn sessions_ended(&self) {
        // It fails if the sender is dropped, which is borrowed here.
        let _ = self
            .sessions_end
            .subscribe()
            .wait_for(Option::is_some)
            .await;
    }
}
