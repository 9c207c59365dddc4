//! Traces of requests, for a collector that speaks OTLP. This is the only module that knows
//! OpenTelemetry.
//!
//! Whether a request is traced is decided here, once, when its key has let it in. Only then is its
//! first span made; all others are made below it (`nearhead_actors::trace`), so that a request that
//! is not traced makes none.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the traces of one process, and the first span of a request |
//! | `parent` | what a client says of its own trace |
//! | `sampler` | which requests are traced |
//! | `queue` | the spans that wait for the exporter, and how many were lost |
//! | `exporter` | the thread that sends them |

mod exporter;
mod parent;
mod queue;
mod sampler;

use std::{fmt, sync::Arc, time::Instant};

use nearhead_actors::{trace, upstream::Endpoint};
use opentelemetry::{
    Context, KeyValue,
    trace::{
        SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
        TracerProvider,
    },
};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler as SdkSampler, SdkTracer, SdkTracerProvider},
};
use tracing::{
    Span, Subscriber, field,
    level_filters::LevelFilter,
    span::{Attributes, Id},
};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, filter::filter_fn, layer, registry::LookupSpan};

pub(crate) use self::queue::{SpanCounts, SpanEnd};
use self::{
    exporter::Exporter,
    queue::{SpanQueue, ToQueue},
    sampler::Sampler,
};
pub use self::{exporter::TracesError, parent::TraceParent};

use crate::limits::TRACE_FLUSH_MAX;

/// The name of these spans' instrumentation, and of the service.
const NAME: &str = env!("CARGO_PKG_NAME");

/// The traces of one process. Clones share them; the default traces nothing.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Started>>);

struct Started {
    sampler: Sampler,
    queue: Arc<SpanQueue>,
    provider: SdkTracerProvider,
}

impl Traces {
    /// Starts the thread that sends spans to this collector, to the path `v1/traces` below its URL.
    /// This share of requests is traced, from 0 to 1.
    ///
    /// # Errors
    /// The client or the thread cannot be started. Whether the collector answers is not tried.
    pub fn start(collector: &Endpoint, ratio: f64) -> Result<Self, TracesError> {
        let queue = Arc::new(SpanQueue::default());
        let resource = Resource::builder()
            .with_service_name(NAME)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        Exporter::start(collector, &resource, Arc::clone(&queue))?;
        let provider = SdkTracerProvider::builder()
            .with_span_processor(ToQueue(Arc::clone(&queue)))
            .with_resource(resource)
            // What has a span here is traced.
            .with_sampler(SdkSampler::AlwaysOn)
            .build();
        Ok(Self(Some(Arc::new(Started {
            sampler: Sampler::new(ratio),
            queue,
            provider,
        }))))
    }

    /// What passes the spans of traced requests to the exporter, and no other spans or events;
    /// `None` if nothing is traced.
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let tracer: SdkTracer = self.0.as_ref()?.provider.tracer(NAME);
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_context_activation(false)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false);
        let is_ours =
            filter_fn(|metadata| metadata.is_span() && metadata.target() == trace::TARGET)
                // Or every disabled line of every dependency would be looked at.
                .with_max_level_hint(LevelFilter::INFO);
        Some(CountOpen.and_then(layer).with_filter(is_ours))
    }

    /// Whether any request is traced.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// How many spans were sent, and how many were not; `None` if nothing is traced.
    pub(crate) fn counts(&self) -> Option<SpanCounts> {
        self.0.as_ref().map(|started| started.queue.counts())
    }

    /// Decides whether a request is traced whose client says this of its own trace.
    #[must_use]
    pub fn decide(&self, parent: Option<TraceParent>) -> bool {
        self.0.as_ref().is_some_and(|started| {
            let is_parent_sampled = parent.map(|parent| parent.is_sampled);
            started.sampler.decide(is_parent_sampled, Instant::now)
        })
    }

    /// Decides whether a request is traced, and begins its trace.
    pub(crate) fn begin(&self, request: &TracedRequest<'_>) -> RequestTrace {
        match self.decide(request.parent) {
            true => RequestTrace::begin(request),
            false => RequestTrace::default(),
        }
    }

    /// Sends the spans that wait, and ends the thread. It blocks for two seconds at most.
    pub fn stop(&self) {
        if let Some(started) = &self.0 {
            started.queue.stop(TRACE_FLUSH_MAX);
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Traces").field(&self.is_on()).finish()
    }
}

