//! What a reply is charged for until its client has taken it.

use std::time::Instant;

use nearhead_actors::admission::ReplyCharge;
use nearhead_chain::json::Json;

use super::{
    answer::Answer,
    context::RequestContext,
    dispatcher::{Dispatcher, Received},
    error::{QuerySubject, RpcError},
};
use crate::{
    access::ActiveKey,
    limits::{CHARGED_REPLY_BYTES_MIN, CHUNK_BYTES},
    metrics::Outcome,
};

impl Dispatcher {
    /// Charges the tenant for what the reply holds until its client has taken it, or refuses it:
    /// then filters give again what it has of them, also to a client that asks another process of
    /// the fleet.
    pub(super) async fn charge_reply(
        &self,
        context: &RequestContext<'_>,
        id: &str,
        mut answer: Answer,
        received: Received,
    ) -> Answer {
        let bytes = answer.json.as_ref().map_or(0, |json| {
            // A session has one buffer for all of its answers.
            let buffered = match context.session {
                Some(_) => 0,
                None => json.len().min(CHUNK_BYTES),
            };
            held_bytes(json) + buffered
        });
        let permits = answer.permits.as_mut();
        let mut charge = permits.and_then(|permits| permits.reply.take());
        match self.charge(context.key, &mut charge, bytes) {
            Ok(()) => {
                match answer.outcome {
                    Outcome::Ok => context.advances.keep(),
                    _ => context.advances.take_back(0).await,
                }
                answer.holding(charge, None)
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
