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

/// The weight of a tenant that is given no other one.
const EQUAL: NonZeroU32 = NonZeroU32::MIN;

impl Default for Share {
    fn default() -> Self {
        Self::new(EQUAL)
    }
}

impl Share {
    /// The share of another tenant.
    #[must_use]
    pub fn new(weight: NonZeroU32) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            weight,
        }
    }

    /// Identifies the tenant in this process.
    pub(crate) const fn id(self) -> u64 {
        self.id
    }

    /// How much it gets, relative to the others.
    pub(crate) const fn weight(self) -> NonZeroU32 {
        self.weight
    }
}
