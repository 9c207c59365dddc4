//! Which methods a tenant may call.

/// A set of methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodSet {
    /// The seven core methods and their companions, which real clients call beside them.
    #[default]
    Companion,
    /// The seven core methods alone.
    Core,
}

impl MethodSet {
    /// Whether a method that belongs to `other` is in this set.
    #[must_use]
    pub const fn includes(self, other: Self) -> bool {
        matches!((self, other), (Self::Companion, _) | (_, Self::Core))
    }
}
