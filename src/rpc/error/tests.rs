#![allow(clippy::unwrap_used)]

use std::time::Duration;

use nearhead_actors::messages::QueryError;

use super::*;

#[track_caller]
fn check(error: &RpcError, expected: &str) {
    let written = error.to_json();
    assert_eq!(written, expected);
    serde_json::from_str::<serde_json::Value>(&written).unwrap();
}

#[test]
fn a_panic_of_an_actor_is_an_internal_error() {
    let error = RpcError::from_query(QueryError::Panicked, QuerySubject::Blocks);
    assert_eq!((error.code(), error.outcome()), (-32603, Outcome::Internal));
}

#[test]
fn an_overload_says_when_it_ends() {
    for (millis, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (7_200, 8)] {
        let retry_after = Duration::from_millis(millis);
        let error = QueryError::Overloaded { retry_after };
        let error = RpcError::from_query(error, QuerySubject::Logs);
        assert_eq!(error.outcome(), Outcome::Refused);
        let data = format!(r#""data":{{"backoff_seconds":{seconds}}}"#);
        check(
            &error,
            &format!(r#"{{"code":-32002,"message":"resource unavailable",{data}}}"#),
        );
    }
}

#[test]
fn a_block_that_is_not_reached_is_named_beside_the_head() {
    let hash = B256::repeat_byte(0xab);
    let block = BlockId { number: 27, hash };
    let head = BlockId { number: 26, hash };
    for (wanted, json) in [
        (MinBlock::Number(27), r#"{"number":"0x1b"}"#.to_owned()),
        (MinBlock::Hash(hash), format!(r#"{{"hash":"{hash}"}}"#)),
        (
            MinBlock::Block(block),
            format!(r#"{{"number":"0x1b","hash":"{hash}"}}"#),
        ),
    ] {
        let error = RpcError::NotReached(Box::new((head, wanted)));
        assert_eq!(error.outcome(), Outcome::Refused);
        let message = "resource unavailable, the min block is not reached yet";
        let head = format!(r#"{{"number":"0x1a","hash":"{hash}"}}"#);
        check(
            &error,
            &format!(
                r#"{{"code":-32002,"message":"{message}","data":{{"head":{head},"wanted":{json}}}}}"#
            ),
        );
    }
}

const fn exceeded(quota: QuotaKind) -> RpcError {
    RpcError::QuotaExceeded(Exceeded {
        quota,
        allowed: 2,
        requests_in_last_second: 3,
        retry_after_seconds: 1,
    })
}

#[test]
fn every_error_is_written_as_an_object() {
    check(
        &RpcError::Parse,
        r#"{"code":-32700,"message":"parse error"}"#,
    );
    check(
        &RpcError::method_not_found("a\"\\\u{1}\n\u{7f}é"),
        "{\"code\":-32601,\"message\":\"the method a\\\"\\\\\\u0001\\n\u{7f}é does not exist/is not available\"}",
    );
    check(
        &RpcError::TooManyLogs {
            from: 16,
            to: Some(18),
            limit: 10_000,
        },
        r#"{"code":-32005,"message":"query returned more than 10000 results","data":{"from":"0x10","to":"0x12","limit":10000}}"#,
    );
    check(
        &RpcError::TooManyLogs {
            from: 16,
            to: None,
            limit: 10_000,
        },
        r#"{"code":-32005,"message":"query returned more than 10000 results","data":{"from":"0x10","to":null,"limit":10000}}"#,
    );
    check(
        &exceeded(QuotaKind::Requests),
        r#"{"code":-32005,"message":"project ID request rate exceeded","data":{"backoff_seconds":1,"allowed_rps":2,"current_rps":3}}"#,
    );
    check(
        &exceeded(QuotaKind::Units),
        r#"{"code":-32005,"message":"project ID unit rate exceeded","data":{"backoff_seconds":1,"allowed_units_per_second":2}}"#,
    );
    check(
        &exceeded(QuotaKind::UnitsOfDay),
        r#"{"code":-32005,"message":"project ID units of the day are used up, they are renewed at 00:00 UTC","data":{"backoff_seconds":1,"allowed_units_per_day":2}}"#,
    );
    check(
        &RpcError::Filter(FilterError::Behind { from: 16, to: 300 }),
        r#"{"code":4444,"message":"the filter missed blocks 16 to 300, it goes on after them","data":{"from":"0x10","to":"0x12c"}}"#,
    );
    check(
        &RpcError::Filter(FilterError::NotFound),
        r#"{"code":-32000,"message":"filter not found"}"#,
    );
    check(
        &RpcError::NotListed(ListKind::UserAgents),
        r#"{"code":-32002,"message":"the user agent is not on the allowlist of this project ID"}"#,
    );
}

#[test]
fn a_state_that_no_upstream_has_is_an_error_of_its_own() {
    let error = RpcError::from_query(
        QueryError::StateUnavailable,
        QuerySubject::State { oldest: 0 },
    );
    check(
        &error,
        r#"{"code":-32000,"message":"state not available from the configured nodes"}"#,
    );
    assert_eq!(error.outcome(), Outcome::Refused);
}

#[test]
fn an_access_list_that_is_not_there_is_none_or_pruned() {
    let of = |error| RpcError::from_query(error, QuerySubject::Blocks);
    check(
        &of(QueryError::NoAccessList { number: 7 }),
        r#"{"code":-32001,"message":"resource not found: the block is older than access lists (Amsterdam)"}"#,
    );
    check(
        &of(QueryError::StateUnavailable),
        r#"{"code":4444,"message":"pruned history unavailable"}"#,
    );
}

#[test]
fn a_long_method_name_is_cut_at_a_character() {
    let long = "é".repeat(1_000);
    let RpcError::MethodNotFound(kept) = RpcError::method_not_found(&long) else {
        panic!("another error")
    };
    assert_eq!(kept.len(), ECHO_BYTES_MAX);
}
