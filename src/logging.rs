//! Log lines: what is written, in which form, and where to.
//!
//! | file | content |
//! |---|---|
//! | `logging.rs` | the lines, their filter and their format |
//! | `panics` | panics as such lines |

mod panics;

use std::io::{self, IsTerminal};

use nearhead_actors::trace;
use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, fmt, layer::SubscriberExt, registry::LookupSpan, util::SubscriberInitExt,
};

use crate::{
    config::{Config, LogFormat},
    traces::Traces,
};

/// Starts writing log lines to stderr as configured; stdout is for output. Spans of traced requests
/// go to `traces`, and their log lines have the id of the trace. Panics are logged from now on.
///
/// A line or span that the filter drops costs one load of a cached decision. A second call in one
/// process has no effect.
pub fn start(config: &Config, traces: &Traces) {
    // `config` has validated the filter.
    let filter = filter(&config.log_filter);
    let registry = tracing_subscriber::registry();
    // This fails if the process already has a subscriber.
    let started = match traces.layer() {
        None => registry.with(filter).with(lines(config)).try_init(),
        Some(spans) => {
            let lines = lines(config).with_filter(with_trace_ids(filter, &config.log_filter));
            registry.with(lines).with(spans).try_init()
        }
    };
    if started.is_ok() {
        panics::log_all();
    }
}

/// What writes log lines.
fn lines<S>(config: &Config) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = fmt::layer().with_writer(panics::counted(io::stderr));
    match config.log_format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    }
}

/// Lets the first span of a trace into log lines, and no other one.
fn with_trace_ids(filter: EnvFilter, text: &str) -> EnvFilter {
    match format!("{}=error", trace::TARGET).parse() {
        Ok(directive) if !text.contains(trace::TARGET) => filter.add_directive(directive),
        _ => filter,
    }
}

/// What is logged. `text` has been validated.
///
/// For each connection that ends by what its client sent, actix logs an error. Strangers could fill
/// the log with them, so that the listeners count these ends and log them themselves. A panic is
/// logged whatever else is. A filter that names actix's own module, or the target of panics, has
/// its way.
fn filter(text: &str) -> EnvFilter {
    let panics = format!("{}=error", panics::TARGET);
    let mut filter = EnvFilter::builder().parse_lossy(text);
    for (named, directive) in [
        ("actix_http", "actix_http::h1::dispatcher=off"),
        (panics::TARGET, &panics),
    ] {
        if let (false, Ok(directive)) = (text.contains(named), directive.parse()) {
            filter = filter.add_directive(directive);
        }
    }
    filter
}
