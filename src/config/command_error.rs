//! Why a command cannot be resolved.

use super::ConfigError;

/// Why a command cannot be resolved. The message is one line and names the option in the form that
/// was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// A value is invalid.
    #[error("{option} {value}: expected {accepts}")]
    Value {
        /// The option as it was given: `--workers`, `NEARHEAD_WORKERS`, or the key and the file.
        option: String,
        /// The value in quotes, or `(hidden)`.
        value: String,
        /// What is accepted.
        accepts: &'static str,
    },
    /// The file has a key that is not in the table.
    #[error(
        "unknown key {key:?} in {file}; the keys are the flags of nearhead --help without the dashes"
    )]
    UnknownKey {
        /// The key.
        key: String,
        /// The file.
        file: String,
    },
    /// The file cannot be read, or is not TOML.
    #[error("{option} {file}: {reason}")]
    File {
        /// The option that named the file.
        option: &'static str,
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The command line has an unknown argument, or lacks a required one.
    #[error("{message}; see {command} --help")]
    Usage {
        /// What is wrong.
        message: String,
        /// The command whose help says more, such as `nearhead key create`.
        command: String,
    },
    /// The values are not valid together.
    #[error(transparent)]
    Together(#[from] ConfigError),
}
