//! What an upstream's error numbers mean to whoever called: the only numbers of others in the tree.
//!
//! By number alone: the texts beside them differ between upstreams and between their versions.

/// What an error number says of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It does not have the method.
    MethodMissing,
    /// It has the method and does not take these parameters.
    BadParams,
    /// It has no such block or transaction.
    NotFound,
    /// It was asked too much.
    RateLimited,
    /// Something else.
    Other,
}

/// What `code` means.
pub(super) const fn meaning(code: i64) -> Meaning {
    match code {
        // JSON-RPC 2.0, section 5.1: method not found.
        -32601 => Meaning::MethodMissing,
        // EIP-1474: method not supported.
        -32004 => Meaning::MethodMissing,
        // JSON-RPC 2.0, section 5.1: invalid params.
        -32602 => Meaning::BadParams,
        // EIP-1474: resource not found.
        -32001 => Meaning::NotFound,
        // EIP-1474: limit exceeded; Infura's and geth's number for too many requests.
        -32005 => Meaning::RateLimited,
        // QuickNode: requests per second.
        -32007 => Meaning::RateLimited,
        // Alchemy: HTTP's number in JSON-RPC's place.
        429 => Meaning::RateLimited,
        _ => Meaning::Other,
    }
}
