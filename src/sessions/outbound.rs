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
    is_last_poll: bool,
    /// Slices that were taken since the actor last ran.
    run: usize,
}

/// Slices that are taken before the actor runs again: it costs as much as some slices do.
const RUN_MAX: usize = 64;

impl<S> Outbound<S> {
    pub(crate) fn new(actor: S, session: Rc<Session>) -> Self {
        Self {
            actor: Box::pin(actor),
            session,
            is_over: false,
            is_last_poll: false,
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
            this.run += 1;
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
                // By the next poll the last bytes were given to the kernel.
                if !std::mem::replace(&mut this.is_last_poll, true) {
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
