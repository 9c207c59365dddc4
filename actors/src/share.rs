//! A tenant's share of what all tenants use together.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
};

/// A tenant as the queues of a service know it: which one it is, and its weight.
///
/// Where tenants compete, each gets work done in proportion to its weight. A tenant that competes
/// with nobody gets everything. Copies are the same tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    id: u64,
    weight: NonZeroU32,
}

impl Default for Share {
    /// The share of another tenant, of weight 1.
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            weight: NonZeroU32::MIN,
        }
    }
}

impl Share {
    /// The same tenant's share with this weight.
    #[must_use]
    pub const fn with_weight(self, weight: NonZeroU32) -> Self {
        Self { weight, ..self }
    }

    /// Identifies the tenant in this process.
    pub(crate) const fn id(self) -> u64 {
        self.id
    }

    /// How much it gets, relative to the others.
    #[must_use]
    pub const fn weight(self) -> NonZeroU32 {
        self.weight
    }
}
