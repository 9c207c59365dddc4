//! From a request body to its answer: parse, admit, run, write.

mod received;
mod run;
mod spans;

use std::{cell::Cell, pin::pin, rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use nearhead_actors::{
    admission::{CostClass, LARGE_BODY_BYTES, Panicked, Panics},
    messages::QueryError,
    read::Worker,
    readiness::Readiness,
    step,
};
use nearhead_chain::json::Json;
use nearhead_tenants::usage::RequestUse;
use serde_json::value::RawValue;
use tracing::Instrument;

pub(super) use received::Received;
use run::run;
use spans::ItemSpans;

use super::{
    answer::{Answer, AnswerPermits, Writer, response_len},
    block_waits::{BlockWaits, Wanted},
    context::RequestContext,
    contracts::ContractCheck,
    envelope::{Call, Envelope, Malformed, NULL_ID},
    error::{QuerySubject, RpcError},
    forwarding::Forwarding,
    leading_id::leading_id,
    price::{self, MINIMUM_UNITS},
    registry::{METHODS, Method},
    request_session::RequestSession,
    via::Via,
};
use crate::{
    access::{ActiveKey, Exceeded, MethodSet, Now},
    filters::{Advances, Filters},
    limits::{
        BATCH_REPLY_BYTES_MAX, BUILT_RESULT_BYTES_MAX, CHARGED_BATCH_STEP, CallLimits,
        JOINED_ITEM_BYTES_MAX,
    },
    metrics::{Metrics, Outcome},
    tenants::UsageMeter,
};

/// Answers request bodies; one per worker. All transports share it, so that they answer alike.
#[derive(Clone)]
pub struct Dispatcher {
    /// The pointer to the current snapshot, and whether its head is fresh.
    pub readiness: Readiness,
    /// The read actors of this worker.
    pub worker: Worker,
    /// Counts every request.
    pub metrics: Metrics,
    /// Counts what each key uses.
    pub usage: UsageMeter,
    /// Longest time that one eth_getLogs may run, from admission.
    pub logs_deadline: Duration,
    /// The limits of one call of a contract.
    pub calls: CallLimits,
    /// The filters of all keys.
    pub filters: Filters,
    /// The requests of this thread that wait for a block.
    pub waits: Rc<BlockWaits>,
    /// What is forwarded to nodes.
    pub forwarding: Forwarding,
    /// The OpenRPC document.
    pub openrpc: Bytes,
}

impl Dispatcher {
    /// Answers one body with this key that arrived at `now`. What the answer costs is charged to
    /// the key and its tenant.
    ///
    /// Dropping the future withdraws what is queued and cancels what runs.
    pub async fn answer(&self, key: &ActiveKey, body: &[u8], now: Now, via: Via<'_>) -> Answer {
        let answer = pin!(self.answer_body(key, body, now, via));
        // A panic of the dispatcher itself would end a session.
        let caught = self.panics().catch_async(answer).await;
        let received = Received::new(body.len(), 1, now);
        caught.unwrap_or_else(|Panicked| {
            self.refuse(
                key,
                NULL_ID,
                &RpcError::Internal,
                received.minimum_units(),
                received,
            )
        })
    }

    async fn answer_body(&self, key: &ActiveKey, body: &[u8], now: Now, via: Via<'_>) -> Answer {
        let is_large = body.len() >= LARGE_BODY_BYTES;
        if is_large {
            // What waits for a turn, or is refused one, is a request already.
            if let Err(exceeded) = key.take(1, now) {
                let id = leading_id(body);
                return self.refuse_exceeded(key, id, exceeded, Received::new(body.len(), 1, now));
            }
            // Boxed, so that a request with a small body does not carry the future's state.
            let share = key.tenant.call_budget.share();
            let turn = Box::pin(self.worker.body_turn(share, body.len()));
            if let Err(error) = turn.instrument(step!("turn")).await {
                return self.refuse_unread(key, body, error, now);
            }
        }
        let parsed = Envelope::parse(body);
        let requests = parsed.as_ref().map_or(1, Envelope::requests);
        spans::record_body(body.len(), requests);
        let received = Received::new(body.len(), requests, now);
        let taken = match (is_large, requests) {
            (true, 1) => Ok(()),
            // All of a batch are taken at once: it may have more than the quota ever holds.
            (true, _) => key.take_instead(1, requests, now),
            (false, _) => key.take(requests, now),
        };
        if let Err(exceeded) = taken {
            let id = parsed.as_ref().map_or(NULL_ID, Envelope::id);
            return self.refuse_exceeded(key, id, exceeded, received);
        }
        let mut answer = self.answer_parsed(key, parsed, received, via).await;
        answer.remaining = key.remaining(now);
        answer
    }

    /// The answer to a body that a quota does not allow.
    fn refuse_exceeded(
        &self,
        key: &ActiveKey,
        id: &str,
        exceeded: Exceeded,
        received: Received,
    ) -> Answer {
        let error = RpcError::QuotaExceeded(exceeded);
        Answer {
            remaining: key.remaining(received.at),
            ..self.refuse(key, id, &error, 0, received)
        }
    }

    /// The answer to a body whose turn does not come: it is not parsed.
    pub(crate) fn refuse_unread(
        &self,
        key: &ActiveKey,
        body: &[u8],
        error: QueryError,
        now: Now,
    ) -> Answer {
        let error = RpcError::from_query(error, QuerySubject::Blocks);
        let received = Received::new(body.len(), 1, now);
        let units = received.minimum_units();
        Answer {
            remaining: key.remaining(now),
            ..self.refuse(key, leading_id(body), &error, units, received)
        }
    }

    async fn answer_parsed(
        &self,
        key: &ActiveKey,
        parsed: Result<Envelope<'_>, RpcError>,
        received: Received,
        via: Via<'_>,
    ) -> Answer {
        let envelope = match parsed {
            Ok(envelope) => envelope,
            Err(error) => {
                return self.refuse(key, NULL_ID, &error, received.minimum_units(), received);
            }
        };
        let refuse = |error: &RpcError| {
            let units = received.minimum_units();
            self.refuse(key, envelope.id(), error, units, received)
        };
        let wanted = match Wanted::of(&via, &envelope) {
            Ok(wanted) => wanted,
            Err(error) => return refuse(&error),
        };
        if !wanted.is_empty() {
            // Boxed, so that other requests do not carry the future's state.
            let metrics = &self.metrics.block_waits;
            let reached = self
                .waits
                .reach(&wanted, &key.tenant, &self.readiness, metrics);
            if let Err(error) = Box::pin(reached).await {
                return refuse(&error);
            }
        }
        let methods = key.tenant.limits.methods;
        let session = via.session;
        let large_answer = match session {
            Some(session) if self.may_be_large(&envelope, methods) => {
                session.large_answer().acquire_owned().await.ok()
            }
            _ => None,
        };
        let Some(snapshot) = self.readiness.head.load() else {
            return refuse(&RpcError::Unavailable);
        };
        // A reorg may have led to a lower head.
        if let Err(error) = wanted.check(&snapshot) {
            return refuse(&error);
        }
        let context = RequestContext {
            key,
            snapshot,
            readiness: &self.readiness,
            worker: &self.worker,
            logs_deadline: self.logs_deadline,
            calls: self.calls,
            sends_transactions: self.forwarding.sends(),
            openrpc: &self.openrpc,
            filters: &self.filters,
            advances: Advances::default(),
            built_max: match envelope {
                Envelope::Batch(_) => JOINED_ITEM_BYTES_MAX,
                _ => BUILT_RESULT_BYTES_MAX,
            },
            session,
            buffered_max: via.buffered_max,
            keys: Cell::new(0),
            gas: Cell::new(0),
            forwarded: Cell::new(None),
            is_unverified: Cell::new(false),
            contracts: ContractCheck::new(&key.record.settings.allow),
        };
        let id = envelope.id();
        let answer = match envelope {
            Envelope::Single(call) => self.answer_single(&context, call, received).await,
            // Boxed, so that the future of a single request is not as large as a batch's.
            Envelope::Batch(items) => Box::pin(self.answer_batch(&context, items, received)).await,
            Envelope::OversizedBatch(id) => self.refuse_batch(key, id, received),
        };
        let charged = self.charge_reply(&context, id, answer, received).await;
        let mut answer = charged.holding(AnswerPermits {
            large_answer,
            ..AnswerPermits::default()
        });
        answer.is_unverified = context.is_unverified.get();
        answer.head = Some(Arc::clone(context.snapshot.head()));
        answer
    }

    fn panics(&self) -> &Panics {
        self.worker.resources().admission.panics()
    }

    /// Counts a request with this key, or an item of a batch, that was answered or refused, and
    /// charges its units. A client that leaves before the end of its batch pays for what was done.
    fn count(
        &self,
        key: &ActiveKey,
        method: Option<usize>,
        outcome: Outcome,
        units: u64,
        received: Received,
        bytes_out: usize,
    ) {
        let took = received.at.instant.elapsed();
        // A unit of each request was taken before it was answered, also if all are refused.
        key.charge(units.saturating_sub(received.minimum_units()), received.at);
        self.metrics.method(method).answered(outcome, took);
        let method = method.unwrap_or(self.forwarding.count());
        self.usage.request(
            key.record.id,
            &RequestUse {
                method: u16::try_from(method).unwrap_or(u16::MAX),
                outcome: outcome as u8,
                units,
                bytes_in: received.bytes as u64,
                bytes_out: bytes_out as u64,
                took,
            },
        );
    }

    /// Counts in the usage of a key what is no request of JSON-RPC: a handshake that was refused.
    pub(crate) fn count_unparsed(
        &self,
        key: &ActiveKey,
        outcome: Outcome,
        units: u64,
        took: Duration,
    ) {
        self.usage.request(
            key.record.id,
            &RequestUse {
                method: u16::try_from(self.forwarding.count()).unwrap_or(u16::MAX),
                outcome: outcome as u8,
                units,
                bytes_in: 0,
                bytes_out: 0,
                took,
            },
        );
    }

    /// The answer to a body that is refused as a whole, for this many units.
    fn refuse(
        &self,
        key: &ActiveKey,
        id: &str,
        error: &RpcError,
        units: u64,
        received: Received,
    ) -> Answer {
        self.count(key, None, error.outcome(), units, received, 0);
        let snapshot = self.readiness.head.load();
        Answer {
            units,
            head: snapshot.map(|snapshot| Arc::clone(snapshot.head())),
            ..Answer::error(id, error)
        }
    }

    /// The answer to a batch of too many items: an array of one error.
    fn refuse_batch(&self, key: &ActiveKey, id: &str, received: Received) -> Answer {
        let mut writer = Writer::new(0);
        writer.text("[");
        writer.error(id, &RpcError::BatchTooLarge);
        writer.text("]");
        let outcome = RpcError::BatchTooLarge.outcome();
        let units = received.minimum_units();
        self.count(key, None, outcome, units, received, 0);
        Answer {
            outcome,
            ..Answer::ok("batch", units, Some(writer.finish()))
        }
    }

    async fn answer_single(
        &self,
        context: &RequestContext<'_>,
        call: Result<Call<'_>, Malformed<'_>>,
        received: Received,
    ) -> Answer {
        let call = match call {
            Ok(call) => call,
            Err(Malformed { id, error }) => {
                return self.refuse(context.key, id, &error, received.minimum_units(), received);
            }
        };
        let method = self.find(context, &call.method);
        let Some(id) = call.id else {
            // Boxed, so that the future of a call is not larger for the few that have no id.
            let handled = Box::pin(self.handle_notification(context, method, &call, received));
            let units = handled.await;
            return Answer::ok("notification", units, None);
        };
        let name = self.method(method).map_or("unknown", |method| method.name);
        let (result, units) = self.call(context, method, &call, received).await;
        match result.and_then(|json| Ok(Writer::single(id, json)?)) {
            Ok(json) => Answer::ok(name, units, Some(json)),
            Err(error) => Answer {
                method: name,
                units,
                ..Answer::error(id, &error)
            },
        }
    }

    async fn answer_batch(
        &self,
        context: &RequestContext<'_>,
        items: Vec<&RawValue>,
        received: Received,
    ) -> Answer {
        let mut writer = Writer::new(JOINED_ITEM_BYTES_MAX);
        let held_max = context
            .session
            .map_or(usize::MAX, RequestSession::batch_held_max);
        let mut is_full = false;
        let mut units = 0;
        let mut charge = None;
        let mut charged = 0;
        let mut item_spans = ItemSpans::default();
        for item in items {
            if writer.held() >= charged + CHARGED_BATCH_STEP {
                charged = writer.held();
                if let Err(error) = self.charge(context.key, &mut charge, charged) {
                    return self.refuse_answered(context.key, NULL_ID, &error, units, received);
                }
            }
            let item_received = received.item(item.get().len());
            let call = Call::parse(item);
            if let Ok(call @ Call { id: None, .. }) = &call {
                let method = self.find(context, &call.method);
                units += self
                    .handle_notification(context, method, call, item_received)
                    .await;
                continue;
            }
            writer.text(if writer.len() == 0 { "[" } else { "," });
            let call = match call {
                Ok(call) => call,
                Err(malformed) => {
                    let (outcome, cost) = (malformed.error.outcome(), MINIMUM_UNITS);
                    self.count(context.key, None, outcome, cost, item_received, 0);
                    writer.error(malformed.id, &malformed.error);
                    units += cost;
                    continue;
                }
            };
            let id = call.id.unwrap_or(NULL_ID);
            let method = self.find(context, &call.method);
            if is_full {
                let error = RpcError::ResponseTooLarge;
                let (outcome, price) = (error.outcome(), self.price_of(method));
                self.count(context.key, method, outcome, price, item_received, 0);
                writer.error(id, &error);
                units += price;
                continue;
            }
            let advances = context.advances.len();
            let span = item_spans.next(self.method(method));
            let call = pin!(self.call(context, method, &call, item_received));
            let (result, call_units) = span.of(call).await;
            // Also for a result that is too large for the rest of the batch: it was computed.
            units += call_units;
            match result {
                Ok(json) => {
                    let len = json.len();
                    is_full = writer.len() + response_len(id, len) > BATCH_REPLY_BYTES_MAX
                        || writer.held() + json.held() > held_max;
                    if is_full {
                        context.advances.take_back(advances).await;
                        writer.error(id, &RpcError::ResponseTooLarge);
                    } else if writer.result(id, json, len).is_err() {
                        let error = RpcError::Internal;
                        let key = context.key;
                        return self.refuse_answered(key, NULL_ID, &error, units, received);
                    }
                }
                Err(error) => writer.error(id, &error),
            }
        }
        let json = (writer.len() > 0).then(|| {
            writer.text("]");
            writer.finish()
        });
        Answer::ok("batch", units, json).holding(AnswerPermits {
            reply: charge,
            ..AnswerPermits::default()
        })
    }

    /// Runs a request without an id if it has an effect, and returns its units: one that ends
    /// something, and what nodes answer. eth_subscribe and eth_newFilter would make what the client
    /// never learns the id of.
    async fn handle_notification(
        &self,
        context: &RequestContext<'_>,
        method: Option<usize>,
        call: &Call<'_>,
        received: Received,
    ) -> u64 {
        let is_forwarded = method.is_some_and(|position| position >= METHODS.len());
        if !["eth_unsubscribe", "eth_uninstallFilter"].contains(&&*call.method) && !is_forwarded {
            let outcome = Outcome::Ok;
            self.count(context.key, None, outcome, MINIMUM_UNITS, received, 0);
            return MINIMUM_UNITS;
        }
        // A notification has no answer, not even an error.
        let (_, units) = self.call(context, method, call, received).await;
        units
    }

    /// The answer to a body that is refused once its items are answered and counted, for their
    /// units.
    pub(super) fn refuse_answered(
        &self,
        key: &ActiveKey,
        id: &str,
        error: &RpcError,
        units: u64,
        received: Received,
    ) -> Answer {
        let rest = received.minimum_units().saturating_sub(units);
        let mut answer = self.refuse(key, id, error, rest, received);
        answer.units += units;
        answer
    }

    /// Admits and answers one call, and counts its outcome; returns its units too.
    async fn call(
        &self,
        context: &RequestContext<'_>,
        method: Option<usize>,
        call: &Call<'_>,
        received: Received,
    ) -> (Result<Json, RpcError>, u64) {
        let known = self.method(method);
        let result = match known {
            Some(method) => {
                // Caught around each call, so that the other items of a batch keep their answers.
                let run = pin!(run(context, method, call));
                let caught = self.panics().catch_async(run).await;
                caught.unwrap_or(Err(RpcError::Internal))
            }
            None => Err(RpcError::method_not_found(&call.method)),
        };
        let outcome = result
            .as_ref()
            .map_or_else(RpcError::outcome, |_| Outcome::Ok);
        if let (Some(method), Some(outcome)) = (known, context.forwarded.take()) {
            self.metrics.forwarded(method.name, outcome);
        }
        let (price, keys) = (self.price_of(method), context.keys.take());
        let gas = context.gas.take();
        let (units, bytes_out) = match &result {
            Ok(json) => (price::units(price, keys, gas, json.len()), json.len()),
            Err(_) => (price::units_of_failure(price, gas), 0),
        };
        self.count(context.key, method, outcome, units, received, bytes_out);
        (result, units)
    }

    /// Position of the method of this name, if it is served to the tenant.
    fn find(&self, context: &RequestContext<'_>, name: &str) -> Option<usize> {
        self.forwarding.find(name, context.methods())
    }

    /// The method at a position.
    fn method(&self, position: Option<usize>) -> Option<&Method> {
        self.forwarding.method(position?)
    }

    /// The price of a method, or of an unknown one.
    fn price_of(&self, method: Option<usize>) -> u64 {
        self.method(method)
            .map_or(MINIMUM_UNITS, |method| method.price)
    }

    /// Whether the answer may be large: a session has only one such answer computed at a time.
    fn may_be_large(&self, envelope: &Envelope<'_>, methods: MethodSet) -> bool {
        match envelope {
            Envelope::Single(Ok(call)) => self
                .method(self.forwarding.find(&call.method, methods))
                .is_some_and(|method| method.class == CostClass::Measured),
            Envelope::Single(Err(_)) | Envelope::OversizedBatch(_) => false,
            Envelope::Batch(_) => true,
        }
    }
}

#[cfg(test)]
mod tests;
