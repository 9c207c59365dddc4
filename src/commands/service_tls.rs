//! TLS of the client of the admin API.

use std::path::Path;

use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier, client::WantsClientCert};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::{Failure, command_line::place::Certificates};
use crate::tls::{TlsError, certificates, client, private_key};

/// TLS with the certificates that the system trusts, or those that are given.
pub(super) fn config(given: &Certificates) -> Result<ClientConfig, Failure> {
    let builder = client::builder().map_err(Failure::new)?;
    let builder = match &given.authorities {
        Some(path) => with_authorities(builder, path)?,
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

fn with_authorities(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    path: &Path,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Failure> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = authorities.add(certificate);
        added.map_err(|error| Failure::misuse(format!("--ca {}: {error}", path.display())))?;
    }
    Ok(builder.with_root_certificates(authorities))
}

impl From<TlsError> for Failure {
    fn from(error: TlsError) -> Self {
        Self::misuse(error)
    }
}
