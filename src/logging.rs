//! Log lines: what is written, in which form, and where to.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Config, LogFormat};

/// Starts writing log lines to stderr as configured; stdout is for output.
///
/// A line or span that the filter drops costs one load of a cached decision. A second call in one
/// process has no effect.
pub fn start(config: &Config) {
    // `config` has validated the filter.
    let filter = filter(&config.log_filter);
    let lines = fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    // This fails if the process already has a subscriber.
    let _ = match config.log_format {
        LogFormat::Text => registry
            .with(lines.with_ansi(io::stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}

/// What is logged. `text` has been validated.
///
/// For each connection that ends by what its client sent, actix logs an error. Strangers could fill
/// the log with them, so that the listeners count these ends and log them themselves; a filter that
/// names actix's own module has its way.
fn filter(text: &str) -> EnvFilter {
    let filter = EnvFilter::builder().parse_lossy(text);
    match "actix_http::h1::dispatcher=off".parse() {
        Ok(directive) if !text.contains("actix_http") => filter.add_directive(directive),
        _ => filter,
    }
}
