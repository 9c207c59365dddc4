//! The errors that upstreams answer with, as clients see them.

use alloy_json_rpc::ErrorPayload;

use crate::{
    messages::NodeError,
    upstream::{
        Endpoint,
        client::{METHOD_NOT_FOUND, UNSPECIFIED, printable},
    },
};

/// Largest number of characters of an upstream's message that a client sees: geth's longest have
/// some 200.
const MESSAGE_CHARS_MAX: usize = 512;

/// How the messages of nodes begin about a transaction that they have already, in lower case:
/// geth, reth, erigon and others (`already known`), Nethermind (`AlreadyKnown`), Besu (`Known
/// transaction`), anvil (`transaction already imported`) and Parity (`Transaction with the same
/// hash was already imported`).
const KNOWN_ALREADY: [&str; 5] = [
    "already known",
    "alreadyknown",
    "known transaction",
    "already imported",
    "with the same hash was already imported",
];

/// What may be before that, in lower case: erigon's code, and the subject.
const KNOWN_ALREADY_PREFIXES: [&str; 2] = ["already_exists: ", "transaction "];

/// What a client gets instead of a message that gives away how the upstream is called.
const HIDDEN: &str = "the node refused the call; its message names the node, so it is not shown";

/// Whether an upstream's message says that it has the transaction already.
pub(super) fn is_known_already(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let mut words = &*message;
    for prefix in KNOWN_ALREADY_PREFIXES {
        words = words.strip_prefix(prefix).unwrap_or(words);
    }
    KNOWN_ALREADY.iter().any(|begin| words.starts_with(begin))
}

/// The error of an upstream without a method.
pub(super) fn unsupported(method: &str) -> NodeError {
    NodeError {
        code: METHOD_NOT_FOUND,
        message: format!("the method {method} does not exist/is not available").into(),
    }
}

/// The error of an upstream's answer: its code and message, without its data.
pub(super) fn node_error<T>(endpoint: &Endpoint, payload: &ErrorPayload<T>) -> NodeError {
    let message = match endpoint.is_named_in(&payload.message) {
        true => HIDDEN.into(),
        false => printable(&payload.message, MESSAGE_CHARS_MAX),
    };
    NodeError {
        code: i32::try_from(payload.code).unwrap_or(UNSPECIFIED),
        message,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_client_says_that_it_has_a_transaction_in_its_own_words() {
        for (message, expected) in [
            ("already known", true),
            ("AlreadyKnown", true),
            ("AlreadyKnown, tx already in pool", true),
            ("Known transaction", true),
            ("known transaction: 0xab", true),
            ("ALREADY_EXISTS: already known", true),
            ("transaction already imported", true),
            ("Transaction with the same hash was already imported.", true),
            ("nonce too low", false),
            ("unknown transaction type", false),
            ("not a known transaction type", false),
            ("transaction is not already known", false),
            ("unknown account", false),
            ("replacement transaction underpriced", false),
            ("", false),
        ] {
            assert_eq!(is_known_already(message), expected, "{message}");
        }
    }

    #[test]
    fn errors_are_bounded_and_name_no_node() {
        let url = "https://user:pass-word@node.example.org:8/v3/0123456789abcdef?key=fedcba98765\
                   #X-Api-Key=third-secret";
        let endpoint: Endpoint = url.parse().unwrap();
        let long = "é".repeat(MESSAGE_CHARS_MAX + 1);
        for (code, message, expected) in [
            (-32_000, "nonce too low", (-32_000, "nonce too low")),
            (3, "a\nb\u{0}", (3, "a b ")),
            (1 << 40, "x", (-32_000, "x")),
            (i64::MIN, "x", (-32_000, "x")),
            (-1, &long, (-1, &long[..long.len() - 2])),
            (1, "no route to Node.Example.org", (1, HIDDEN)),
            (1, "project 0123456789abcdef is over its limit", (1, HIDDEN)),
            (1, "key=fedcba98765", (1, HIDDEN)),
            (1, "the header third-secret", (1, HIDDEN)),
            (1, "user:pass-word", (1, HIDDEN)),
            (1, "Basic dXNlcjpwYXNzLXdvcmQ=", (1, HIDDEN)),
            (1, "v3 of user", (1, "v3 of user")),
        ] {
            let payload: ErrorPayload = ErrorPayload {
                code,
                message: message.to_owned().into(),
                data: None,
            };
            let error = node_error(&endpoint, &payload);
            assert_eq!((error.code, &*error.message), expected, "{message}");
        }
    }
}
