use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{UnixMillis, id::KeyId};

/// What a key used in the last 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Last24h {
    /// Requests.
    pub requests: u64,
    /// Those that were not answered with a result.
    pub errors: u64,
    /// Units.
    pub units: u64,
}

/// What keys used in the 24 hours before a time.
#[derive(Debug)]
pub(super) struct RecentUse {
    pub(super) at: UnixMillis,
    pub(super) used: Arc<HashMap<KeyId, Last24h>>,
}
