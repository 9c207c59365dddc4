//! Source `node`: real nodes, none of them trusted.
//!
//! | file | what it is |
//! |---|---|
//! | [`Endpoint`] | how a node is configured: URL, authorization, headers; shown without its secrets |
//! | [`client`] | one node's calls: timeouts, bounds, one enum of failures; the only files that know JSON |

pub mod client;
mod endpoint;

pub use endpoint::{Endpoint, EndpointError, Scheme};
