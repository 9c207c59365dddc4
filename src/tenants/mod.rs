//! The tenants of a running service: their store, the commands on them, and what they use.
//!
//! | file | what it is |
//! |---|---|
//! | `tenants_actor` | owns the store, runs operations on it, and pushes changes to `access` |
//! | `messages` | what it is asked for |
//! | `ask` | asks it, and does not wait for a disk that hangs |
//! | `open` | which store a configuration has |
//! | `fleet_store` | the store that the processes of a fleet share |
//! | `fleet_mark` | marks the folder of a process of a fleet |
//! | `offline` | the store of a data folder that no service uses |
//! | `store_state` | whether the store works |
//! | `tenant_metrics` | what tenants use, as metrics |
//! | `usage_meter` | what one worker has counted, and how it gets to the actor |

mod ask;
mod fleet_mark;
mod fleet_store;
mod messages;
mod offline;
mod open;
mod store_state;
mod tenant_metrics;
mod tenants_actor;
mod usage_meter;

pub use ask::NoAnswer;
pub use messages::Administer;
pub(crate) use messages::{ReplaceConfigured, StopTenants};
pub use offline::{OfflineError, OfflineTenants};
pub(crate) use open::{LocalFolder, open, open_shared};
pub use open::{OpenError, open_fleet_store};
pub use store_state::{StoreFailure, StoreState};
pub(crate) use tenant_metrics::TenantMetrics;
pub use tenants_actor::TenantsActor;
pub(crate) use tenants_actor::TenantsSetup;
pub use usage_meter::UsageMeter;
