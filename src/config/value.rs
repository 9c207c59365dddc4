//! Types of values that only options have.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where blocks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceKind {
    /// A chain that this process generates.
    #[default]
    Dev,
    /// An import of genesis.json and chain.rlp.
    Files,
    /// Real nodes.
    Node,
}

/// Format of the log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A bound that is configured or derived from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// Derived from other options.
    Auto,
    /// This many.
    Of(usize),
}

impl Cap {
    /// The bound, if one is given.
    #[must_use]
    pub(crate) const fn given(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Of(count) => Some(count),
        }
    }

    /// The bound, with `auto` in place of [`Self::Auto`].
    #[must_use]
    pub(crate) const fn or(self, auto: usize) -> usize {
        match self {
            Self::Auto => auto,
            Self::Of(count) => count,
        }
    }
}

/// Where the admin listener is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminListen {
    /// Not given: `Self::DEFAULT`, or a free port if that is taken.
    Default,
    /// There is none.
    Off,
    /// At this address, or the service does not start.
    At(SocketAddr),
}

impl AdminListen {
    /// The default address. It is not 8546, where geth has its WebSocket port.
    pub(crate) const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8_590);
}
