use crate::{
    UnixMillis,
    id::{KeyId, TenantId},
    usage::{
        resolution::Resolution,
        used::{Label, Used},
    },
};

/// A question about usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageQuery {
    /// Whose.
    pub of: UsageOf,
    /// Which sums are read.
    pub resolution: Resolution,
    /// The period that this is in is the first one.
    pub from: UnixMillis,
    /// Periods that begin here or later do not count.
    pub to: UnixMillis,
    /// What the rows are grouped by.
    pub by: GroupBy,
    /// Most rows of the answer.
    pub rows_max: usize,
}

/// Whose usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageOf {
    /// That of all keys.
    All,
    /// That of all keys of a tenant, also of those that the configuration names.
    Tenant(TenantId),
    /// That of these keys.
    Keys(Vec<KeyId>),
    /// That of the chains that begin with these keys, with their keys that were removed.
    Chains(Vec<KeyId>),
}

/// What rows are grouped by; everything else is summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupBy {
    /// Periods.
    pub time: bool,
    /// Keys.
    pub key: bool,
    /// Methods, and sessions beside them.
    pub method: bool,
    /// Outcomes, and sessions beside them.
    pub outcome: bool,
}

/// The answer, sorted by time, key, method and outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageAnswer {
    /// Its rows. A period without usage has none.
    pub rows: Vec<UsageRow>,
    /// Whether there are more rows than were asked for.
    pub is_truncated: bool,
}

/// A sum of usage. What rows are not grouped by is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// The beginning of the period.
    pub at: Option<UnixMillis>,
    /// The key.
    pub key: Option<KeyId>,
    /// The method, or [`SESSION_LABEL`](super::SESSION_LABEL).
    pub method: Option<Label>,
    /// The outcome, or [`SESSION_LABEL`](super::SESSION_LABEL).
    pub outcome: Option<Label>,
    /// How much.
    pub used: Used,
}

/// A question about what each key used. Its answer is read sum by sum, so that nothing of it is in
/// memory at once: there may be 100,000 keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUseQuery {
    /// Whose.
    pub of: UsageOf,
    /// Which sums are read.
    pub resolution: Resolution,
    /// The period that this is in is the first one.
    pub from: UnixMillis,
    /// Periods that begin here or later do not count.
    pub to: UnixMillis,
}

/// For whom the usage of a key counts besides the key itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOwner {
    /// Its tenant.
    pub tenant: TenantId,
    /// The first key of its chain of rotations; `None` if it is the first one itself.
    pub chain: Option<KeyId>,
}

/// What a key used in one period with one method and one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The key.
    pub key: KeyId,
    /// Its owner when it was last used, as far as that was known then.
    pub owner: Option<KeyOwner>,
    /// Requests.
    pub requests: u64,
    /// Those that were not answered with a result.
    pub errors: u64,
    /// Units.
    pub units: u64,
}

impl KeyUse {
    /// That of one outcome.
    #[must_use]
    pub fn new(key: KeyId, owner: Option<KeyOwner>, is_ok: bool, used: &Used) -> Self {
        Self {
            key,
            owner,
            requests: used.requests,
            errors: if is_ok { 0 } else { used.requests },
            units: used.units,
        }
    }
}

/// What the store is to add: the usage of one key in one minute with one method and one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageCell {
    /// A time in the minute.
    pub minute: UnixMillis,
    /// The key.
    pub key: KeyId,
    /// Its owner; `None` if the key is gone.
    pub owner: Option<KeyOwner>,
    /// The method, or [`SESSION_LABEL`](super::SESSION_LABEL).
    pub method: Label,
    /// The outcome, or [`SESSION_LABEL`](super::SESSION_LABEL).
    pub outcome: Label,
    /// When the last of it was used.
    pub last: UnixMillis,
    /// How much.
    pub used: Used,
}