/// A request as it arrives.
pub(crate) struct TracedRequest<'a> {
    /// What the client says of its own trace.
    pub(crate) parent: Option<TraceParent>,
    /// The span of the request's log lines.
    pub(crate) log_span: &'a Span,
    /// `http` or `websocket`.
    pub(crate) protocol: &'static str,
    /// The name of the tenant.
    pub(crate) tenant: &'a str,
}

/// How a request ended.
pub(crate) struct RequestEnd {
    /// The name of the method, or the kind of request.
    pub(crate) method: &'static str,
    /// The outcome as metrics have it; `None` if the client went away first.
    pub(crate) outcome: Option<&'static str>,
    /// Whether the service failed.
    pub(crate) is_failure: bool,
    /// The HTTP status.
    pub(crate) status: Option<u16>,
    /// The length of the answer, if it is known.
    pub(crate) bytes_out: Option<u64>,
}

/// Counts the spans that are open, for the steps of requests.
struct CountOpen;

impl<S: Subscriber> Layer<S> for CountOpen {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: layer::Context<'_, S>) {
        trace::opened();
    }

    fn on_close(&self, _: Id, _: layer::Context<'_, S>) {
        trace::closed();
    }
}

/// The trace of one request, which ends when this and all work for the request are dropped. The
/// default is that of a request that is not traced.
pub(crate) struct RequestTrace(Span);

impl Default for RequestTrace {
    fn default() -> Self {
        Self(Span::none())
    }
}

impl RequestTrace {
    // Out of the way of requests that are not traced.
    #[cold]
    #[inline(never)]
    fn begin(request: &TracedRequest<'_>) -> Self {
        // Log lines of any level have its fields. What the handlers add to it is declared here.
        let span = tracing::error_span!(
            target: trace::TARGET,
            parent: request.log_span,
            "request",
            trace_id = field::Empty,
            otel.kind = "server",
            tenant = request.tenant,
            items = field::Empty,
            bytes_in = field::Empty,
            from_block = field::Empty,
            to_block = field::Empty,
        );
        if let Some(parent) = request.parent {
            let parent = SpanContext::new(
                TraceId::from_bytes(parent.trace),
                SpanId::from_bytes(parent.span),
                TraceFlags::SAMPLED,
                true,
                TraceState::NONE,
            );
            let context = Context::new().with_remote_span_context(parent);
            // It was not started before, and the layer is there, or nothing is traced.
            let _ = span.set_parent(context);
        }
        let trace = span.context().span().span_context().trace_id();
        span.record("trace_id", field::display(trace));
        span.set_attribute("rpc.system", "jsonrpc");
        span.set_attribute("network.protocol.name", request.protocol);
        Self(span)
    }

    /// The first span of the trace; a disabled one if the request is not traced.
    pub(crate) const fn span(&self) -> &Span {
        &self.0
    }

    /// Whether the request is traced.
    pub(crate) fn is_traced(&self) -> bool {
        !self.0.is_disabled()
    }

    /// Records how the request ended.
    pub(crate) fn end(&self, end: &RequestEnd) {
        if !self.is_traced() {
            return;
        }
        let span = &self.0;
        span.context().span().update_name(end.method);
        span.set_attribute("rpc.method", end.method);
        span.set_attribute("outcome", end.outcome.unwrap_or("abandoned"));
        if let Some(status) = end.status {
            span.set_attribute("http.response.status_code", i64::from(status));
        }
        if let Some(bytes) = end.bytes_out {
            span.set_attribute("bytes_out", i64::try_from(bytes).unwrap_or(i64::MAX));
        }
        if end.is_failure {
            span.set_status(Status::error(""));
        }
    }
}
