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
    frame::{Boundaries, CONTROL_BYTES_MAX, Found},
};
use crate::{
    body_budget::{BodyBudget, Charge},
    limits::MESSAGE_BYTES_MAX,
};

/// The bytes of a connection, held back at the end of every message until the session can answer the next one: who asks
/// faster than it reads waits in its own socket.
pub(crate) struct Inbound {
    payload: Payload,
    session: Rc<Session>,
    boundaries: Boundaries,
    /// Bytes that were read and not let in yet.
    rest: Bytes,
    budget: BodyBudget,
    /// What a large frame takes of the worker's memory while it is put together.
    charge: Option<Charge>,
}

impl Inbound {
    pub(crate) fn new(payload: Payload, session: Rc<Session>, budget: BodyBudget) -> Self {
        Self {
            payload,
            session,
            boundaries: Boundaries::default(),
            rest: Bytes::new(),
            budget,
            charge: None,
        }
    }

    /// Judges a frame by its header.
    fn begin(&mut self, len: u64, is_data: bool) -> Result<(), Why> {
        if !is_data {
            let is_legal = len <= CONTROL_BYTES_MAX as u64;
            return if is_legal { Ok(()) } else { Err(Why::PROTOCOL) };
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > MESSAGE_BYTES_MAX {
            return Err(Why::TOO_LARGE);
        }
        self.charge = Some(self.budget.charge(len).map_err(|_| Why::BUSY)?);
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
        let mut end = 0;
        loop {
            let (taken, found) = this.boundaries.next(&this.rest[end..]);
            end += taken;
            match found {
                Found::Nothing => break,
                Found::Begin { len, is_data } => {
                    if let Err(why) = this.begin(len, is_data) {
                        this.session.close(why);
                        return Poll::Ready(None);
                    }
                }
                Found::End { is_message } => {
                    this.charge = None;
                    if is_message {
                        this.session.hands_over();
                    }
                    break;
                }
            }
        }
        Poll::Ready(Some(Ok(this.rest.split_to(end))))
    }
}
