use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an operation does with a value that may be absent. In JSON, a member that is absent keeps
/// the value, and `null` removes it.
///
/// A member of this type needs `#[serde(default, skip_serializing_if = "Patch::is_keep")]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Leaves it as it is.
    #[default]
    Keep,
    /// Removes it.
    Remove,
    /// Sets it.
    Set(T),
}

impl<T> Patch<T> {
    /// Whether it leaves the value as it is.
    #[must_use]
    pub const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// Sets the value if there is one, and removes it if not: what a form with an empty field
    /// means.
    #[must_use]
    pub fn of(value: Option<T>) -> Self {
        value.map_or(Self::Remove, Self::Set)
    }

    /// What the value becomes.
    pub(super) fn apply<U>(self, before: Option<U>, set: impl FnOnce(T) -> U) -> Option<U> {
        match self {
            Self::Keep => before,
            Self::Remove => None,
            Self::Set(value) => Some(set(value)),
        }
    }
}

impl<T: Serialize> Serialize for Patch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Remove => serializer.serialize_none(),
            Self::Set(value) => serializer.serialize_some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self::of)
    }
}
