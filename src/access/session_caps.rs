//! How many sessions may be open, in all and for each tenant.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::TenantId;

/// Counts open sessions; cloning shares the counts.
#[derive(Clone, Debug)]
pub struct SessionCaps(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    most: usize,
    most_per_tenant: usize,
    open: AtomicUsize,
    by_tenant: Box<[AtomicUsize]>,
}

/// The right to one open session; given back when it is dropped.
#[derive(Debug)]
pub struct SessionSlot {
    caps: SessionCaps,
    tenant: TenantId,
}

impl SessionCaps {
    /// `most` sessions in all, and `most_per_tenant` for each of `tenants` tenants.
    #[must_use]
    pub fn new(most: usize, most_per_tenant: usize, tenants: usize) -> Self {
        Self(Arc::new(Counts {
            most,
            most_per_tenant,
            open: AtomicUsize::new(0),
            by_tenant: (0..tenants).map(|_| AtomicUsize::new(0)).collect(),
        }))
    }

    /// A slot for one more session of `tenant`; `None` where too many are open.
    #[must_use]
    pub fn take(&self, tenant: TenantId) -> Option<SessionSlot> {
        let counts = &*self.0;
        let of_tenant = counts.by_tenant.get(tenant.index())?;
        take_one(&counts.open, counts.most)?;
        if take_one(of_tenant, counts.most_per_tenant).is_none() {
            counts.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(SessionSlot {
            caps: self.clone(),
            tenant,
        })
    }

    /// Sessions that are open.
    #[cfg(test)]
    fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }
}

fn take_one(count: &AtomicUsize, most: usize) -> Option<usize> {
    let one_more = |open: usize| (open < most).then_some(open + 1);
    count
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
        .ok()
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let counts = &*self.caps.0;
        counts.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(of_tenant) = counts.by_tenant.get(self.tenant.index()) {
            of_tenant.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::access::Keys;

    #[test]
    fn both_bounds_hold_and_slots_come_back() {
        let keys = Keys::new([("alice", "a"), ("bob", "b")]);
        let (alice, bob) = (keys.check("a").unwrap(), keys.check("b").unwrap());
        let caps = SessionCaps::new(3, 2, keys.tenants());
        let first = caps.take(alice).unwrap();
        let second = caps.take(alice).unwrap();
        assert!(caps.take(alice).is_none(), "two of one tenant");
        let third = caps.take(bob).unwrap();
        assert!(caps.take(bob).is_none(), "three in all");
        assert_eq!(caps.open(), 3);
        drop(first);
        assert!(caps.take(bob).is_some());
        drop((second, third));
        assert_eq!(caps.open(), 0);
    }
}
