//! One HTTP request: it lives as long as somebody waits for its answer, and gives one reply.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::Poll,
    time::Instant,
};

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, WrapFuture};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{
    access::TenantId,
    rpc::{Answer, Dispatcher},
};

/// Answers one body; started on the arbiter of the worker that read it.
///
/// When the receiver of its reply is dropped because the client went away, so is everything that was going on for it.
pub(crate) struct RequestActor {
    dispatcher: Rc<Dispatcher>,
    tenant: TenantId,
    body: Bytes,
    arrived: Instant,
    reply: Option<oneshot::Sender<Answer>>,
}

impl RequestActor {
    /// Starts the actor for a body that `arrived`; the answer comes through the receiver, or nothing if it panicked.
    pub(crate) fn answer(
        dispatcher: Rc<Dispatcher>,
        tenant: TenantId,
        body: Bytes,
        arrived: Instant,
    ) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        Self {
            dispatcher,
            tenant,
            body,
            arrived,
            reply: Some(reply),
        }
        .start();
        answer
    }
}

impl Actor for RequestActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let Some(reply) = self.reply.take() else {
            return;
        };
        let (dispatcher, tenant, arrived) =
            (Rc::clone(&self.dispatcher), self.tenant, self.arrived);
        let body = std::mem::take(&mut self.body);
        let work = async move {
            deliver(dispatcher.answer(tenant, &body, arrived), reply).await;
        };
        ctx.spawn(work.into_actor(self).map(|(), _, ctx| ctx.stop()));
    }
}

/// Sends the answer when it is there, and gives up on it as soon as nobody waits for it.
async fn deliver(answer: impl Future<Output = Answer>, mut reply: oneshot::Sender<Answer>) {
    let mut answer = pin!(answer);
    let answered = poll_fn(|cx| match answer.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => reply.poll_closed(cx).map(|()| None),
    })
    .await;
    if let Some(answer) = answered {
        // Whoever went away in this moment does not need it.
        let _ = reply.send(answer);
    }
}
