//! From a request body to its answer: parse, admit, run, write.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use bytes::Bytes;
use nearhead_actors::{
    admission::{CostClass, Panicked, Panics},
    read::Worker,
    readiness::Readiness,
};
use nearhead_chain::json::Json;
use nearhead_tenants::allowlists::ListKind;
use serde_json::value::RawValue;

use super::{
    answer::{Answer, Writer, response_len},
    context::RequestContext,
    envelope::{Call, Envelope, Malformed, NULL_ID},
    error::{QuerySubject, RpcError},
    params::Params,
    price::{self, MINIMUM_UNITS},
    registry::{METHODS, Method, find},
    request_session::RequestSession,
};
use crate::{
    access::{ActiveKey, MethodSet, Now},
    limits::{BATCH_REPLY_BYTES_MAX, BUILT_RESULT_BYTES_MAX, JOINED_ITEM_BYTES_MAX},
    metrics::{Metrics, Outcome},
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
    /// Longest time that one eth_getLogs may run, from admission.
    pub logs_deadline: Duration,
    /// The OpenRPC document.
    pub openrpc: Bytes,
}

impl Dispatcher {
    /// Answers one body with this key that arrived at `now`: over HTTP, or over `session`. What the
    /// answer costs is charged to the key and its tenant.
    ///
    /// Dropping the future withdraws what is queued and cancels what runs.
    pub async fn answer(
        &self,
        key: &ActiveKey,
        body: &[u8],
        now: Now,
        session: Option<&dyn RequestSession>,
    ) -> Answer {
        let answer = self.answer_body(key, body, now, session);
        // A panic of the dispatcher itself would end a session.
        let caught = self.panics().catch_async(answer).await;
        caught.unwrap_or_else(|Panicked| self.refuse(NULL_ID, &RpcError::Internal, now.instant))
    }

    async fn answer_body(
        &self,
        key: &ActiveKey,
        body: &[u8],
        now: Now,
        session: Option<&dyn RequestSession>,
    ) -> Answer {
        let parsed = Envelope::parse(body);
        let requests = parsed.as_ref().map_or(1, Envelope::requests);
        if let Err(exceeded) = key.take(requests, now) {
            let id = parsed.as_ref().map_or(NULL_ID, Envelope::id);
            let error = RpcError::QuotaExceeded(exceeded);
            return Answer {
                units: 0,
                remaining: key.remaining(now),
                ..self.refuse(id, &error, now.instant)
            };
        }
        let instant = now.instant;
        let mut answer = self.answer_parsed(key, parsed, instant, session).await;
        // A unit of each request was taken before it was answered, also if all are refused.
        let taken = u64::from(requests);
        answer.units = answer.units.max(taken);
        if key.is_metered() {
            key.charge(answer.units - taken, now);
            answer.remaining = key.remaining(now);
        }
        answer
    }

    async fn answer_parsed(
        &self,
        key: &ActiveKey,
        parsed: Result<Envelope<'_>, RpcError>,
        now: Instant,
        session: Option<&dyn RequestSession>,
    ) -> Answer {
        let envelope = match parsed {
            Ok(envelope) => envelope,
            Err(error) => return self.refuse(NULL_ID, &error, now),
        };
        let methods = key.tenant.limits.methods;
        let large_answer = match session {
            Some(session) if may_be_large(&envelope, methods) => {
                session.large_answer().acquire_owned().await.ok()
            }
            _ => None,
        };
        let Some(snapshot) = self.readiness.head.load() else {
            return self.refuse(envelope.id(), &RpcError::Unavailable, now);
        };
        let context = RequestContext {
            key,
            snapshot,
            readiness: &self.readiness,
            worker: &self.worker,
            logs_deadline: self.logs_deadline,
            openrpc: &self.openrpc,
            built_max: match envelope {
                Envelope::Batch(_) => JOINED_ITEM_BYTES_MAX,
                _ => BUILT_RESULT_BYTES_MAX,
            },
            session,
            keys: Cell::new(0),
        };
        let mut answer = match envelope {
            Envelope::Single(call) => self.answer_single(&context, call, now).await,
            // Boxed, so that the future of a single request is not as large as a batch's.
            Envelope::Batch(items) => Box::pin(self.answer_batch(&context, items, now)).await,
            Envelope::OversizedBatch(id) => self.refuse_batch(id, now),
        };
        answer.large_answer = large_answer;
        answer
    }

    fn panics(&self) -> &Panics {
        self.worker.resources().admission.panics()
    }

    fn refuse(&self, id: &str, error: &RpcError, now: Instant) -> Answer {
        self.metrics
            .method(None)
            .answered(error.outcome(), now.elapsed());
        Answer::error(id, error)
    }

    /// The answer to a batch of too many items: an array of one error.
    fn refuse_batch(&self, id: &str, now: Instant) -> Answer {
        let mut writer = Writer::new(0);
        writer.text("[");
        writer.error(id, &RpcError::BatchTooLarge);
        writer.text("]");
        let outcome = RpcError::BatchTooLarge.outcome();
        self.metrics.method(None).answered(outcome, now.elapsed());
        Answer {
            outcome,
            ..Answer::ok("batch", MINIMUM_UNITS, Some(writer.finish()))
        }
    }

