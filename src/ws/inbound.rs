//! What a client sends, let in frame by frame.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use actix_web::{dev::Payload, error::PayloadError};
use bytes::Bytes;
use futures_core::Stream;

use super::{
    CloseReason, Session,
    frame::{CONTROL_BYTES_MAX, FrameKind, Next, Opening, Reframer},
};
use crate::limits::{FRAME_WORDS_MAX, MESSAGE_BYTES_MAX};

/// The bytes of a connection, let in frame by frame: the next one when the actor has seen the one
/// before, the next message when the session can answer it. Who asks faster than it reads waits in
/// its own socket; what comes before its next message is read all the same, and a message that was
/// begun is read to its end.
pub(crate) struct Inbound {
    payload: Payload,
    session: Rc<Session>,
    reframer: Reframer,
    /// Bytes that were read and not let in yet.
    rest: Bytes,
    /// Bytes of payload that the frames of the present message announced.
    announced: usize,
}

impl Inbound {
    pub(crate) fn new(payload: Payload, session: Rc<Session>) -> Self {
        Self {
            payload,
            session,
            reframer: Reframer::new(FRAME_WORDS_MAX),
            rest: Bytes::new(),
            announced: 0,
        }
    }

    /// Judges a frame by its header.
    fn announced(&mut self, opening: Opening, len: u64) -> Result<(), CloseReason> {
        if opening == Opening::Control {
            let is_legal = len <= CONTROL_BYTES_MAX as u64;
            return if is_legal {
                Ok(())
            } else {
                Err(CloseReason::PROTOCOL)
            };
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.announced = self.announced.saturating_add(len);
        if self.announced > MESSAGE_BYTES_MAX {
            return Err(CloseReason::TOO_LARGE);
        }
        if opening == Opening::Message {
            self.session.message_announced();
        }
        Ok(())
    }
}

impl Stream for Inbound {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, PayloadError>>> {
        let this = self.get_mut();
        loop {
            if !this.session.reads() {
                // Whoever changes that wakes the session.
                return Poll::Pending;
            }
            match this.reframer.next(&mut this.rest) {
                Next::Bytes(bytes) => {
                    this.session.lets_in();
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Next::Announced(opening, len) => {
                    if let Err(why) = this.announced(opening, len) {
                        this.session.close(why);
                        return Poll::Ready(None);
                    }
                }
                Next::End(kind) => {
                    if kind == FrameKind::Last {
                        this.announced = 0;
                    }
                    this.session.hands_over(kind);
                }
                Next::Nothing => match Pin::new(&mut this.payload).poll_next(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(bytes))) => {
                        this.rest = bytes;
                        this.session.heard();
                    }
                    // An error: the client went away without a farewell.
                    Poll::Ready(None | Some(Err(_))) => return Poll::Ready(None),
                },
            }
        }
    }
}
