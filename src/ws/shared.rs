//! What all sessions of a worker share.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use bytes::Bytes;

use super::frame::{self, Opcode};
use crate::{connections::Tick, metrics::Metrics, tenants::UsageMeter};

/// The clock, the bounds and the metrics of a worker's sessions.
pub(super) struct SessionsShared {
    now: Cell<Tick>,
    /// Bytes that may wait for one session.
    pub(super) budget: usize,
    /// Longest time that a message may take to arrive.
    pub(super) message_max: Tick,
    pub(super) metrics: Metrics,
    pub(super) usage: UsageMeter,
    /// The payload length that was last asked for, and the header of a text frame of that length.
    text_header: RefCell<(usize, Bytes)>,
}

impl SessionsShared {
    pub(super) fn new(
        budget: usize,
        message_max: Duration,
        metrics: Metrics,
        usage: UsageMeter,
    ) -> Self {
        Self {
            now: Cell::new(0),
            budget,
            message_max: Tick::try_from(message_max.as_secs()).unwrap_or(Tick::MAX),
            metrics,
            usage,
            text_header: RefCell::new((0, frame::header(Opcode::Text, 0))),
        }
    }

    pub(super) fn now(&self) -> Tick {
        self.now.get()
    }

    /// Counts one second.
    pub(super) fn advance(&self) {
        self.now.set(self.now.get().wrapping_add(1));
    }

    /// The header of a text frame with a payload of `len` bytes.
    ///
    /// A fan-out needs the same length again and again: only the first call allocates.
    pub(super) fn text_header(&self, len: usize) -> Bytes {
        let mut cached = self.text_header.borrow_mut();
        if cached.0 != len {
            *cached = (len, frame::header(Opcode::Text, len));
        }
        cached.1.clone()
    }
}
