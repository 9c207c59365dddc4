//! Log lines: what is written, in which form, and where to.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Config, LogFormat};

/// Writes log lines to stderr from now on, as the configuration has it; stdout is for what was
/// asked for.
///
/// A line or span that the filter leaves out costs one load of a cached decision. A second call in
/// one process has no effect.
pub fn start(config: &Config) {
    // Checked when the configuration was read.
    let filter = EnvFilter::builder().parse_lossy(&config.log_filter);
    let lines = fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    // An error: something else in this process takes the lines.
    let _ = match config.log_format {
        LogFormat::Text => registry
            .with(lines.with_ansi(io::stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}
