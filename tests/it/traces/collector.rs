//! A collector that speaks OTLP over HTTP: it keeps what it gets, and fails on demand.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, any_value::Value},
    trace::v1::Span as WireSpan,
};
use prost::Message;

use crate::harness::wait_until;

/// How it answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Takes,
    Refuses,
    /// It reads, and never answers.
    Hangs,
}

/// A span as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: String,
    pub(super) name: String,
    pub(super) attributes: BTreeMap<String, String>,
    /// Start and end in nanoseconds.
    pub(super) times: [u64; 2],
}

#[derive(Default)]
struct Received {
    /// The head of each request.
    heads: Vec<String>,
    spans: Vec<Span>,
    resource: BTreeMap<String, String>,
    /// What hangs.
    held: Vec<TcpStream>,
}

pub(super) struct Collector {
    pub(super) address: SocketAddr,
    received: Arc<Mutex<Received>>,
    mode: Arc<Mutex<Mode>>,
}

impl Collector {
    pub(super) fn start(mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let this = Self {
            address: listener.local_addr().unwrap(),
            received: Arc::default(),
            mode: Arc::new(Mutex::new(mode)),
        };
        let (received, mode) = (Arc::clone(&this.received), Arc::clone(&this.mode));
        // It ends with the test.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (received, mode) = (Arc::clone(&received), Arc::clone(&mode));
                thread::spawn(move || while serve(&stream, &received, &mode).is_some() {});
            }
        });
        this
    }

    pub(super) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    pub(super) fn heads(&self) -> Vec<String> {
        self.received.lock().unwrap().heads.clone()
    }

    pub(super) fn resource(&self) -> BTreeMap<String, String> {
        self.received.lock().unwrap().resource.clone()
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        self.received.lock().unwrap().spans.clone()
    }

    /// Waits until a trace has these paths of names, each from its first span; returns its spans.
    pub(super) fn wait_for(&self, trace: &str, paths: &[&str]) -> Vec<Span> {
        let of_trace = || -> Vec<Span> {
            let spans = self.spans().into_iter();
            spans.filter(|span| span.trace == trace).collect()
        };
        wait_until(&format!("{paths:?} in {:?}", trace), || {
            let spans = of_trace();
            let seen: Vec<String> = spans.iter().map(|span| path(&spans, span)).collect();
            paths
                .iter()
                .all(|path| seen.iter().any(|seen| seen == path))
        });
        of_trace()
    }
}

/// The names from the first span of the trace to this one.
pub(super) fn path(spans: &[Span], span: &Span) -> String {
    match spans.iter().find(|one| one.id == span.parent) {
        Some(parent) => format!("{} > {}", path(spans, parent), span.name),
        None => span.name.clone(),
    }
}

/// Serves one request; `None` at the end of the connection.
fn serve(stream: &TcpStream, received: &Mutex<Received>, mode: &Mutex<Mode>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_ascii_lowercase();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let status = match *mode.lock().unwrap() {
        Mode::Takes => {
            let export = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
            let mut received = received.lock().unwrap();
            for of_resource in export.resource_spans {
                for attribute in of_resource.resource.unwrap().attributes {
                    received
                        .resource
                        .insert(attribute.key, text(attribute.value));
                }
                let scopes = of_resource.scope_spans.into_iter();
                let spans = scopes.flat_map(|scope| scope.spans).map(span);
                received.spans.extend(spans);
            }
            received.heads.push(head);
            "200 OK"
        }
        Mode::Refuses => "503 Service Unavailable",
        Mode::Hangs => {
            received.lock().unwrap().held.push(stream.try_clone().ok()?);
            return None;
        }
    };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    let mut stream = stream;
    stream.write_all(answer.as_bytes()).ok()
}

fn span(span: WireSpan) -> Span {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(span.events.is_empty(), "log lines are not exported");
    let attributes = span.attributes.into_iter();
    Span {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name,
        attributes: attributes
            .map(|attribute| (attribute.key, text(attribute.value)))
            .collect(),
        times: [span.start_time_unix_nano, span.end_time_unix_nano],
    }
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}
