use std::{io, path::PathBuf};

use nearhead_tenants::UtcTime;

/// Why the files of TLS cannot be used. The message is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system does not give its bytes.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It has no certificate in PEM, or a malformed one.
    #[error(
        "{} has no certificate that can be read ({reason}): it has to be in PEM, the server's first",
        path.display()
    )]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It has no private key in PEM, or one of a kind that is not supported.
    #[error(
        "{} has no private key that can be used ({reason}): it has to be in PEM, not encrypted, \
         RSA, ECDSA or Ed25519",
        path.display()
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The key is another certificate's.
    #[error(
        "the key in {} is not that of the certificate in {}: give both files of one pair",
        key.display(),
        certificate.display()
    )]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// No client accepts the certificate any more.
    #[error("the certificate in {} ended at {at}: renew it", path.display())]
    Expired {
        /// The file.
        path: PathBuf,
        /// When it ended.
        at: UtcTime,
    },
    /// It has no authority of client certificates.
    #[error(
        "{} has no authority of client certificates that can be used ({reason}): it has to be in \
         PEM",
        path.display()
    )]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A defect of this program.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

impl TlsError {
    /// A configuration that rustls does not make.
    pub(super) fn setup(error: rustls::Error) -> Self {
        Self::Setup(error.to_string())
    }
}
