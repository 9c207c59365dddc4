//! The tenants of a running service: their store, the commands on them, and what they use.
//!
//! | file | what it is |
//! |---|---|
//! | `tenants_actor` | owns the store and the directory, and pushes changes to `access` |
//! | `messages` | what it is asked for |
//! | `open` | which store a configuration has |
//! | `tenant_metrics` | what tenants use, as metrics |
//! | `usage_meter` | what one worker has counted, and how it gets to the actor |

mod messages;
mod open;
mod tenant_metrics;
mod tenants_actor;
mod usage_meter;

pub(crate) use messages::{Administer, ReplaceConfigured, StopTenants};
pub use open::OpenError;
pub(crate) use open::open;
pub(crate) use tenant_metrics::TenantMetrics;
pub use tenants_actor::TenantsActor;
pub(crate) use tenants_actor::TenantsSetup;
pub use usage_meter::UsageMeter;
