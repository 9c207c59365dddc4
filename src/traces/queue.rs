//! The spans that wait for the exporter, in bounded memory, and how many were lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};
use parking_lot::{Condvar, Mutex};

use crate::limits::{TRACE_BATCH_SPANS, TRACE_EXPORT_EVERY, TRACE_QUEUE_SPANS};

/// What becomes of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanEnd {
    /// The collector took it.
    Exported,
    /// The collector did not take it.
    Failed,
    /// The queue was full.
    Dropped,
}

impl SpanEnd {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Exported, Self::Failed, Self::Dropped];

    /// Its label in the metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Exported => "exported",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// Counts of spans by their end. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanCounts(Arc<[AtomicU64; SpanEnd::ALL.len()]>);

impl SpanCounts {
    pub(super) fn add(&self, end: SpanEnd, spans: usize) {
        self.0[end as usize].fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// How many ended like this.
    pub(crate) fn of(&self, end: SpanEnd) -> u64 {
        self.0[end as usize].load(Ordering::Relaxed)
    }
}

/// The spans that wait. A span that does not fit is dropped, so no request waits for the collector.
#[derive(Debug, Default)]
pub(super) struct SpanQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    counts: SpanCounts,
}

#[derive(Debug, Default)]
struct Waiting {
    spans: Vec<SpanData>,
    is_stopping: bool,
    has_ended: bool,
}

impl SpanQueue {
    pub(super) fn counts(&self) -> SpanCounts {
        self.counts.clone()
    }

    fn push(&self, span: SpanData) {
        let mut waiting = self.waiting.lock();
        if waiting.spans.len() >= TRACE_QUEUE_SPANS || waiting.has_ended {
            drop(waiting);
            self.counts.add(SpanEnd::Dropped, 1);
            return;
        }
        waiting.spans.push(span);
        let is_batch = waiting.spans.len() == TRACE_BATCH_SPANS;
        drop(waiting);
        // The exporter looks by itself soon: it is not woken for each span.
        if is_batch {
            self.changed.notify_all();
        }
    }

    /// Waits for the next batch; `None` once the queue is stopped and empty.
    pub(super) fn next_batch(&self) -> Option<Vec<SpanData>> {
        let mut waiting = self.waiting.lock();
        let until = Instant::now() + TRACE_EXPORT_EVERY;
        let is_due =
            |waiting: &Waiting| waiting.is_stopping || waiting.spans.len() >= TRACE_BATCH_SPANS;
        while !is_due(&waiting) && !self.changed.wait_until(&mut waiting, until).timed_out() {}
        if waiting.is_stopping && waiting.spans.is_empty() {
            return None;
        }
        let batch = waiting.spans.len().min(TRACE_BATCH_SPANS);
        Some(waiting.spans.drain(..batch).collect())
    }

    /// Takes no further spans, and has [`SpanQueue::stop`] return.
    pub(super) fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Has the exporter send what waits, and waits until it has ended, but no longer than this.
    pub(super) fn stop(&self, longest: Duration) {
        let mut waiting = self.waiting.lock();
        waiting.is_stopping = true;
        self.changed.notify_all();
        let until = Instant::now() + longest;
        while !waiting.has_ended && !self.changed.wait_until(&mut waiting, until).timed_out() {}
    }
}

/// Puts the spans that end into a queue.
#[derive(Debug)]
pub(super) struct ToQueue(pub(super) Arc<SpanQueue>);

impl SpanProcessor for ToQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn set_resource(&mut self, _: &Resource) {}
}

#[cfg(test)]
mod tests {
    use std::thread;

    use opentelemetry::{
        InstrumentationScope,
        trace::{SpanContext, SpanId, SpanKind, Status},
    };
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};

    use super::*;

    fn span() -> SpanData {
        SpanData {
            span_context: SpanContext::NONE,
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: "span".into(),
            start_time: std::time::UNIX_EPOCH,
            end_time: std::time::UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        }
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let queue = SpanQueue::default();
        (0..TRACE_QUEUE_SPANS + 7).for_each(|_| queue.push(span()));
        assert_eq!(queue.counts().of(SpanEnd::Dropped), 7);
        let batch = queue.next_batch().map(|batch| batch.len());
        assert_eq!(batch, Some(TRACE_BATCH_SPANS));
    }

    #[test]
    fn a_queue_that_stops_gives_what_it_has_and_waits_no_longer_than_it_may() {
        let queue = Arc::new(SpanQueue::default());
        queue.push(span());
        let began = Instant::now();
        queue.stop(Duration::from_millis(20));
        assert!(
            began.elapsed() >= Duration::from_millis(20),
            "nobody exports"
        );
        assert_eq!(queue.next_batch().map(|batch| batch.len()), Some(1));
        assert!(queue.next_batch().is_none());
        let exporter = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.end()
        });
        queue.stop(Duration::from_secs(180));
        assert!(exporter.join().is_ok());
        queue.push(span());
        assert_eq!(queue.counts().of(SpanEnd::Dropped), 1);
    }
}
