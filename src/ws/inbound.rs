//! What a client sends, passed to the session's actor frame by frame.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use actix_web::{dev::Payload, error::PayloadError};
use bytes::Bytes;
use futures_core::Stream;

use super::{
    close_reason::CloseReason,
    frame::{CONTROL_BYTES_MAX, FrameEvent, FrameKind, FrameStart, Reframer},
    session::Session,
};
use crate::limits::{FRAME_WORDS_MAX, MESSAGE_BYTES_MAX};

/// The bytes of a connection, passed on frame by frame: the next frame once the actor has handled
/// the previous one, the next message once the session can answer it.
///
/// Requests that come faster than they are answered wait in the client's socket. Control frames
/// before the next message are still read, and a message that has begun is read to its end.
pub(super) struct Inbound {
    payload: Payload,
    session: Rc<Session>,
    reframer: Reframer,
    /// Bytes that were read but not passed on yet.
    rest: Bytes,
    /// Bytes of payload that the frames of the current message announced.
    announced: usize,
}

impl Inbound {
    pub(super) fn new(payload: Payload, session: Rc<Session>) -> Self {
        Self {
            payload,
            session,
            reframer: Reframer::new(FRAME_WORDS_MAX),
            rest: Bytes::new(),
            announced: 0,
        }
    }

    /// Checks a frame by its header.
    fn check(&mut self, start: FrameStart, len: u64) -> Result<(), CloseReason> {
        if start == FrameStart::Control {
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
        if start == FrameStart::Message {
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
            if !this.session.may_read() {
                // Whatever allows reading again wakes the session.
                return Poll::Pending;
            }
            match this.reframer.next(&mut this.rest) {
                FrameEvent::Bytes(bytes) => {
                    this.session.bytes_passed();
                    return Poll::Ready(Some(Ok(bytes)));
                }
                FrameEvent::Announced(start, len) => {
                    if let Err(reason) = this.check(start, len) {
                        this.session.close(reason);
                        return Poll::Ready(None);
                    }
                }
                FrameEvent::End(kind) => {
                    if kind == FrameKind::Last {
                        this.announced = 0;
                    }
                    this.session.frame_passed(kind);
                }
                FrameEvent::NeedsInput => match Pin::new(&mut this.payload).poll_next(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(bytes))) => {
                        this.rest = bytes;
                        this.session.bytes_received();
                    }
                    // An error means that the client went away without a close frame.
                    Poll::Ready(None | Some(Err(_))) => return Poll::Ready(None),
                },
            }
        }
    }
}
