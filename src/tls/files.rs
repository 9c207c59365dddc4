//! The files that TLS is made of.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::tls_error::TlsError;
use crate::limits::TLS_FILE_BYTES_MAX;

/// The files that the options name, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The certificate, and the certificates between it and its authority.
    pub(crate) certificate: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
    /// The authorities of client certificates for the admin listener.
    pub(crate) client_authorities: Option<PathBuf>,
}

/// All certificates of a file, in its order.
///
/// # Errors
/// It cannot be read, or has none.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let not_readable = |reason: String| TlsError::Certificate {
        path: path.to_owned(),
        reason,
    };
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| not_readable(error.to_string()))?;
    match found.is_empty() {
        true => Err(not_readable("there is none".to_owned())),
        false => Ok(found),
    }
}

/// The authorities of a file. `not_usable` makes the error if one cannot be used.
///
/// # Errors
/// It cannot be read, has none, or has one that cannot be used.
pub(crate) fn authorities<E: From<TlsError>>(
    path: &Path,
    not_usable: impl Fn(String) -> E,
) -> Result<RootCertStore, E> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = authorities.add(certificate);
        added.map_err(|error| not_usable(error.to_string()))?;
    }
    Ok(authorities)
}

/// The private key of a file.
///
/// # Errors
/// It cannot be read, or has none.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let key = PrivateKeyDer::from_pem_slice(&read(path)?);
    key.map_err(|error| TlsError::Key {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Reads a file of at most [`TLS_FILE_BYTES_MAX`].
///
/// # Errors
/// It cannot be read, or is too long.
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let read = || {
        let mut bytes = Vec::new();
        let mut file = File::open(path)?.take(TLS_FILE_BYTES_MAX + 1);
        file.read_to_end(&mut bytes)?;
        match bytes.len() as u64 > TLS_FILE_BYTES_MAX {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(bytes),
        }
    };
    read().map_err(|error| TlsError::Unreadable {
        path: path.to_owned(),
        error,
    })
}
