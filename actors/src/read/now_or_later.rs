//! An actor's reply, ready now or later.

use std::pin::Pin;

use actix::{
    Actor, Message,
    dev::{MessageResponse, OneshotSender},
};

use tracing::Instrument;

use crate::{messages::Reply, trace};

/// A reply that is ready, or a future for it, which is dropped when nobody waits for the reply any
/// more.
pub enum NowOrLater<T> {
    /// The reply.
    Now(Reply<T>),
    /// The future that makes the reply.
    Later(Pin<Box<dyn Future<Output = Reply<T>>>>),
}

impl<T> NowOrLater<T> {
    /// The future works in the span that its message is handled in.
    pub(crate) fn later(reply: impl Future<Output = Reply<T>> + 'static) -> Self {
        Self::Later(Box::pin(reply.instrument(trace::current())))
    }
}

impl<A, M, T> MessageResponse<A, M> for NowOrLater<T>
where
    A: Actor,
    M: Message<Result = Reply<T>>,
    T: 'static,
{
    fn handle(self, _: &mut A::Context, sender: Option<OneshotSender<Reply<T>>>) {
        let Some(mut sender) = sender else {
            return;
        };
        match self {
            // Sending fails if nobody waits for the reply any more.
            Self::Now(reply) => drop(sender.send(reply)),
            Self::Later(reply) => drop(actix::spawn(async move {
                tokio::select! {
                    reply = reply => drop(sender.send(reply)),
                    () = sender.closed() => {}
                }
            })),
        }
    }
}
