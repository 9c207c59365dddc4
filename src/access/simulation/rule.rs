//! What is said of keys, rule by rule.

/// A rule that a model may break, which has to be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A key that has expired lets nobody in.
    Expiry,
    /// Nor does one that is revoked.
    Revocation,
    /// A tenant that is removed takes its keys with it.
    Removal,
    /// Pages of other origins than the listed ones are refused.
    Origins,
    /// A wrong secret is refused, and a missing one if it is required.
    Secrets,
    /// The right secret exempts from allowlists only if its key says so.
    Exemptions,
    /// A key has quotas of its own.
    QuotaOfKey,
    /// The keys of a tenant share its quotas.
    QuotaOfTenant,
    /// What exceeds a quota costs no units.
    RefusedIsFree,
    /// What an answer costs beyond one unit a request is taken afterwards, and may leave a debt.
    Debts,
    /// The units of a day are renewed at 00:00 UTC.
    Renewal,
    /// A body of more requests than a bucket has is refused.
    RateOfSecond,
    /// A new quota forgets no units of the day.
    DayOutlivesChange,
    /// Sessions are limited.
    SessionIsCounted,
    /// A session that ends makes room for another.
    SessionIsGivenBack,
    /// An open session ends once it would be refused.
    SessionIsChecked,
    /// An open session ends when its key's secret changes.
    SecretOfSession,
    /// A rotated key lets clients in for the chosen time.
    OverlapOfRotation,
    /// The new key of a rotation has the settings of the old one.
    SettingsOfRotation,
    /// A key is not rotated while another one of its chain lets clients in.
    OneOverlap,
    /// The keys of a chain of rotations share one quota.
    QuotaOfChain,
}

impl Rule {
    /// All of them.
    pub(super) const ALL: [Self; 21] = [
        Self::Expiry,
        Self::Revocation,
        Self::Removal,
        Self::Origins,
        Self::Secrets,
        Self::Exemptions,
        Self::QuotaOfKey,
        Self::QuotaOfTenant,
        Self::RefusedIsFree,
        Self::Debts,
        Self::Renewal,
        Self::RateOfSecond,
        Self::DayOutlivesChange,
        Self::SessionIsCounted,
        Self::SessionIsGivenBack,
        Self::SessionIsChecked,
        Self::SecretOfSession,
        Self::OverlapOfRotation,
        Self::SettingsOfRotation,
        Self::OneOverlap,
        Self::QuotaOfChain,
    ];
}
