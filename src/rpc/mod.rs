//! JSON-RPC: envelope, parameters, dispatch, methods. Knows no HTTP.

pub mod dispatch;
