//! How many filters may be open, in all and for each tenant.

use super::{
    filter_counts::{CountedFilter, FilterCounts, Full},
    tenant::Tenant,
};
use crate::limits::{
    FILTERS_MAX, FILTERS_PER_TENANT_MAX, VALUES_OF_FILTERS_MAX, VALUES_OF_FILTERS_PER_TENANT_MAX,
};

/// The cap of the whole service on open filters; cloning shares the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterCaps(FilterCounts);

/// Why there is no room for one more filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooManyFilters {
    /// The service has too many, or they have too many addresses and topics.
    OfService,
    /// The tenant has as many as it may have.
    OfTenant {
        /// How many.
        most: usize,
    },
    /// The tenant's filters would have too many addresses and topics.
    ValuesOfTenant {
        /// How many they may have.
        most: usize,
    },
}

/// The right to one open filter; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct FilterPermit {
    _of_tenant: CountedFilter,
    _of_service: CountedFilter,
}

impl FilterCaps {
    /// A permit for one more filter of `tenant`, with this many addresses and topics.
    ///
    /// # Errors
    /// The tenant or the service has too many.
    pub(crate) fn take(
        &self,
        tenant: &Tenant,
        values: usize,
    ) -> Result<FilterPermit, TooManyFilters> {
        let (most, values_max) = (FILTERS_PER_TENANT_MAX, VALUES_OF_FILTERS_PER_TENANT_MAX);
        let of_tenant = tenant.filters.take(values, most, values_max);
        let of_tenant = of_tenant.map_err(|full| match full {
            Full::Filters => TooManyFilters::OfTenant { most },
            Full::Values => TooManyFilters::ValuesOfTenant { most: values_max },
        })?;
        let of_service = self.0.take(values, FILTERS_MAX, VALUES_OF_FILTERS_MAX);
        Ok(FilterPermit {
            _of_tenant: of_tenant,
            _of_service: of_service.map_err(|_| TooManyFilters::OfService)?,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Takes permits of so many values each, until one is refused.
    fn take_all(
        caps: &FilterCaps,
        tenant: &Tenant,
        values: usize,
    ) -> (Vec<FilterPermit>, TooManyFilters) {
        let mut permits = Vec::new();
        loop {
            match caps.take(tenant, values) {
                Ok(permit) => permits.push(permit),
                Err(error) => return (permits, error),
            }
        }
    }

    #[test]
    fn every_cap_holds_and_permits_come_back() {
        let caps = FilterCaps::default();
        let most = FILTERS_PER_TENANT_MAX;
        let values_max = VALUES_OF_FILTERS_PER_TENANT_MAX;
        let alice = Tenant::for_tests(1);
        let (many, error) = take_all(&caps, &alice, 0);
        assert_eq!(many.len(), most);
        assert_eq!(error, TooManyFilters::OfTenant { most });
        drop(many);
        let (large, error) = take_all(&caps, &alice, 5_000);
        assert_eq!(large.len(), values_max / 5_000);
        assert_eq!(error, TooManyFilters::ValuesOfTenant { most: values_max });
        // What was refused counts nowhere.
        caps.take(&alice, 0).unwrap();
        drop(large);

        for (values, of_tenant, of_service) in [
            (0, FILTERS_PER_TENANT_MAX, FILTERS_MAX),
            (5_000, values_max / 5_000, VALUES_OF_FILTERS_MAX / 5_000),
        ] {
            let tenants = of_service / of_tenant;
            let others: Vec<_> = (0..tenants).map(|_| Tenant::for_tests(1)).collect();
            let held: Vec<_> = others
                .iter()
                .map(|tenant| take_all(&caps, tenant, values))
                .collect();
            let refused = caps.take(&alice, values).unwrap_err();
            assert_eq!(refused, TooManyFilters::OfService, "{values}");
            drop(held);
            caps.take(&alice, values).unwrap();
        }
    }
}
