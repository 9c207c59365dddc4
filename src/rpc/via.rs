//! Over what a body came.

use nearhead_fleet::min_block::{InvalidMinBlock, MinBlock};

use super::request_session::RequestSession;
use crate::limits::BUFFERED_BYTES_MAX;

/// The block that a client has seen, as a header names it, if it names one.
pub type NamedBlock = Option<Result<MinBlock, InvalidMinBlock>>;

/// Over what a body came, and what was said beside it; by default over HTTP without TLS, with
/// nothing beside.
#[derive(Clone, Copy)]
pub struct Via<'a> {
    /// The session that the body came over, if any.
    pub session: Option<&'a dyn RequestSession>,
    /// Holds for all requests of the body.
    pub min_block: NamedBlock,
    /// Bytes of an answer that wait in the buffers of its connection, at most.
    pub buffered_max: usize,
}

impl Default for Via<'_> {
    fn default() -> Self {
        Self::http(None, BUFFERED_BYTES_MAX)
    }
}

impl<'a> Via<'a> {
    /// Over HTTP, with this header, on a connection with buffers of this size.
    #[must_use]
    pub const fn http(min_block: NamedBlock, buffered_max: usize) -> Self {
        Self {
            session: None,
            min_block,
            buffered_max,
        }
    }

    /// Over this session.
    pub fn session(session: &'a dyn RequestSession) -> Self {
        Self {
            session: Some(session),
            // A session has them for all of its answers together.
            buffered_max: 0,
            min_block: None,
        }
    }
}
