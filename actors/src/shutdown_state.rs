//! How far the service has shut down.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// How far the service has shut down, for all of its threads to see: it is not ready any more, and
/// later its sessions end.
#[derive(Debug, Default)]
pub struct ShutdownState {
    has_begun: AtomicBool,
    sessions_end: OnceLock<Instant>,
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
        // Another end was said before: it stays.
        let _ = self.sessions_end.set(last);
    }

    /// When the last session is to be asked to end, once sessions end.
    #[must_use]
    pub fn sessions_end(&self) -> Option<Instant> {
        self.sessions_end.get().copied()
    }
}
