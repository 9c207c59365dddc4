//! An actor's reply that may be there at once.

use std::pin::Pin;

use actix::{
    Actor, Message,
    dev::{MessageResponse, OneshotSender},
};

use crate::messages::Reply;

/// A reply that is there, or whatever makes it; that is dropped when nobody waits for it any more.
pub enum NowOrLater<T> {
    /// It is there.
    Now(Reply<T>),
    /// It will be.
    Later(Pin<Box<dyn Future<Output = Reply<T>>>>),
}

impl<T> NowOrLater<T> {
    pub(crate) fn later(reply: impl Future<Output = Reply<T>> + 'static) -> Self {
        Self::Later(Box::pin(reply))
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
            // Who is not there any more needs no reply.
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
