//! How many tenants and keys there may be, and how long a key is kept.

use std::time::Duration;

/// Tenants.
pub const TENANTS_MAX: usize = 100_000;

/// Keys of all tenants, with expired and revoked ones until they are removed.
pub const KEYS_MAX: usize = 1_000_000;

/// How long a key is kept after it expired or was revoked: 30 days, as long as its usage is shown.
pub const KEYS_KEPT: Duration = Duration::from_secs(2_592_000);

/// Keys that are removed at once, before others have their turn: some 20 ms.
pub const KEYS_REMOVED_MAX: usize = 500;

/// How often the keys to remove are looked for: each time, all keys are read.
pub const KEY_REMOVAL: Duration = Duration::from_secs(3_600);

/// Longest time that a rotated key lets clients in beside its successor: 30 days.
pub const OVERLAP_MAX: Duration = Duration::from_secs(2_592_000);

/// Keys of a tenant, with expired and revoked ones, up to which its holders may rotate them: 30 in
/// each of the 30 days that a key is kept, and 100 more. A holder takes no room of other tenants.
pub const HOLDER_KEYS_MAX: usize = 1_000;
