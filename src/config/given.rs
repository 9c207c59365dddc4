//! The value that is given for an option, and where it came from.

use std::{fmt, path::PathBuf};

use super::{Config, OptionSpec, command_error::CommandError};

/// The given value of an option, and its origin.
pub(super) struct Given {
    pub(super) texts: Vec<String>,
    /// The option as it was given, for messages.
    pub(super) name: String,
    pub(super) origin: Origin,
}

impl Given {
    /// Sets the option to the value.
    pub(super) fn set(&self, option: &OptionSpec, config: &mut Config) -> Result<(), CommandError> {
        (option.set)(config, &self.texts).ok_or_else(|| CommandError::Value {
            option: self.name.clone(),
            value: shown(option, &self.texts),
            accepts: option.accepts,
        })
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Not given.
    Default,
    /// The file.
    File(PathBuf),
    /// The environment.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// The values as a message shows them: in quotes, or hidden.
pub(super) fn shown(option: &OptionSpec, texts: &[String]) -> String {
    match option.is_secret {
        true => "(hidden)".to_owned(),
        false => format!("{:?}", texts.join(", ")),
    }
}
