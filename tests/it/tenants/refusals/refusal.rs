//! The table of refusals, which is that of docs/access.md, and checks of an answer against a row.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::scene::seconds;
use crate::harness::{Response, check, json as parse};

/// A row of the table.
pub(super) struct Refusal {
    pub(super) what: &'static str,
    pub(super) place: &'static str,
    pub(super) status: u16,
    pub(super) code: i64,
    pub(super) message: &'static str,
    pub(super) challenge: &'static str,
    pub(super) retry_after: &'static str,
    pub(super) rate_limit: &'static str,
    pub(super) session: &'static str,
}

const fn refusal(
    what: &'static str,
    place: &'static str,
    (status, code, message): (u16, i64, &'static str),
    (challenge, retry_after, rate_limit): (&'static str, &'static str, &'static str),
    session: &'static str,
) -> Refusal {
    Refusal {
        what,
        place,
        status,
        code,
        message,
        challenge,
        retry_after,
        rate_limit,
        session,
    }
}

const NO: (&str, &str, &str) = ("no", "no", "no");
const BEARER: (&str, &str, &str) = (r#"`Bearer realm="nearhead"`"#, "no", "no");
const OTHER_TOKEN: (&str, &str, &str) = (
    r#"`Bearer realm="nearhead", error="invalid_token"`"#,
    "no",
    "no",
);
const IF_LIMITED: (&str, &str, &str) = ("no", "no", "if a rate is limited");
pub(super) const TOO_MANY_TOKENS: &str =
    "too many tokens of the client's network were not accepted";
pub(super) const TOO_MANY_GUESSES: &str =
    "too many keys or secrets of the client's network were not accepted";
const KEYS_CHANGED: &str = "4401, `the key's public keys have changed`";
const LIST_CHANGED: &str = "4403, `an allowlist of the key has changed`";

#[rustfmt::skip]
pub(super) const REFUSALS: [Refusal; 20] = [
    refusal("the key is missing, unknown, expired or revoked", "request", (401, -32002, "invalid project id"), BEARER, "4401, `the key was revoked or has expired`"),
    refusal("the secret is missing or wrong", "request", (401, -32002, "invalid project secret"), BEARER, "4401, `the key's secret has changed`"),
    refusal(TOO_MANY_GUESSES, "request", (429, -32005, "too many project IDs or secrets of this network were not accepted, try again later"), ("no", "yes", "no"), "never"),
    refusal("the token is missing", "request", (401, -32002, "JSON Web Token required, send it in the header Authorization: Bearer"), BEARER, KEYS_CHANGED),
    refusal("the token cannot be read, or no public key has signed it", "request", (401, -32002, "invalid JSON Web Token"), OTHER_TOKEN, KEYS_CHANGED),
    refusal("the token is signed, but a claim is missing or malformed", "request", (401, -32002, "invalid claims of the JSON Web Token, it needs aud and exp"), OTHER_TOKEN, "never"),
    refusal("the token is signed for another key", "request", (401, -32002, "the JSON Web Token is for another audience"), OTHER_TOKEN, "never"),
    refusal("the token is signed, but its `nbf` has not come", "request", (401, -32002, "the JSON Web Token is not valid yet"), OTHER_TOKEN, "never"),
    refusal("the token is signed, but its `exp` is over", "request", (401, -32002, "the JSON Web Token has expired"), OTHER_TOKEN, "4401, `the JSON Web Token has expired`"),
    refusal(TOO_MANY_TOKENS, "request", (429, -32005, "too many JSON Web Tokens of this network were not accepted, try again later"), ("no", "yes", "no"), "never"),
    refusal("the origin is not listed", "request", (403, -32002, "the origin is not on the allowlist of this project ID"), NO, LIST_CHANGED),
    refusal("the user agent is not listed", "request", (403, -32002, "the user agent is not on the allowlist of this project ID"), NO, LIST_CHANGED),
    refusal("the client's network is not listed", "request", (403, -32002, "the IP address is not on the allowlist of this project ID"), NO, LIST_CHANGED),
    refusal("the method is not listed", "call", (403, -32002, "the method is not on the allowlist of this project ID"), IF_LIMITED, "stays open"),
    refusal("a contract is not listed", "call", (403, -32002, "the contract address is not on the allowlist of this project ID"), IF_LIMITED, "stays open"),
    refusal("requests a second", "body, handshake", (429, -32005, "project ID request rate exceeded"), ("no", "yes", "yes"), "stays open"),
    refusal("units a second", "body, handshake", (429, -32005, "project ID unit rate exceeded"), ("no", "yes", "yes"), "stays open"),
    refusal("units a day", "body, handshake", (402, -32005, "project ID units of the day are used up, they are renewed at 00:00 UTC"), ("no", "yes, until 00:00 UTC", "if a rate is limited"), "stays open"),
    refusal("sessions", "handshake", (503, -32002, "resource unavailable"), ("no", "1", "no"), "stays open"),
    refusal("subscriptions of the tenant", "call", (200, -32000, "too many subscriptions, at most N a project ID"), IF_LIMITED, "stays open"),
];

/// The row of this refusal.
pub(super) fn row(what: &str) -> &'static Refusal {
    let row = REFUSALS.iter().find(|row| row.what == what);
    row.unwrap_or_else(|| panic!("no row {what}"))
}

#[test]
fn the_table_of_the_docs_is_this_one() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/access.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("\n| what | where | status |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let found: Vec<&str> = table.lines().skip(2).collect();
    let expected = REFUSALS.iter().map(|row| {
        let Refusal {
            what,
            place,
            status,
            code,
            message,
            challenge,
            retry_after,
            rate_limit,
            session,
        } = row;
        format!(
            "| {what} | {place} | {status} | {code} | `{message}` | {challenge} | {retry_after} | {rate_limit} | {session} |"
        )
    });
    let expected: Vec<String> = expected.collect();
    for (found, expected) in found.iter().zip(&expected) {
        check("docs/access.md", found, &expected.as_str());
    }
    check("rows", &found.len(), &expected.len());
}

pub(super) fn check_error(case: &str, answer: &Value, row: &Refusal) {
    let error = &answer["error"];
    check(case, &error["code"], &json!(row.code));
    let expected = row.message.replace("at most N", "at most 0");
    check(case, &error["message"], &json!(expected));
}

pub(super) fn check_response(case: &str, response: &Response, row: &Refusal) {
    check(case, &response.status, &row.status);
    check_error(case, &parse(&response.body), row);
    let challenge = response.header("www-authenticate");
    let challenge = challenge.map_or("no".to_owned(), |challenge| format!("`{challenge}`"));
    check(case, &challenge.as_str(), &row.challenge);
    let retry_after = response.header("retry-after");
    let number = retry_after.and_then(|seconds| seconds.parse::<u64>().ok());
    match row.retry_after {
        "no" => check(case, &retry_after, &None),
        "1" => check(case, &retry_after, &Some("1")),
        "yes" => assert!(matches!(number, Some(1..=60)), "{case}: {retry_after:?}"),
        "yes, until 00:00 UTC" => {
            let left = 86_400 - seconds() % 86_400;
            let is_near = number.is_some_and(|number| number.abs_diff(left) <= 60);
            assert!(is_near, "{case}: {retry_after:?}, not {left}");
        }
        other => panic!("{other}"),
    }
    for name in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
        let is_there = response.header(name).is_some();
        check(
            &format!("{case}: {name}"),
            &is_there,
            &(row.rate_limit == "yes"),
        );
    }
}
