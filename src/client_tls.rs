//! TLS of a command that asks a running service.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt;

/// TLS with the certificates that the system trusts. A client needs a configuration even if it
/// does not use TLS, and the system may have no certificates.
///
/// # Errors
/// TLS is used, and the system's certificates cannot be read.
pub(crate) fn client_tls(is_used: bool) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    let builder = match is_used {
        true => builder.with_platform_verifier()?,
        false => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}
