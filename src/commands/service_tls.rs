//! TLS of the client of the admin API.

use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::{Failure, command_line::place::Certificates};
use crate::tls::{TlsError, authorities, certificates, client, private_key};

/// TLS with the certificates that the system trusts, or those that are given.
pub(super) fn config(given: &Certificates) -> Result<ClientConfig, Failure> {
    let builder = client::builder().map_err(Failure::new)?;
    let builder = match &given.authorities {
        Some(path) => {
            let not_usable = |reason| Failure::misuse(format!("--ca {}: {reason}", path.display()));
            builder.with_root_certificates(authorities(path, not_usable)?)
        }
        None => builder.with_platform_verifier().map_err(Failure::new)?,
    };
    match &given.client {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let (chain, key) = (certificates(certificate)?, private_key(key)?);
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| {
                Failure::misuse(format!(
                    "--client-cert cannot be used with --client-key: {error}"
                ))
            })
        }
    }
}

impl From<TlsError> for Failure {
    fn from(error: TlsError) -> Self {
        Self::misuse(error)
    }
}
