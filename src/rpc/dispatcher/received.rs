//! What came: a body, or an item of a batch.

use std::time::Instant;

use crate::{access::Now, rpc::price::MINIMUM_UNITS};

/// A request that is being answered: a body, or an item of a batch.
#[derive(Clone, Copy)]
pub(in crate::rpc) struct Received {
    pub(super) bytes: usize,
    /// How many requests it has, for each of which a unit is taken.
    requests: u32,
    pub(super) at: Now,
}

impl Received {
    pub(super) const fn new(bytes: usize, requests: u32, at: Now) -> Self {
        Self {
            bytes,
            requests,
            at,
        }
    }

    /// An item of it, which is answered from now on.
    pub(super) fn item(self, bytes: usize) -> Self {
        let instant = Instant::now();
        Self::new(bytes, 1, Now { instant, ..self.at })
    }

    /// What it costs at least.
    pub(super) const fn minimum_units(self) -> u64 {
        MINIMUM_UNITS * self.requests as u64
    }
}
