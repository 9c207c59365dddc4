//! Over what a body came.

use nearhead_fleet::min_block::{InvalidMinBlock, MinBlock};

use super::request_session::RequestSession;

/// The block that a client has seen, as a header names it, if it names one.
pub type NamedBlock = Option<Result<MinBlock, InvalidMinBlock>>;

/// Over what a body came, and what was said beside it; by default over HTTP, with nothing beside.
#[derive(Clone, Copy, Default)]
pub struct Via<'a> {
    /// The session that the body came over, if any.
    pub session: Option<&'a dyn RequestSession>,
    /// Holds for all requests of the body.
    pub min_block: NamedBlock,
}

impl<'a> Via<'a> {
    /// Over HTTP, with this header.
    #[must_use]
    pub const fn http(min_block: NamedBlock) -> Self {
        Self {
            session: None,
            min_block,
        }
    }

    /// Over this session.
    pub fn session(session: &'a dyn RequestSession) -> Self {
        Self {
            session: Some(session),
            min_block: None,
        }
    }
}
