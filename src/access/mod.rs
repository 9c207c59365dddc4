//! Who may ask, and how much: keys and quotas. Knows neither HTTP nor JSON-RPC, and reads no clock.

mod keys;
mod method_set;
mod quota;
mod session_caps;

pub use keys::{Keys, TenantId};
pub use method_set::MethodSet;
pub use quota::{Exceeded, Quota};
pub use session_caps::{SessionCaps, SessionSlot};
