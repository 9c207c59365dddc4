//! What a session sends, as the body of its connection's response.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use actix_web::Error;
use bytes::Bytes;
use futures_core::Stream;

use super::Session;
use crate::limits::CHUNK_BYTES;

/// Runs the session's actor, then sends what is there to be sent.
pub(crate) struct Outbound<S> {
    /// The actor's context. It writes nothing itself: what it would write could not be bounded.
    actor: Pin<Box<S>>,
    session: Rc<Session>,
    is_over: bool,
    /// Polls since everything was taken in which the socket took more.
    idle_polls: u8,
    /// Bytes that were taken since the actor last ran.
    run: usize,
}

/// Bytes that are taken before the actor runs again: it costs as much as some slices do, and what the client says
/// meanwhile, a ping, is heard of by it alone.
const RUN_MAX: usize = CHUNK_BYTES;

impl<S> Outbound<S> {
    pub(crate) fn new(actor: S, session: Rc<Session>) -> Self {
        Self {
            actor: Box::pin(actor),
            session,
            is_over: false,
            idle_polls: 0,
            run: RUN_MAX,
        }
    }
}

impl<S: Stream<Item = Result<Bytes, Error>>> Stream for Outbound<S> {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.session.wakes(cx);
        if this.run < RUN_MAX
            && let Some(slice) = this.session.take(CHUNK_BYTES)
        {
            this.run += slice.len();
            return Poll::Ready(Some(Ok(slice)));
        }
        this.run = 0;
        if !this.is_over {
            match this.actor.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(written))) => return Poll::Ready(Some(Ok(written))),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    this.is_over = true;
                    this.session.end();
                }
                Poll::Pending => {}
            }
            this.session.follower.catch_up(&this.session);
        }
        match this.session.take(CHUNK_BYTES) {
            Some(slice) => Poll::Ready(Some(Ok(slice))),
            None if this.is_over || this.session.is_closed() => {
                // The connection's buffer is written after a poll, and whole if the socket takes it: no event tells.
                if !this.session.line.is_writable() {
                    this.idle_polls = 0;
                    return Poll::Pending;
                }
                this.idle_polls += 1;
                if this.idle_polls < 2 {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                this.session.line.finish();
                Poll::Ready(None)
            }
            None => {
                this.run = RUN_MAX;
                Poll::Pending
            }
        }
    }
}
