//! One HTTP request: it lives as long as somebody waits for its answer, and gives one reply.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use crate::rpc::Answer;

/// Works out one answer; started on the arbiter of the worker that read the request.
///
/// When the receiver of its reply is dropped because the client went away, so is everything that
/// was going on for it.
pub(crate) struct RequestActor(Option<(Work, oneshot::Sender<Answer>, Span)>);

/// Boxed once: the actor is moved several times before its work begins.
type Work = Pin<Box<dyn Future<Output = Answer>>>;

impl RequestActor {
    /// Starts the actor; the answer comes through the receiver, or nothing if working it out
    /// panicked. What is logged meanwhile stands in `span`.
    pub(crate) fn answer(
        work: impl Future<Output = Answer> + 'static,
        span: Span,
    ) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        Self(Some((Box::pin(work), reply, span))).start();
        answer
    }
}

impl Actor for RequestActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some((work, reply, span)) = self.0.take() {
            let work = deliver(work, reply).instrument(span);
            ctx.spawn(work.into_actor(self).map(|(), _, ctx| ctx.stop()));
        }
    }
}

/// Sends the answer when it is there, and gives up on it as soon as nobody waits for it.
async fn deliver(mut work: Work, mut reply: oneshot::Sender<Answer>) {
    let answered = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => reply.poll_closed(cx).map(|()| None),
    })
    .await;
    if let Some(answer) = answered {
        // Whoever went away in this moment does not need it.
        let _ = reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::rpc::RpcError;

    #[actix::test]
    async fn one_that_panics_gives_no_answer_and_hurts_nobody() {
        let ok = || async { Answer::error("1", &RpcError::Parse) };
        let before = RequestActor::answer(ok(), Span::none());
        let wild = RequestActor::answer(async { panic!("on purpose") }, Span::none());
        let after = RequestActor::answer(ok(), Span::none());
        assert!(wild.await.is_err());
        assert!(before.await.is_ok() && after.await.is_ok());
    }

    #[actix::test]
    async fn work_that_nobody_waits_for_is_dropped() {
        let (alive, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _alive = alive;
            pending().await
        };
        drop(RequestActor::answer(work, Span::none()));
        assert!(dropped.await.is_err());
    }
}
