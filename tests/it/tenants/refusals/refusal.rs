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
pub(super) const OTHER_HOST: &str =
    "the key is the default `dev`, and `Host` is not of this machine";
pub(super) const OTHER_ORIGIN: &str =
    "the key is the default `dev`, and the origin is not of this machine";
const KEYS_CHANGED: &str = "4401, `the key's public keys have changed`";
const LIST_CHANGED: &str = "4403, `an allowlist of the key has changed`";

#[rustfmt::skip]
pub(super) const REFUSALS: [Refusal; 22] = [
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
    refusal(OTHER_HOST, "request", (403, -32002, "the header Host is not of this machine, use localhost or allow the host with --allowed-host"), NO, "4403, `the key serves this machine alone`"),
    refusal(OTHER_ORIGIN, "request", (403, -32002, "the origin is not of this machine, open the page from localhost or give nearhead an --api-key"), NO, "never"),
    refusal("the method is not listed", "call", (403, -32002, "the method is not on the allowlist of this project ID"), IF_LIMITED, "stays open"),
    refusal("a contract is not listed", "call", (403, -32002, "the contract address is not on the allowlist of this project ID"), IF_LIMITED, "stays open"),
    refusal("requests a second", "body, handshake", (429, -32005, "project ID request rate exceeded"), ("no", "yes", "yes"), "stays open"),
    refusal("units a second", "body, handshake", (429, -32005, "project ID unit rate exceeded"), ("no", "yes", "yes"), "stays open"),
    refusal("units a day", "body, handshake", (402, -32005, "project ID units of the day are used up, they are renewed at 00:00 UTC"), ("no", "yes, until 00:00 UTC", "if a rate is limited"), "stays open"),
    refusal("sessions", "handshake", (503, -32002, "resource unavailable"), ("no", "1", "no"), "stays open"),
    refusal("subscriptions of the tenant", "call", (200, -32000, "too many subscriptions, at most N a project ID"), NO, "stays open"),
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

/// Members of the error's `data`; none if it has no `data`.
fn data_members(row: &Refusal) -> &'static [&'static str] {
    match row.what {
        TOO_MANY_GUESSES | TOO_MANY_TOKENS => &["backoff_seconds"],
        "requests a second" => &["allowed_rps", "backoff_seconds", "current_rps"],
        "units a second" => &["allowed_units_per_second", "backoff_seconds"],
        "units a day" => &["allowed_units_per_day", "backoff_seconds"],
        _ => &[],
    }
}

pub(super) fn check_error(case: &str, answer: &Value, row: &Refusal) {
    let error = &answer["error"];
    check(case, &error["code"], &json!(row.code));
    let expected = row.message.replace("at most N", "at most 0");
    check(case, &error["message"], &json!(expected));
    let data = error["data"].as_object();
    let mut members: Vec<&str> = data
        .into_iter()
        .flatten()
        .map(|(name, _)| &**name)
        .collect();
    members.sort_unstable();
    check(&format!("{case}: {answer}"), &&*members, &data_members(row));
    for (name, value) in data.into_iter().flatten() {
        let least = u64::from(name != "current_rps");
        let is_number = value.as_u64().is_some_and(|number| number >= least);
        let is_allowed = !name.starts_with("allowed") || *value == json!(1);
        assert!(is_number && is_allowed, "{case}: {name} of {answer}");
    }
    check(case, &error.get("data").is_some(), &!members.is_empty());
}

/// What a client may use of a rate that no test exceeds.
pub(super) const RATE: u32 = 1_000_000;

/// Checks a response; `has_rate` says that a rate of [`RATE`] is limited as well.
pub(super) fn check_response(case: &str, response: &Response, row: &Refusal, has_rate: bool) {
    check(case, &response.status, &row.status);
    let answer = parse(&response.body);
    check_error(case, &answer, row);
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
    if let Some(backoff) = answer["error"]["data"]["backoff_seconds"].as_u64() {
        check(&format!("{case}: backoff"), &Some(backoff), &number);
    }
    let limit = match row.rate_limit {
        "yes" => Some(1),
        "if a rate is limited" if has_rate => Some(RATE),
        _ => None,
    };
    check_rate(case, response, limit);
}

/// Checks what a response says of the rate that holds this much; `None` if it may say nothing.
pub(super) fn check_rate(case: &str, response: &Response, limit: Option<u32>) {
    let [found, remaining, reset] = ["limit", "remaining", "reset"].map(|name| {
        let value = response.header(&format!("ratelimit-{name}"));
        value.map(|value| value.parse::<u32>().unwrap())
    });
    let case = format!("{case}: RateLimit-*");
    check(&case, &found, &limit);
    check(&case, &remaining.is_some(), &limit.is_some());
    check(&case, &reset.is_some(), &limit.is_some());
    assert!(remaining <= limit, "{case}: {remaining:?}");
    // One request or unit is back within a second.
    assert!(reset.is_none_or(|reset| reset <= 60), "{case}: {reset:?}");
}
