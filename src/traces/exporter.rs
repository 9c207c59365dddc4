//! The thread that sends spans to the collector: OTLP over HTTP, in protobuf.

use std::{
    collections::HashMap,
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nearhead_actors::upstream::Endpoint;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter as _},
};
use reqwest::Client;
use tokio::runtime::{self, Runtime};

use super::queue::{SpanEnd, SpanQueue};
use crate::{
    limits::{TRACE_EXPORT_TIMEOUT, TRACE_WARNING_EVERY},
    tls::client,
};

/// Why traces cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// TLS cannot be set up; the system may have no certificates.
    #[error("cannot set up TLS for --otlp-endpoint: {0}")]
    Tls(#[from] rustls::Error),
    /// The client cannot be made.
    #[error("cannot set up HTTP for --otlp-endpoint: {0}")]
    Http(#[from] reqwest::Error),
    /// The exporter does not accept its settings, of which some are in the environment.
    #[error("cannot set up the export of traces: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// The thread cannot be started.
    #[error("cannot start the thread that exports traces: {0}")]
    Thread(#[from] io::Error),
}

/// Sends the spans of a queue until it is stopped.
pub(super) struct Exporter {
    queue: Arc<SpanQueue>,
    runtime: Runtime,
    spans: SpanExporter,
    collector: Endpoint,
    /// Whether the last batch was not taken.
    is_failing: bool,
    warned: Option<Instant>,
}

impl Exporter {
    pub(super) fn start(
        collector: &Endpoint,
        resource: &Resource,
        queue: Arc<SpanQueue>,
    ) -> Result<(), TracesError> {
        let mut url = collector.url().clone();
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
        let mut spans = SpanExporter::builder()
            .with_http()
            .with_http_client(client(collector)?)
            .with_endpoint(url.as_str())
            .with_headers(HashMap::new())
            .build()?;
        spans.set_resource(resource);
        let exporter = Self {
            queue,
            runtime: runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            spans,
            collector: collector.clone(),
            is_failing: false,
            warned: None,
        };
        // It ends with the queue, or with the process.
        let thread = thread::Builder::new().name("traces".to_owned());
        thread.spawn(move || exporter.run())?;
        Ok(())
    }

    fn run(mut self) {
        while let Some(batch) = self.queue.next_batch() {
            if !batch.is_empty() {
                self.export(batch);
            }
        }
        self.queue.end();
    }

    fn export(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        let sent = self.runtime.block_on(async {
            tokio::time::timeout(TRACE_EXPORT_TIMEOUT, self.spans.export(batch)).await
        });
        let counts = self.queue.counts();
        let reason = match sent {
            Ok(Ok(())) => {
                counts.add(SpanEnd::Exported, spans);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(collector = %self.collector, "the collector takes traces again");
                }
                return;
            }
            // The text has a status at most.
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", TRACE_EXPORT_TIMEOUT.as_secs()),
        };
        counts.add(SpanEnd::Failed, spans);
        if !self.is_failing && self.may_warn(Instant::now()) {
            tracing::warn!(
                collector = %self.collector,
                %reason,
                "the collector does not take traces: they are lost until it does, and requests go on"
            );
        }
        self.is_failing = true;
    }

    /// Whether the last warning was long ago: one that comes and goes is not one a second.
    fn may_warn(&mut self, now: Instant) -> bool {
        let may = self
            .warned
            .is_none_or(|warned| now.duration_since(warned) >= TRACE_WARNING_EVERY);
        if may {
            self.warned = Some(now);
        }
        may
    }
}

/// A client that gives the operator's headers to the collector alone.
fn client(collector: &Endpoint) -> Result<Client, TracesError> {
    let tls = client::trusting_system(collector.is_tls())?;
    let client = client::http_client(tls)
        .default_headers(collector.headers().clone())
        .connect_timeout(TRACE_EXPORT_TIMEOUT)
        .pool_idle_timeout(Duration::from_secs(20))
        .build()?;
    Ok(client)
}
