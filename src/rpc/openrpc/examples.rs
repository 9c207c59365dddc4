//! Requests with their answers on the chain of execution-apis. A test sends each to a running
//! service.

use serde_json::Value;

/// The requests and answers, as JSON: `UPDATE_DOCS=1` writes the answers.
const EXAMPLES: &str = include_str!("examples.json");

/// A request and its result.
#[derive(Clone, Debug, serde::Deserialize)]
pub(super) struct Example {
    /// The method.
    pub(super) method: String,
    /// What the example shows.
    pub(super) name: String,
    /// The parameters.
    pub(super) params: Vec<Value>,
    /// The result.
    pub(super) result: Value,
}

/// All examples. The file is part of the program; a test shows that it can be read.
pub(super) fn examples() -> Vec<Example> {
    serde_json::from_str(EXAMPLES).unwrap_or_default()
}
