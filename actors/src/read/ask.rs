//! Asks an actor and waits for its answer.

use actix::{Addr, Handler, Message, dev::ToEnvelope};
use tracing::field;

use super::traced::Traced;
use crate::{
    messages::{QueryError, Reply},
    step,
    trace::name_of,
};

/// Sends a message and waits for the answer. Dropping the future takes the message back if its turn
/// has not come.
///
/// # Errors
/// The actor's own error, or [`QueryError::Unavailable`] if the actor has stopped.
pub async fn ask<A, M, T>(actor: &Addr<A>, message: M) -> Reply<T>
where
    A: Handler<Traced<M>>,
    A::Context: ToEnvelope<A, Traced<M>>,
    M: Message<Result = Reply<T>> + Send + 'static,
    T: Send + 'static,
{
    let span = step!(
        "message",
        otel.name = name_of::<M>(),
        actor = name_of::<A>(),
        otel.status_code = field::Empty,
    );
    let sent = Traced {
        message,
        span: span.clone(),
    };
    let reply = actor
        .send(sent)
        .await
        .unwrap_or(Err(QueryError::Unavailable));
    if reply.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    reply
}
