//! One HTTP request as an actor: it ends with its answer, or when its client goes away.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use crate::rpc::Answer;

/// Computes one answer, on the arbiter of the worker that read the request or of its large bodies.
///
/// When the client goes away, the receiver of the answer is dropped, and all work for the answer
/// with it.
pub(crate) struct RequestActor(Option<(Work, oneshot::Sender<Answer>, Span)>);

/// Boxed, because the actor is moved several times before its work begins.
type Work = Pin<Box<dyn Future<Output = Answer>>>;

impl RequestActor {
    /// Starts the actor. The receiver gets the answer, or an error if the work panicked. Log
    /// events of the work are in `span`.
    pub(crate) fn answer(
        work: impl Future<Output = Answer> + 'static,
        span: Span,
    ) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        Self::send_answer(work, sender, span);
        receiver
    }

    /// The same with this sender, whose receiver may be on another thread.
    pub(super) fn send_answer(
        work: impl Future<Output = Answer> + 'static,
        sender: oneshot::Sender<Answer>,
        span: Span,
    ) {
        Self(Some((Box::pin(work), sender, span))).start();
    }
}

impl Actor for RequestActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some((work, sender, span)) = self.0.take() {
            let work = deliver(work, sender).instrument(span);
            ctx.spawn(work.into_actor(self).map(|(), _, ctx| ctx.stop()));
        }
    }
}

/// Sends the answer when it is ready, and drops the work as soon as the receiver is dropped.
async fn deliver(mut work: Work, mut sender: oneshot::Sender<Answer>) {
    let answered = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => sender.poll_closed(cx).map(|()| None),
    })
    .await;
    if let Some(answer) = answered {
        // Sending fails if the client has just gone away.
        let _ = sender.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::rpc::RpcError;

    #[actix::test]
    async fn a_panic_gives_no_answer_and_does_not_affect_other_requests() {
        let ok = || async { Answer::error("1", &RpcError::Parse) };
        let before = RequestActor::answer(ok(), Span::none());
        let panicking = RequestActor::answer(async { panic!("on purpose") }, Span::none());
        let after = RequestActor::answer(ok(), Span::none());
        assert!(panicking.await.is_err());
        assert!(before.await.is_ok() && after.await.is_ok());
    }

    #[actix::test]
    async fn work_is_dropped_with_its_receiver() {
        let (alive, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _alive = alive;
            pending().await
        };
        drop(RequestActor::answer(work, Span::none()));
        assert!(dropped.await.is_err());
    }
}
