//! TLS of clients and of the listeners: the certificate and its key, read from files, and read
//! again while the service runs.
//!
//! | file | content |
//! |---|---|
//! | `client` | clients over HTTP, and TLS of all clients but those of upstreams |
//! | `files` | which files there are |
//! | `key_pair` | a certificate with its key, checked |
//! | `own_client` | connections of the service to itself |
//! | `server_tls` | what handshakes are made with now |
//! | `tls_error` | why files cannot be used |

pub(crate) mod client;
mod files;
mod key_pair;
mod own_client;
mod server_tls;
mod tls_error;

pub use self::tls_error::TlsError;
pub(crate) use self::{
    files::{TlsFiles, authorities, certificates, private_key},
    own_client::OwnClient,
    server_tls::{ListenerTls, ServerTls, read_pair},
};
