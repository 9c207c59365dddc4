//! What an upstream's JSON-RPC error codes mean.
//!
//! The message is ignored: it differs between clients and between their versions.

/// JSON-RPC 2.0, section 5.1: method not found.
pub(crate) const METHOD_NOT_FOUND: i32 = -32_601;

/// The code of errors without one of their own, as in geth.
pub(crate) const UNSPECIFIED: i32 = -32_000;

/// What an error code says about the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It does not have the method.
    UnsupportedMethod,
    /// It has the method, but does not accept these parameters.
    BadParams,
    /// It has no such block or transaction.
    NotFound,
    /// It limits our rate.
    RateLimited,
    /// Anything else.
    Other,
}

/// The meaning of `code`.
pub(crate) const fn meaning(code: i64) -> Meaning {
    match code {
        // JSON-RPC 2.0, section 5.1: method not found.
        -32601 => Meaning::UnsupportedMethod,
        // EIP-1474: method not supported.
        -32004 => Meaning::UnsupportedMethod,
        // JSON-RPC 2.0, section 5.1: invalid params.
        -32602 => Meaning::BadParams,
        // EIP-1474: resource not found.
        -32001 => Meaning::NotFound,
        // EIP-1474: limit exceeded; Infura and geth use it for too many requests.
        -32005 => Meaning::RateLimited,
        // QuickNode: requests per second.
        -32007 => Meaning::RateLimited,
        // Alchemy: the HTTP status as JSON-RPC code.
        429 => Meaning::RateLimited,
        _ => Meaning::Other,
    }
}
