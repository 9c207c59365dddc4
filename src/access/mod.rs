//! Who may ask, and how much: keys and quotas. Knows neither HTTP nor JSON-RPC, and reads no clock.

mod keys;
mod quota;
mod session_caps;

pub use keys::{Keys, TenantId};
pub use quota::{Exceeded, Quota};
pub use session_caps::{SessionCaps, SessionSlot};
