//! Why a service could not start.

use std::io;

use crate::{
    config::ConfigError, feed::FeedError, listeners::ListenError, rpc::ForwardingError,
    tenants::OpenError, tls::TlsError,
};

/// Why a service could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A method is not forwarded.
    #[error(transparent)]
    Forwarding(#[from] ForwardingError),
    /// The certificate of the listeners, or its key, cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The source cannot start.
    #[error(transparent)]
    Source(#[from] FeedError),
    /// The store of tenants and keys cannot be used.
    #[error(transparent)]
    Tenants(#[from] OpenError),
    /// A metric's name is invalid or taken: a defect of this program.
    #[error("metrics: {0}")]
    Metrics(String),
    /// The system has no resources left.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A defect of this program; the panic's message is on stderr.
    #[error("the service panicked while it started")]
    Panicked,
}

impl StartError {
    /// Whether the options have to be corrected before another start can succeed.
    #[must_use]
    pub const fn is_misuse(&self) -> bool {
        match self {
            Self::Config(_) | Self::Forwarding(_) | Self::Tls(_) => true,
            Self::Source(FeedError::Source(error)) => error.is_misuse(),
            Self::Tenants(error) => error.is_misuse(),
            _ => false,
        }
    }
}
