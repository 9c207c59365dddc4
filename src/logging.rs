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
    let filter = EnvFilter::builder().parse_lossy(&config.log_filter);
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
