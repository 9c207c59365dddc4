//! What a session sends, as the body of its connection's response.

use std::{
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use actix_web::Error;
use bytes::Bytes;
use futures_core::Stream;
use parking_lot::Mutex;

use super::Session;
use crate::limits::CHUNK_BYTES;

/// Runs the session's actor when it has something to do, and sends what is there to be sent.
///
/// Both are one task: without telling apart what woke it, the actor would run for every
/// notification, which it has no part in.
pub(crate) struct Outbound<S> {
    /// The actor's context. It writes nothing itself: what it would write could not be bounded.
    actor: Pin<Box<S>>,
    alarm: Arc<Alarm>,
    /// The alarm, as the actor is given it.
    waker: Waker,
    session: Rc<Session>,
    is_over: bool,
    /// Polls since everything was taken in which the socket took more.
    idle_polls: u8,
}

/// Notes that the actor has something to do, and wakes the task that it is a part of.
struct Alarm {
    is_due: AtomicBool,
    task: Mutex<Waker>,
}

impl Alarm {
    /// Whether the actor is to run; the task is the one of this context.
    fn is_due(&self, cx: &Context<'_>) -> bool {
        let mut task = self.task.lock();
        if !task.will_wake(cx.waker()) {
            task.clone_from(cx.waker());
        }
        drop(task);
        self.is_due.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.task.lock().wake_by_ref();
    }
}

impl<S> Outbound<S> {
    pub(crate) fn new(actor: S, session: Rc<Session>) -> Self {
        let alarm = Arc::new(Alarm {
            is_due: AtomicBool::new(true),
            task: Mutex::new(Waker::noop().clone()),
        });
        Self {
            actor: Box::pin(actor),
            waker: Arc::clone(&alarm).into(),
            alarm,
            session,
            is_over: false,
            idle_polls: 0,
        }
    }

    /// Nothing is left to be sent: waits, or ends when everything is with the kernel.
    fn poll_end(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if !self.is_over && !self.session.is_closed() {
            return Poll::Pending;
        }
        // The connection's buffer is written after a poll, and whole if the socket takes it: no
        // event tells.
        if !self.session.connection.is_writable() {
            self.idle_polls = 0;
            return Poll::Pending;
        }
        self.idle_polls += 1;
        if self.idle_polls < 2 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.session.connection.finish();
        Poll::Ready(None)
    }
}

impl<S: Stream<Item = Result<Bytes, Error>>> Stream for Outbound<S> {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.session.wakes(cx);
        // What was held back may be read now: whoever changes that knows the session alone.
        let is_due = this.alarm.is_due(cx) | this.session.was_held_back();
        if is_due && !this.is_over {
            match this
                .actor
                .as_mut()
                .poll_next(&mut Context::from_waker(&this.waker))
            {
                Poll::Ready(Some(written)) => {
                    this.alarm.is_due.store(true, Ordering::Release);
                    return Poll::Ready(Some(written));
                }
                Poll::Ready(None) => {
                    this.is_over = true;
                    this.session.end();
                }
                Poll::Pending => {}
            }
        }
        if let Some(bytes) = this.session.take(CHUNK_BYTES) {
            return Poll::Ready(Some(Ok(bytes)));
        }
        if !this.is_over {
            this.session.subscriptions.catch_up(&this.session);
        }
        match this.session.take(CHUNK_BYTES) {
            Some(bytes) => Poll::Ready(Some(Ok(bytes))),
            None => this.poll_end(cx),
        }
    }
}
