//! A JSON-RPC read service for the latest 128 blocks of one Ethereum-compatible chain.

pub mod access;
pub mod config;
pub mod export;
mod feed;
pub mod http;
pub mod limits;
pub mod logging;
pub mod metrics;
pub mod progress;
mod reply;
mod request_actor;
pub mod rpc;
mod service;

pub use service::{Service, StartError};
