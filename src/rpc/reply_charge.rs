//! What a reply is charged for until its client has taken it.

use std::time::Instant;

use nearhead_actors::admission::ReplyCharge;
use nearhead_chain::json::Json;

use super::{
    answer::{Answer, AnswerPermits},
    context::RequestContext,
    dispatcher::{Dispatcher, Received},
    error::{QuerySubject, RpcError},
};
use crate::{access::ActiveKey, limits::CHARGED_REPLY_BYTES_MIN, metrics::Outcome};

impl Dispatcher {
    /// Charges the tenant for what the reply holds until its client has taken it, also in the
    /// connection's buffers, or refuses it: then filters give again what it has of them, also to a
    /// client that asks another process of the fleet.
    pub(super) async fn charge_reply(
        &self,
        context: &RequestContext<'_>,
        id: &str,
        mut answer: Answer,
        received: Received,
    ) -> Answer {
        let json = answer.json.as_ref();
        let (len, held) = json.map_or((0, 0), |json| (json.len(), held_bytes(json)));
        let of_session = match context.session {
            Some(session) if len >= CHARGED_REPLY_BYTES_MIN => session.uncharged_buffer(),
            _ => 0,
        };
        let permits = answer.permits.as_mut();
        let mut reply = permits.and_then(|permits| permits.reply.take());
        let mut buffer = None;
        let charged = self
            .charge(
                context.key,
                &mut reply,
                held + len.min(context.buffered_max),
            )
            .and_then(|()| self.charge(context.key, &mut buffer, of_session));
        match charged {
            Ok(()) => {
                match answer.outcome {
                    Outcome::Ok => context.advances.keep(),
                    _ => context.advances.take_back(0).await,
                }
                answer.holding(AnswerPermits {
                    reply,
                    buffer,
                    large_answer: None,
                })
            }
            Err(error) => {
                context.advances.take_back(0).await;
                self.refuse_answered(context.key, id, &error, answer.units, received)
            }
        }
    }

    /// Charges the tenant for a reply that holds so many bytes, beyond what is charged already.
    pub(super) fn charge(
        &self,
        key: &ActiveKey,
        charge: &mut Option<ReplyCharge>,
        bytes: usize,
    ) -> Result<(), RpcError> {
        if bytes < CHARGED_REPLY_BYTES_MIN {
            return Ok(());
        }
        let replies = &self.worker.resources().replies;
        if bytes > replies.max() {
            return Err(RpcError::ResponseTooLarge);
        }
        let now = Instant::now();
        let charged = match charge {
            Some(charge) => charge.grow_to(bytes, now),
            None => replies
                .charge(key.tenant.call_budget.share(), bytes, now)
                .map(|new| *charge = Some(new)),
        };
        charged.map_err(|error| RpcError::from_query(error, QuerySubject::Blocks))
    }
}

/// Bytes that a reply owns, the list of its pieces included.
fn held_bytes(json: &Json) -> usize {
    json.held() + size_of_val(json.pieces())
}
