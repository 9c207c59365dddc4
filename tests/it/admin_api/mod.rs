//! The admin API of a running service.
//!
//! | file | tests |
//! |---|---|
//! | `keys` | tenants and keys from their making to their end, under load as well |
//! | `people` | accounts, API tokens, roles, logins |
//! | `refusals` | the exact answers to what is malformed or not there |
//! | `attacks` | what attackers try |
//! | `logins` | how often passwords may be tried, and how often people may log in |
//! | `try_it` | calls that the dashboard makes in the name of a visitor |
//! | `usage_reads` | somebody who reads usage as fast as they can |
//! | `failing_store` | a store that fails while the service runs |
//! | `documented` | the commands of the documentation |
//! | `client` | a client that checks its answers with the OpenAPI document |

mod attacks;
pub(crate) mod client;
mod documented;
#[cfg(target_os = "linux")]
mod failing_store;
mod keys;
mod logins;
mod people;
mod refusals;
mod try_it;
mod usage_reads;
