//! One upstream, as forwarded calls use it.

use std::time::Duration;

use alloy_json_rpc::ErrorPayload;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::node_error::node_error;
use crate::{
    admission::Callers,
    messages::NodeError,
    upstream::{
        Endpoint,
        client::{CallError, JsonAnswer, Meaning, UpstreamClient, meaning},
        health::UpstreamId,
    },
};

/// How long an upstream that failed is asked after the others, and how long one that limits our
/// calls and does not say for how long is not asked. A client that waits tries again later.
const BACKED_OFF_FOR: Duration = Duration::from_secs(5);

/// An upstream, and how its forwarded calls went. What a client asks for may take long or fail, so
/// this is no fault of the upstream, and does not matter to the chain that is followed.
#[derive(Debug)]
pub(super) struct ForwardNode {
    client: UpstreamClient,
    backoff: Mutex<Option<Backoff>>,
}

#[derive(Clone, Copy, Debug)]
struct Backoff {
    until: Instant,
    /// Whether it limits our calls.
    is_limited: bool,
}

/// Why an upstream gave no answer, and what became of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was not made: the upstream is busy.
    Busy,
    /// It was not made: the upstream limits our calls with HTTP 429 or 503.
    Limited,
    /// It was not made: the upstream does not support the method.
    Unsupported,
    /// It may have been made.
    Unknown,
}

impl ForwardNode {
    pub(super) fn new(client: UpstreamClient) -> Self {
        Self {
            client,
            backoff: Mutex::default(),
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        self.client.endpoint()
    }

    /// Makes a call for these tenants: the answer, or the upstream's own error.
    pub(super) async fn ask(
        &self,
        callers: &Callers,
        method: &'static str,
        params: Box<RawValue>,
        bytes_max: usize,
    ) -> Result<Result<JsonAnswer, NodeError>, Failure> {
        let client = self.client.on_behalf_of(callers);
        let answer = client.ask(method, params, bytes_max).await;
        self.judge(method, answer)
    }

    /// The same for a call that may be made twice: once more if its connection has ended, which an
    /// idle one does without anybody's notice.
    pub(super) async fn ask_again(
        &self,
        callers: &Callers,
        method: &'static str,
        params: Box<RawValue>,
        bytes_max: usize,
    ) -> Result<Result<JsonAnswer, NodeError>, Failure> {
        let client = self.client.on_behalf_of(callers);
        let mut answer = client.ask(method, params.clone(), bytes_max).await;
        if matches!(answer, Err(CallError::Connection(_))) {
            answer = client.ask(method, params, bytes_max).await;
        }
        self.judge(method, answer)
    }

    /// What an answer is to a client, and what it says about the upstream.
    fn judge(
        &self,
        method: &'static str,
        answer: Result<Result<JsonAnswer, ErrorPayload>, CallError>,
    ) -> Result<Result<JsonAnswer, NodeError>, Failure> {
        let error = match answer {
            Ok(Ok(answer)) => {
                *self.backoff.lock() = None;
                return Ok(Ok(answer));
            }
            Ok(Err(payload)) => match meaning(payload.code) {
                Meaning::UnsupportedMethod => CallError::UnsupportedMethod,
                // A limit that is stated this way may be that of the one call, such as too many
                // results: it is the answer, and keeps nobody else from this upstream.
                Meaning::RateLimited | Meaning::BadParams | Meaning::NotFound | Meaning::Other => {
                    return Ok(Err(node_error(self.endpoint(), &payload)));
                }
            },
            Err(error) => error,
        };
        tracing::debug!(node = %self.endpoint(), method, %error, "a forwarded call failed");
        self.back_off(&error, Instant::now());
        Err(error.into())
    }

    fn back_off(&self, error: &CallError, now: Instant) {
        let (wait, is_limited) = match error {
            CallError::RateLimited { retry_after } => (*retry_after, true),
            CallError::Timeout(_) | CallError::Connection(_) | CallError::Refused { .. } => {
                (None, false)
            }
            // It answers.
            CallError::Busy
            | CallError::UnsupportedMethod
            | CallError::NotFound
            | CallError::Malformed(_)
            | CallError::TooLarge { .. }
            | CallError::Rpc { .. } => return,
        };
        let until = now + wait.unwrap_or(BACKED_OFF_FOR);
        *self.backoff.lock() = Some(Backoff { until, is_limited });
    }

    /// When it may be called again, if it limits our calls.
    pub(super) fn limited_until(&self, now: Instant) -> Option<Instant> {
        let backoff = self.backoff(now).filter(|backoff| backoff.is_limited);
        backoff.map(|backoff| backoff.until)
    }

    fn backoff(&self, now: Instant) -> Option<Backoff> {
        self.backoff.lock().filter(|backoff| backoff.until > now)
    }
}

/// The upstreams that may be called now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Standby {
    /// Their ids, in order.
    pub(super) nodes: Vec<UpstreamId>,
    /// Whether others were left out, because they limit our calls.
    are_some_limited: bool,
}

impl Standby {
    /// These, in this order: without those that limit our calls, and those that failed last.
    pub(super) fn new(nodes: &[ForwardNode], order: Vec<UpstreamId>, now: Instant) -> Self {
        let backoff = |id: &UpstreamId| nodes[*id].backoff(now);
        let is_limited = |id: &UpstreamId| nodes[*id].limited_until(now).is_some();
        let (limited, mut nodes): (Vec<_>, Vec<_>) = order.into_iter().partition(is_limited);
        nodes.sort_by_key(|id| backoff(id).is_some());
        Self {
            nodes,
            are_some_limited: !limited.is_empty(),
        }
    }

    /// Whether all upstreams lack a method if all of these do.
    pub(super) const fn may_all_lack_it(&self) -> bool {
        !self.nodes.is_empty() && !self.are_some_limited
    }
}
