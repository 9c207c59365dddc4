//! What handshakes are made with now.

use std::{path::Path, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use nearhead_tenants::UnixMillis;
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::CertificateDer,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::SingleCertAndKey,
};

use super::{
    files::{self, TlsFiles},
    key_pair::KeyPair,
    tls_error::TlsError,
};

/// What ALPN offers: HTTP/1.1 alone. actix's HTTP/2 bounds neither streams nor what they hold, and
/// the watch over connections knows one request at a time.
const PROTOCOL: &[u8] = b"http/1.1";

/// TLS of the public and of the admin listener, whose files may change while it is used.
#[derive(Debug)]
pub(crate) struct ServerTls {
    files: TlsFiles,
    current: ArcSwap<Current>,
}

/// What the files had when they were read last and could be used.
#[derive(Debug)]
struct Current {
    public: Arc<ServerConfig>,
    admin: Arc<ServerConfig>,
    pair: KeyPair,
}

/// TLS of one listener.
#[derive(Clone, Debug)]
pub(crate) struct ListenerTls {
    server: Arc<ServerTls>,
    /// Whether it wants certificates of clients, if there are authorities of such.
    is_admin: bool,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// They cannot be used, or the certificate has ended.
    pub(crate) fn read(files: TlsFiles) -> Result<Self, TlsError> {
        let current = ArcSwap::from_pointee(Current::read_valid(&files)?);
        Ok(Self { files, current })
    }

    /// Reads the files again. Connections keep what they were made with; those that come later have
    /// what is new.
    ///
    /// # Errors
    /// The files cannot be used, or the certificate has ended: then all stays as it is.
    pub(crate) fn read_again(&self) -> Result<(), TlsError> {
        self.current
            .store(Arc::new(Current::read_valid(&self.files)?));
        Ok(())
    }

    /// When the certificate ends.
    pub(crate) fn not_after(&self) -> UnixMillis {
        self.current.load().pair.not_after
    }

    /// Whether this is the certificate of the listeners.
    pub(super) fn is_own(&self, certificate: &CertificateDer<'_>) -> bool {
        self.current.load().pair.own() == Some(certificate)
    }

    /// TLS of the public listener.
    pub(crate) fn of_public(self: &Arc<Self>) -> ListenerTls {
        ListenerTls {
            server: Arc::clone(self),
            is_admin: false,
        }
    }

    /// TLS of the admin listener.
    pub(crate) fn of_admin(self: &Arc<Self>) -> ListenerTls {
        ListenerTls {
            server: Arc::clone(self),
            is_admin: true,
        }
    }
}

impl ListenerTls {
    /// What the next handshake is made with.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let current = self.server.current.load();
        match self.is_admin {
            true => Arc::clone(&current.admin),
            false => Arc::clone(&current.public),
        }
    }
}

/// Reads all files, and returns the pair, which may have ended.
///
/// # Errors
/// A file cannot be used.
pub(crate) fn read_pair(files: &TlsFiles) -> Result<KeyPair, TlsError> {
    Ok(Current::read(files)?.pair)
}

impl Current {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let pair = KeyPair::read(files, &provider)?;
        let public = config(&pair, &provider, None)?;
        let admin = match &files.client_authorities {
            None => Arc::clone(&public),
            Some(path) => config(&pair, &provider, Some(verifier(path, &provider)?))?,
        };
        Ok(Self {
            public,
            admin,
            pair,
        })
    }

    /// The same, unless the certificate has ended.
    fn read_valid(files: &TlsFiles) -> Result<Self, TlsError> {
        let this = Self::read(files)?;
        this.pair.check_end(files, SystemTime::now().into())?;
        Ok(this)
    }
}

/// What handshakes with this pair are made with; with a verifier, clients need a certificate.
///
/// Tickets, with which clients resume their sessions, hold for this configuration alone: a client
/// whose authority was removed cannot resume either.
fn config(
    pair: &KeyPair,
    provider: &Arc<CryptoProvider>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(TlsError::setup)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let resolver = SingleCertAndKey::from(pair.certified.clone());
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.ticketer = ring::Ticketer::new().map_err(TlsError::setup)?;
    Ok(Arc::new(config))
}

/// Accepts the certificates of clients that these authorities have signed.
fn verifier(
    path: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let not_usable = |reason: String| TlsError::Authorities {
        path: path.to_owned(),
        reason,
    };
    let authorities = files::authorities(path, not_usable)?;
    let (authorities, provider) = (Arc::new(authorities), Arc::clone(provider));
    let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider).build();
    let verifier = verifier.map_err(|error| not_usable(error.to_string()))?;
    Ok(verifier)
}
