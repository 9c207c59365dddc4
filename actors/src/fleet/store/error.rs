//! What can fail, and whether the connection can go on.

use std::{sync::Arc, time::Duration};

use redis::{ErrorKind, RedisError};

use super::{OptionsError, StoreUrl};

/// Characters of a server's text that are shown.
const TEXT_CHARS_MAX: usize = 300;

/// A call to the store failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the fleet's store, {server}, {fault}")]
pub struct StoreError {
    server: Arc<str>,
    fault: StoreFault,
}

/// What failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StoreFault {
    /// An option cannot be used: nothing was tried.
    #[error("cannot be used: {0}")]
    Options(#[from] OptionsError),
    /// There is no connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(Box<str>),
    /// It did not answer in time: it hangs, or the network does.
    #[error("did not answer within {0:?}")]
    TimedOut(Duration),
    /// Other calls of this process had the connection: it was not asked.
    #[error("was not asked: this process waited {0:?} for its own earlier calls")]
    NotAsked(Duration),
    /// It accepts neither this user nor this password, or the user may not do what a fleet needs.
    #[error("does not allow this: {0}")]
    Denied(Box<str>),
    /// It is a replica: a failover took place, or the URL names the wrong server.
    #[error("is not the master: {0}")]
    NotMaster(Box<str>),
    /// No sentinel that answers knows a master of this name.
    #[error("knows no master called {0}")]
    NoMaster(Box<str>),
    /// It loads its data, or runs another script.
    #[error("is busy: {0}")]
    Busy(Box<str>),
    /// Its memory is full.
    #[error("has no memory left: {0}")]
    OutOfMemory(Box<str>),
    /// It refused the command.
    #[error("refused a command: {0}")]
    Refused(Box<str>),
    /// It does not know the script.
    #[error("does not know a script that it was sent")]
    UnknownScript,
    /// Its reply has more bytes than it may have.
    #[error("answered with more than {0} bytes")]
    TooLarge(usize),
    /// Its reply is none that this program knows.
    #[error("gave a false answer: {0}")]
    Nonsense(Box<str>),
}

/// A server's text, shortened and without control characters.
pub(super) fn printable(text: &str) -> Box<str> {
    let chars = text.chars().take(TEXT_CHARS_MAX);
    let chars = chars.map(|char| if char.is_control() { ' ' } else { char });
    chars.collect::<String>().into()
}

impl StoreError {
    /// This server failed like this; the server is without secrets.
    #[must_use]
    pub const fn new(server: Arc<str>, fault: StoreFault) -> Self {
        Self { server, fault }
    }

    /// What failed.
    #[must_use]
    pub const fn fault(&self) -> &StoreFault {
        &self.fault
    }
}

impl From<OptionsError> for StoreError {
    fn from(error: OptionsError) -> Self {
        Self::new("as configured".into(), error.into())
    }
}

impl StoreFault {
    /// A fault by its name, which counters have.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Options(_) => "options",
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut(_) => "timeout",
            Self::NotAsked(_) => "not_asked",
            Self::Denied(_) => "denied",
            Self::NotMaster(_) | Self::NoMaster(_) => "no_master",
            Self::Busy(_) => "busy",
            Self::OutOfMemory(_) => "memory",
            Self::Refused(_) | Self::UnknownScript => "refused",
            Self::TooLarge(_) => "too_large",
            Self::Nonsense(_) => "nonsense",
        }
    }

    /// What the client of Redis reports of a call to this server.
    pub(super) fn of(error: &RedisError, url: &StoreUrl) -> Self {
        let text = || printable(&url.redact(&error.to_string()));
        // The code is the first word of a server's error.
        if let Some(code) = error.code() {
            return match code {
                "READONLY" | "MASTERDOWN" | "UNBLOCKED" => Self::NotMaster(text()),
                "LOADING" | "BUSY" | "TRYAGAIN" => Self::Busy(text()),
                "OOM" => Self::OutOfMemory(text()),
                "NOAUTH" | "NOPERM" | "WRONGPASS" => Self::Denied(text()),
                "NOSCRIPT" => Self::UnknownScript,
                _ => Self::Refused(text()),
            };
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Denied(text()),
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Self::Nonsense(text()),
            _ => Self::Unreachable(text()),
        }
    }

    /// Whether the connection is as good as before: the server has answered, and is the master.
    pub(super) const fn keeps_connection(&self) -> bool {
        matches!(
            self,
            Self::Busy(_) | Self::OutOfMemory(_) | Self::Refused(_) | Self::UnknownScript
        )
    }
}
