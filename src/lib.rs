//! A JSON-RPC read service for the latest 128 blocks of one Ethereum-compatible chain.

pub mod access;
pub mod config;
pub mod http;
pub mod limits;
pub mod metrics;
pub mod rpc;