    async fn answer_single(
        &self,
        context: &RequestContext<'_>,
        call: Result<Call<'_>, Malformed<'_>>,
        now: Instant,
    ) -> Answer {
        let call = match call {
            Ok(call) => call,
            Err(malformed) => return self.refuse(malformed.id, &malformed.error, now),
        };
        let method = find(&call.method, context.methods());
        let Some(id) = call.id else {
            let units = self.handle_notification(context, method, &call, now).await;
            return Answer::ok("notification", units, None);
        };
        let name = method.map_or("unknown", |index| METHODS[index].name);
        let (result, units) = self.call(context, method, &call, now).await;
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
        now: Instant,
    ) -> Answer {
        let mut writer = Writer::new(JOINED_ITEM_BYTES_MAX);
        let held_max = context
            .session
            .map_or(usize::MAX, RequestSession::batch_held_max);
        let mut is_full = false;
        let mut units = 0;
        for item in items {
            let call = Call::parse(item);
            if let Ok(call @ Call { id: None, .. }) = &call {
                let method = find(&call.method, context.methods());
                units += self.handle_notification(context, method, call, now).await;
                continue;
            }
            writer.text(if writer.len() == 0 { "[" } else { "," });
            let call = match call {
                Ok(call) => call,
                Err(malformed) => {
                    self.metrics
                        .method(None)
                        .answered(malformed.error.outcome(), Duration::ZERO);
                    writer.error(malformed.id, &malformed.error);
                    units += MINIMUM_UNITS;
                    continue;
                }
            };
            let id = call.id.unwrap_or(NULL_ID);
            let method = find(&call.method, context.methods());
            if is_full {
                let error = RpcError::ResponseTooLarge;
                let metrics = self.metrics.method(method);
                metrics.answered(error.outcome(), Duration::ZERO);
                writer.error(id, &error);
                units += price_of(method);
                continue;
            }
            let (result, call_units) = self.call(context, method, &call, Instant::now()).await;
            match result {
                Ok(json) => {
                    let len = json.len();
                    is_full = writer.len() + response_len(id, len) > BATCH_REPLY_BYTES_MAX
                        || writer.held() + json.held() > held_max;
                    if is_full {
                        writer.error(id, &RpcError::ResponseTooLarge);
                        units += price_of(method);
                        continue;
                    }
                    if writer.result(id, json, len).is_err() {
                        return self.refuse(NULL_ID, &RpcError::Internal, now);
                    }
                }
                Err(error) => writer.error(id, &error),
            }
            units += call_units;
        }
        let Ok(permit) = self.worker.resources().admission.admit_batch(writer.held()) else {
            return self.refuse(NULL_ID, &RpcError::Unavailable, now);
        };
        let json = (writer.len() > 0).then(|| {
            writer.text("]");
            writer.finish()
        });
        Answer {
            permit,
            ..Answer::ok("batch", units, json)
        }
    }

    /// Runs a request without an id if it has an effect, and returns its units. Only
    /// eth_unsubscribe has one: eth_subscribe would start a subscription whose id the client never
    /// learns.
    async fn handle_notification(
        &self,
        context: &RequestContext<'_>,
        method: Option<usize>,
        call: &Call<'_>,
        began: Instant,
    ) -> u64 {
        if call.method != "eth_unsubscribe" {
            return MINIMUM_UNITS;
        }
        // A notification has no answer, not even an error.
        let (_, units) = self.call(context, method, call, began).await;
        units
    }

    /// Admits and answers one call, and counts its outcome; returns its units too.
    async fn call(
        &self,
        context: &RequestContext<'_>,
        method: Option<usize>,
        call: &Call<'_>,
        began: Instant,
    ) -> (Result<Json, RpcError>, u64) {
        let result = match method.map(|index| &METHODS[index]) {
            Some(method) => {
                // Caught around each call, so that the other items of a batch keep their answers.
                let caught = self.panics().catch_async(run(context, method, call)).await;
                caught.unwrap_or(Err(RpcError::Internal))
            }
            None => Err(RpcError::method_not_found(&call.method)),
        };
        let outcome = result
            .as_ref()
            .map_or_else(RpcError::outcome, |_| Outcome::Ok);
        self.metrics
            .method(method)
            .answered(outcome, began.elapsed());
        let (price, keys) = (price_of(method), context.keys.take());
        let units = match &result {
            Ok(json) => price::units(price, keys, json.len()),
            Err(_) => price,
        };
        (result, units)
    }
}

/// The price of a method, or of an unknown one.
fn price_of(method: Option<usize>) -> u64 {
    method.map_or(MINIMUM_UNITS, |index| METHODS[index].price)
}

/// Whether the answer may be large: a session has only one such answer computed at a time.
fn may_be_large(envelope: &Envelope<'_>, methods: MethodSet) -> bool {
    match envelope {
        Envelope::Single(Ok(call)) => find(&call.method, methods)
            .is_some_and(|method| METHODS[method].class == CostClass::Measured),
        Envelope::Single(Err(_)) | Envelope::OversizedBatch(_) => false,
        Envelope::Batch(_) => true,
    }
}

async fn run(
    context: &RequestContext<'_>,
    method: &Method,
    call: &Call<'_>,
) -> Result<Json, RpcError> {
    if !context.key.record.settings.allow.allow_method(method.name) {
        return Err(RpcError::NotListed(ListKind::Methods));
    }
    let params = Params::new(call.params)?;
    let _permit = context
        .worker
        .admit(method.class)
        .await
        .map_err(|error| RpcError::from_query(error, QuerySubject::Blocks))?;
    method.run(context, params).await
}
