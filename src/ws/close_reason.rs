//! Why a session is closed.

use crate::access::{Refused, TokenError};

/// Code and text of the close frame that ends a session (RFC 6455 §7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CloseReason {
    pub(crate) code: u16,
    pub(crate) text: &'static str,
}

impl CloseReason {
    pub(crate) const GOING_AWAY: Self = Self::new(1001, "the service is going away");
    pub(crate) const PROTOCOL: Self = Self::new(1002, "protocol violation");
    pub(crate) const NOT_UTF8: Self = Self::new(1007, "text is not UTF-8");
    pub(crate) const TOO_SLOW: Self = Self::new(1008, "message took too long");
    pub(crate) const TOO_LARGE: Self = Self::new(1009, "message too large, send at most 32 MiB");
    pub(crate) const NOT_READING: Self = Self::new(1013, "nothing was read for 8 seconds");
    pub(crate) const MEMORY: Self = Self::new(1013, "answers were not read while memory is short");
    pub(crate) const FELL_BEHIND: Self = Self::new(1013, "fell behind the window, subscribe again");
    pub(crate) const NO_PONG: Self = Self::new(1001, "no pong");

    /// The reason for a session that is no longer let in.
    pub(crate) const fn of(refused: Refused) -> Self {
        match refused {
            Refused::UnknownKey => Self::new(4401, "the key was revoked or has expired"),
            Refused::WrongSecret => Self::new(4401, "the key's secret has changed"),
            Refused::Token(TokenError::Expired) => {
                Self::new(4401, "the JSON Web Token has expired")
            }
            Refused::Token(_) => Self::new(4401, "the key's public keys have changed"),
            Refused::NotListed(_) => Self::new(4403, "an allowlist of the key has changed"),
            Refused::NotLocal(_) => Self::new(4403, "the key serves this machine alone"),
        }
    }

    const fn new(code: u16, text: &'static str) -> Self {
        Self { code, text }
    }
}
