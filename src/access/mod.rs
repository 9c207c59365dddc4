//! Tenants: their keys, quotas and sessions. This module knows neither HTTP nor JSON-RPC, and reads
//! no clock.
//!
//! | file | what it is |
//! |---|---|
//! | `tenant_table` | all tenants with their keys, behind one pointer; a presented key resolves to a tenant |
//! | `tenant` | one of them: its methods, rate and sessions |
//! | `keys` | the look-up by digests of secrets |
//! | `quota` | a token bucket |
//! | `session_caps` | open sessions, in all and of each tenant |
//! | `session_count` | a count of open sessions |

mod keys;
mod quota;
mod session_caps;
mod session_count;
mod tenant;
mod tenant_table;

pub use quota::Exceeded;
pub use session_caps::SessionCaps;
pub(crate) use session_caps::SessionPermit;
pub use tenant::{MethodSet, Tenant, TenantLimits};
pub use tenant_table::{TenantConfig, Tenants};
