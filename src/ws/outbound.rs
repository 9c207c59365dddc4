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

use super::session::Session;
use crate::limits::CHUNK_BYTES;

/// Runs the session's actor when it has something to do, and sends what waits.
///
/// The actor and the connection are one task. [`ActorWaker`] separates the actor's wakes
/// from others, so that the actor does not run for every notification.
pub(super) struct Outbound<S> {
    /// The actor's context. It writes nothing itself, because its buffer has no bound.
    actor: Pin<Box<S>>,
    actor_waker: Arc<ActorWaker>,
    /// The same waker, in the form that the actor is polled with.
    waker: Waker,
    session: Rc<Session>,
    is_over: bool,
}

/// Records that the actor has something to do, and wakes its task.
struct ActorWaker {
    is_due: AtomicBool,
    task: Mutex<Waker>,
}

impl ActorWaker {
    /// Whether the actor has something to do. From now on, its wakes go to the task of this
    /// context.
    fn take_due(&self, cx: &Context<'_>) -> bool {
        let mut task = self.task.lock();
        if !task.will_wake(cx.waker()) {
            task.clone_from(cx.waker());
        }
        drop(task);
        self.is_due.swap(false, Ordering::AcqRel)
    }
}

impl Wake for ActorWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.task.lock().wake_by_ref();
    }
}

impl<S> Outbound<S> {
    pub(super) fn new(actor: S, session: Rc<Session>) -> Self {
        let actor_waker = Arc::new(ActorWaker {
            is_due: AtomicBool::new(true),
            task: Mutex::new(Waker::noop().clone()),
        });
        Self {
            actor: Box::pin(actor),
            waker: Arc::clone(&actor_waker).into(),
            actor_waker,
            session,
            is_over: false,
        }
    }

    /// Nothing is left to pass on: waits, or ends once everything is sent.
    fn poll_end(&self) -> Poll<Option<Result<Bytes, Error>>> {
        self.session.release_buffer();
        if !self.is_over && !self.session.is_closed() {
            return Poll::Pending;
        }
        match self.session.connection.end_when_sent() {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }
}

impl<S: Stream<Item = Result<Bytes, Error>>> Stream for Outbound<S> {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.session.set_waker(cx);
        // The wake that ends a pause in reading goes to the session, not to the actor.
        let is_due = this.actor_waker.take_due(cx) | this.session.take_paused();
        if is_due && !this.is_over {
            match this
                .actor
                .as_mut()
                .poll_next(&mut Context::from_waker(&this.waker))
            {
                Poll::Ready(Some(written)) => {
                    this.actor_waker.is_due.store(true, Ordering::Release);
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
            None => this.poll_end(),
        }
    }
}
