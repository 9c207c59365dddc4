//! A message with the span of the request that it is for.

use actix::Message;
use tracing::Span;

/// A message as `ask` sends it: its handler works in the span.
#[derive(Debug)]
pub struct Traced<M> {
    pub(super) message: M,
    pub(super) span: Span,
}

impl<M: Message> Message for Traced<M> {
    type Result = M::Result;
}

/// Has an actor handle these messages when they are sent with their spans.
///
/// A handler for all messages at once would be an implementation of actix's trait for any actor,
/// which only actix may have.
macro_rules! handle_traced {
    ($actor:ty: $($message:ty),+ $(,)?) => {$(
        impl actix::Handler<$crate::read::Traced<$message>> for $actor {
            type Result = <Self as actix::Handler<$message>>::Result;

            fn handle(
                &mut self,
                traced: $crate::read::Traced<$message>,
                ctx: &mut Self::Context,
            ) -> Self::Result {
                let _entered = traced.span.enter();
                <Self as actix::Handler<$message>>::handle(self, traced.message, ctx)
            }
        }
    )+};
}

pub(super) use handle_traced;
