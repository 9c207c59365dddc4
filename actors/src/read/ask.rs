//! Asks an actor and waits for its answer.

use actix::{Addr, Handler, Message, dev::ToEnvelope};

use crate::messages::{QueryError, Reply};

/// Sends a message and waits for the answer. Dropping the future takes the message back if its turn
/// has not come.
///
/// # Errors
/// The actor's own error, or [`QueryError::Unavailable`] if the actor has stopped.
pub async fn ask<A, M, T>(actor: &Addr<A>, message: M) -> Reply<T>
where
    A: Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = Reply<T>> + Send + 'static,
    T: Send + 'static,
{
    actor
        .send(message)
        .await
        .unwrap_or(Err(QueryError::Unavailable))
}
