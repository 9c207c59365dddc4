use std::fmt;

use super::terminal::NoAnswer;

/// Why a command of an administrator failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
    is_misuse: bool,
}

impl Failure {
    /// Something that was asked for does not work.
    pub(super) fn new(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            is_misuse: false,
        }
    }

    /// Something that was asked for makes no sense as it was asked.
    pub(super) fn misuse(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            is_misuse: true,
        }
    }

    /// Whether the command was wrong, and not something that it met.
    #[must_use]
    pub const fn is_misuse(&self) -> bool {
        self.is_misuse
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<NoAnswer> for Failure {
    fn from(error: NoAnswer) -> Self {
        Self::new(error)
    }
}
