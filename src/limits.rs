//! Every bound, each with its reason.

use std::time::Duration;

/// Longest wait for a request's whole body: 5 MiB at the 1.4 Mbit/s of a bad mobile link take 30 s.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest run of eth_getLogs, from admission (the product's specification).
pub const LOGS_DEADLINE: Duration = Duration::from_secs(10);
