//! How answers name the head that they were made from.

use alloy_primitives::B256;

/// The head as answers name it: `NUMBER, HASH`. It is written once for each head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadName(String);

impl HeadName {
    pub(super) fn new(number: u64, hash: &B256) -> Self {
        Self(format!("{number}, {hash}"))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
