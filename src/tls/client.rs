//! Clients over HTTP, and TLS of all clients but those of upstreams.

use std::{fmt, path::Path, sync::Arc};

use reqwest::{Client, ClientBuilder, redirect::Policy};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, WantsVerifier,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::{TlsError, files::certificates};

/// The versions and ciphers of every client.
///
/// # Errors
/// A defect of this program.
pub(crate) fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    builder.with_safe_default_protocol_versions()
}

/// For plain HTTP. The client needs a configuration even so, and the system may have no
/// certificates.
///
/// # Errors
/// A defect of this program.
pub(crate) fn unused() -> Result<ClientConfig, Error> {
    let builder = builder()?.with_root_certificates(RootCertStore::empty());
    Ok(builder.with_no_client_auth())
}

/// Trusts the authorities that the system trusts, if TLS is used at all.
///
/// # Errors
/// The system's certificates cannot be read.
pub(crate) fn trusting_system(is_used: bool) -> Result<ClientConfig, Error> {
    match is_used {
        true => Ok(builder()?.with_platform_verifier()?.with_no_client_auth()),
        false => unused(),
    }
}

/// A client with this TLS that reaches the server of its URL alone: no other one gets what it sends
/// by a redirect or a proxy.
pub(crate) fn http_client(tls: ClientConfig) -> ClientBuilder {
    Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .referer(false)
        .no_proxy()
}

/// Trusts whoever has the key of a certificate that `accepts`, by whatever name it is reached.
///
/// # Errors
/// A defect of this program.
pub(super) fn trusting_only(accepts: Accepts) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = OneCertificate { accepts, provider };
    let builder = builder()?.dangerous();
    let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

/// Trusts the first certificate of a file alone: that of a service on this machine, which is
/// reached by an address that no certificate has.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn trusting_file(path: &Path) -> Result<ClientConfig, TlsError> {
    let own = certificates(path)?.into_iter().next();
    let accepts = move |found: &CertificateDer<'_>| own.as_ref() == Some(found);
    trusting_only(Box::new(accepts)).map_err(TlsError::setup)
}

/// Whether a server may have this certificate.
pub(super) type Accepts = Box<dyn Fn(&CertificateDer<'_>) -> bool + Send + Sync>;

/// Accepts certificates by themselves, and not by their authorities and names.
struct OneCertificate {
    accepts: Accepts,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for OneCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneCertificate").finish_non_exhaustive()
    }
}

impl ServerCertVerifier for OneCertificate {
    /// The signatures below show that the other end has its key.
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match (self.accepts)(end_entity) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
