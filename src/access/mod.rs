//! Who is let in, to what, and how much: tenants and their keys while they are in force. This
//! module knows neither HTTP nor JSON-RPC, and reads no clock.
//!
//! | file | what it is |
//! |---|---|
//! | `access_table` | all tenants and keys in force, behind one pointer that is swapped |
//! | `key_table` | what that pointer points to |
//! | `table_update` | how it follows a change |
//! | `shards` | a map whose versions share what did not change |
//! | `digests` | the look-up by digests of keys |
//! | `active_key` | one key, with what it may still use |
//! | `tenant` | one tenant: its limits, sessions and what it may still use |
//! | `configured` | a key that the configuration names |
//! | `configured_keys` | all of them |
//! | `meter` | token buckets and the units of a day |
//! | `bucket` | those of this process, and those that the processes of a fleet share |
//! | `presented` | what a client presents: a key, and what stands beside it |
//! | `last_key` | the key that a connection presented last |
//! | `token` | JSON Web Tokens: what they have to be signed with, and to say |
//! | `token_cache` | the tokens that one worker has verified |
//! | `guess_throttle` | how often keys may be guessed from one address |
//! | `caller` | where a request comes from, which allowlists are about |
//! | `grant` | the right of one request or session to be answered |
//! | `local_only` | what serves this machine alone, against pages of other sites |
//! | `session_caps` | open sessions, in all and of each tenant |
//! | `wait_caps` | requests that wait for a block, in all and of each tenant |
//! | `filter_caps` | open filters, in all and of each tenant |
//! | `filter_counts` | what they are counted by |
//! | `shared_count` | a count that is bounded and shared |
//! | `simulation` | tests: random sequences of all that is done, against a plain model |
//! | `scene`, `issuer` | tests: keys in force, and tokens that are signed |

mod access_table;
mod active_key;
mod bucket;
mod caller;
mod configured;
mod configured_keys;
mod digests;
mod filter_caps;
mod filter_counts;
mod grant;
mod guess_throttle;
#[cfg(test)]
mod issuer;
mod key_table;
mod last_key;
mod local_only;
mod meter;
mod presented;
#[cfg(test)]
mod scene;
mod session_caps;
mod shards;
mod shared_count;
#[cfg(test)]
mod simulation;
mod table_update;
mod tenant;
mod token;
mod token_cache;
mod wait_caps;

pub use access_table::Access;
pub use active_key::ActiveKey;
pub(crate) use caller::{Caller, network_of};
pub use configured::ConfiguredKey;
pub use configured_keys::ConfiguredKeys;
pub(crate) use filter_caps::{FilterCaps, FilterPermit, TooManyFilters};
pub(crate) use grant::{Admitted, Grant, Refused, SubscriptionPermit};
pub use guess_throttle::GuessThrottle;
pub(crate) use last_key::LastKey;
pub use local_only::{Host, LocalOnly, NotLocal};
pub(crate) use meter::Remaining;
pub use meter::{Exceeded, Now, QuotaKind};
pub(crate) use presented::Presented;
pub use session_caps::SessionCaps;
pub(crate) use session_caps::SessionPermit;
pub use table_update::AccessSource;
pub use tenant::{MethodSet, ServiceLimits, Tenant};
pub use token::{SignedToken, TokenError, VerifiedToken};
pub(crate) use token_cache::TokenCache;
pub use wait_caps::WaitCaps;
