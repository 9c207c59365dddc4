//! How many requests may wait for a block, in all and for each tenant.

use super::{
    shared_count::{Counted, SharedCount},
    tenant::Tenant,
};
use crate::limits::{BLOCK_WAITS_MAX, BLOCK_WAITS_OF_TENANT_MAX};

/// The cap of the whole service on requests that wait for a block; cloning shares the count.
#[derive(Clone, Debug, Default)]
pub struct WaitCaps(SharedCount);

/// The right of one request to wait; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct WaitPermit {
    _of_service: Counted,
    _of_tenant: Counted,
}

impl WaitCaps {
    /// A permit for one more request of `tenant`; `None` if too many of all or of it wait.
    #[must_use]
    pub(crate) fn take(&self, tenant: &Tenant) -> Option<WaitPermit> {
        Some(WaitPermit {
            _of_service: self.0.take(BLOCK_WAITS_MAX)?,
            _of_tenant: tenant.block_waits.take(BLOCK_WAITS_OF_TENANT_MAX)?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_cannot_take_all_places_and_permits_come_back() {
        let tenants = [0; 5].map(Tenant::for_tests);
        let caps = WaitCaps::default();
        let mut permits = Vec::new();
        for tenant in &tenants[..4] {
            let taken = (0..BLOCK_WAITS_OF_TENANT_MAX).map(|_| caps.take(tenant).unwrap());
            permits.extend(taken);
            assert!(caps.take(tenant).is_none(), "a quarter is one tenant's");
        }
        assert_eq!(permits.len(), BLOCK_WAITS_MAX);
        assert!(caps.take(&tenants[4]).is_none(), "all places are taken");
        permits.pop();
        assert!(caps.take(&tenants[4]).is_some());
        drop(permits);
        assert_eq!((caps.0.get(), tenants[0].block_waits.get()), (0, 0));
    }
}
