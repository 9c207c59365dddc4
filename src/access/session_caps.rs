//! How many sessions may be open, in all and for each tenant.

use super::{
    shared_count::{Counted, SharedCount},
    tenant::Tenant,
};

/// The cap of the whole service on open sessions; cloning shares the count.
#[derive(Clone, Debug)]
pub struct SessionCaps {
    most: usize,
    open: SharedCount,
}

/// The right to one open session; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct SessionPermit {
    _of_service: Counted,
    _of_tenant: Counted,
}

impl SessionCaps {
    /// At most `most` sessions in all.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            open: SharedCount::default(),
        }
    }

    /// A permit for one more session of `tenant`; `None` if the service or the tenant has too many
    /// open.
    #[must_use]
    pub(crate) fn take(&self, tenant: &Tenant) -> Option<SessionPermit> {
        Some(SessionPermit {
            _of_service: self.open.take(self.most)?,
            _of_tenant: tenant.open_sessions.take(tenant.limits.sessions)?,
        })
    }

    /// Sessions that are open.
    #[cfg(test)]
    fn open(&self) -> usize {
        self.open.get()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn both_caps_hold_and_permits_come_back() {
        let [alice, bob] = [2, 2].map(Tenant::for_tests);
        let caps = SessionCaps::new(3);
        let first = caps.take(&alice).unwrap();
        let second = caps.take(&alice).unwrap();
        assert!(caps.take(&alice).is_none(), "two of one tenant");
        let third = caps.take(&bob).unwrap();
        assert!(caps.take(&bob).is_none(), "three in all");
        assert_eq!(caps.open(), 3);
        drop(first);
        assert!(caps.take(&bob).is_some());
        drop((second, third));
        assert_eq!(caps.open(), 0);
    }
}
