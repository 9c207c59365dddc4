//! Malformed requests over real HTTP: each row has an exact answer, after which the same connection
//! answers a good request. The server serves the execution-apis chain: blocks 0 to 54 (0x36).

mod envelope;
mod filter;
mod http;
mod params;

use serde_json::Value;

use crate::harness::{Connection, Server, check};

/// The request that follows every row, and its answer.
const GOOD: (&str, &str) = (
    r#"{"jsonrpc":"2.0","id":"good","method":"eth_blockNumber","params":[]}"#,
    r#"{"jsonrpc":"2.0","id":"good","result":"0x36"}"#,
);

/// One request and its exact answer.
pub(crate) struct Row {
    name: String,
    body: String,
    answer: String,
}

impl Row {
    /// A request body and its answer, byte for byte.
    fn exact(body: impl Into<String>, answer: impl Into<String>) -> Self {
        let body = body.into();
        Self {
            name: shortened(&body),
            body,
            answer: answer.into(),
        }
    }

    /// A call with id 1 and these parameters (JSON), refused with this code and message.
    fn refused(method: &str, params: &str, code: i32, message: &str) -> Self {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        Self::exact(body, error("1", code, message))
    }

    /// A call with id 1 and these parameters (JSON), answered with this result.
    fn answered(method: &str, params: &str, result: &str) -> Self {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        Self::exact(
            body,
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#),
        )
    }
}

/// Text cut to 300 characters.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// An error answer as the server writes it.
pub(crate) fn error(id: &str, code: i32, message: &str) -> String {
    let message = Value::from(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#)
}

/// Asserts that the connection still answers.
pub(crate) fn check_alive(name: &str, connection: &mut Connection) {
    let response = connection.post(GOOD.0);
    check(
        &format!("after: {name}"),
        &(response.status, response.text()),
        &(200, GOOD.1),
    );
}

/// Runs all rows over one connection and lists those that fail.
fn run(rows: &[Row]) {
    let server = Server::execution_apis(&[]);
    let mut connection = server.connect();
    let mut failures = Vec::new();
    for row in rows {
        let response = connection.post(&row.body);
        if (response.status, response.text()) != (200, row.answer.as_str()) {
            let actual = shortened(response.text());
            failures.push(format!(
                "{}\n expected {}\n   actual {} {actual}",
                row.name, row.answer, response.status
            ));
        }
        check_alive(&row.name, &mut connection);
    }
    assert!(
        failures.is_empty(),
        "{} of {} rows\n{}",
        failures.len(),
        rows.len(),
        failures.join("\n")
    );
}

/// Why a request is refused that a JSON Schema cannot refuse.
const BEYOND_SCHEMAS: [&str; 5] = [
    "invalid block range params",
    "block range extends beyond current head block",
    "query exceeds 5000 parameters",
    "too many slots",
    "pending logs are not supported",
];

/// The requests of the rows on parameters and filters, and whether the parameters are accepted. A
/// row that is refused for a reason beyond schemas is left out.
pub(crate) fn parameter_calls() -> Vec<(Value, bool)> {
    let rows = params::rows().into_iter().chain(filter::rows());
    let expressible = rows.filter(|row| {
        let mut reasons = BEYOND_SCHEMAS.iter();
        !reasons.any(|reason| row.answer.contains(reason))
    });
    let calls = expressible.map(|row| {
        let accepted = !row.answer.contains(r#""code":-32602"#);
        (serde_json::from_str(&row.body).unwrap(), accepted)
    });
    calls.collect()
}

#[test]
fn every_envelope_row_has_its_exact_answer() {
    run(&envelope::rows());
}

#[test]
fn every_parameter_row_has_its_exact_answer() {
    run(&params::rows());
}

#[test]
fn every_filter_row_has_its_exact_answer() {
    run(&filter::rows());
}

#[test]
fn there_are_at_least_300_rows() {
    let rows = envelope::rows().len() + params::rows().len() + filter::rows().len();
    assert!(rows >= 300, "{rows} rows");
}
