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
    Session, Why,
    frame::{Boundaries, CONTROL_BYTES_MAX, Found, FrameKind},
};
use crate::{
    body_budget::{BodyBudget, Charge},
    limits::{MESSAGE_BYTES_MAX, UNCOUNTED_MESSAGE_BYTES},
};

/// The bytes of a connection, let in frame by frame: the next one when the actor has seen the one before, the next message
/// when the session can answer it. Who asks faster than it reads waits in its own socket. What a message may take of
/// memory and of time is judged here too.
pub(crate) struct Inbound {
    payload: Payload,
    session: Rc<Session>,
    boundaries: Boundaries,
    /// Bytes that were read and not let in yet.
    rest: Bytes,
    budget: BodyBudget,
    /// Bytes of payload that the frames of the present message announced.
    announced: usize,
    /// Bytes of the present message that were let in, with its frames' headers.
    len: usize,
    /// What they take of the worker's memory.
    charge: Charge,
}

impl Inbound {
    pub(crate) fn new(payload: Payload, session: Rc<Session>, budget: BodyBudget) -> Self {
        Self {
            payload,
            session,
            boundaries: Boundaries::default(),
            rest: Bytes::new(),
            announced: 0,
            len: 0,
            charge: budget.open(),
            budget,
        }
    }

    /// Goes through what was read, up to the end of a frame: how many bytes may be let in.
    fn next_part(&mut self) -> Result<usize, Why> {
        let mut end = 0;
        loop {
            let (taken, found) = self.boundaries.next(&self.rest[end..]);
            end += taken;
            if self.boundaries.is_data() {
                self.count(taken)?;
            }
            match found {
                Found::Nothing => return Ok(end),
                Found::Begin { len, is_data } => self.begin(len, is_data)?,
                Found::End(kind) => {
                    let is_message = kind == FrameKind::Last;
                    let message = is_message.then(|| {
                        (self.announced, self.len) = (0, 0);
                        std::mem::replace(&mut self.charge, self.budget.open())
                    });
                    self.session.hands_over(kind, message);
                    return Ok(end);
                }
            }
        }
    }

    /// Judges a frame by its header.
    fn begin(&mut self, len: u64, is_data: bool) -> Result<(), Why> {
        if !is_data {
            let is_legal = len <= CONTROL_BYTES_MAX as u64;
            return if is_legal { Ok(()) } else { Err(Why::PROTOCOL) };
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.announced = self.announced.saturating_add(len);
        if self.announced > MESSAGE_BYTES_MAX {
            return Err(Why::TOO_LARGE);
        }
        self.session.message_began();
        Ok(())
    }

    /// Counts what is let in; the little that the usual message is, is not worth it.
    fn count(&mut self, bytes: usize) -> Result<(), Why> {
        self.len += bytes;
        if self.len > UNCOUNTED_MESSAGE_BYTES {
            self.charge.add(bytes).map_err(|_| Why::BUSY)?;
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
        if !this.session.reads() {
            // Whoever changes that wakes the session.
            return Poll::Pending;
        }
        if this.rest.is_empty() {
            this.rest = match Pin::new(&mut this.payload).poll_next(cx) {
                Poll::Ready(Some(Ok(bytes))) => bytes,
                other => return other,
            };
            this.session.heard();
        }
        match this.next_part() {
            Ok(end) => Poll::Ready(Some(Ok(this.rest.split_to(end)))),
            Err(why) => {
                this.session.close(why);
                Poll::Ready(None)
            }
        }
    }
}
