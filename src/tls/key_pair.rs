//! A certificate with its private key.

use std::time::Duration;

use nearhead_tenants::{UnixMillis, UtcTime};
use rustls::{
    Error, InconsistentKeys,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::CertifiedKey,
};
use webpki::{EndEntityCert, KeyUsage};

use super::{
    files::{self, TlsFiles},
    tls_error::TlsError,
};

/// A certificate with the key that fits it, and when it is valid.
#[derive(Clone, Debug)]
pub(crate) struct KeyPair {
    pub(super) certified: CertifiedKey,
    pub(crate) not_before: UnixMillis,
    pub(crate) not_after: UnixMillis,
}

impl KeyPair {
    /// Reads and checks the files. Whether it is valid now, the caller decides.
    ///
    /// # Errors
    /// A file cannot be read, or the key is not that of the certificate.
    pub(crate) fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let (certificate, key_file) = (&files.certificate, &files.key);
        let not_readable = |reason: String| TlsError::Certificate {
            path: certificate.clone(),
            reason,
        };
        let chain = files::certificates(certificate)?;
        let valid = chain.first().map(|own| validity(own)).transpose();
        let valid = valid.map_err(|error| not_readable(error.to_string()))?;
        // There is one: a file without certificates is an error.
        let (not_before, not_after) = valid.unwrap_or_default();
        let no_key = |reason: String| TlsError::Key {
            path: key_file.clone(),
            reason,
        };
        let key = files::private_key(key_file)?;
        let certified = CertifiedKey::from_der(chain, key, provider);
        let certified = certified.map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError::Mismatch {
                certificate: certificate.clone(),
                key: key_file.clone(),
            },
            Error::InvalidCertificate(_) => not_readable(error.to_string()),
            other => no_key(other.to_string()),
        })?;
        Ok(Self {
            certified,
            not_before,
            not_after,
        })
    }

    /// # Errors
    /// It has ended.
    pub(super) fn check_end(&self, files: &TlsFiles, now: UnixMillis) -> Result<(), TlsError> {
        match self.not_after < now {
            true => Err(TlsError::Expired {
                path: files.certificate.clone(),
                at: UtcTime::from(self.not_after),
            }),
            false => Ok(()),
        }
    }

    /// The certificate of the server, without those above it.
    pub(super) fn own(&self) -> Option<&CertificateDer<'static>> {
        self.certified.cert.first()
    }

    /// Whether it is for this host: a name or an IP address.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        let (Some(own), Ok(name)) = (self.own(), ServerName::try_from(host)) else {
            return false;
        };
        let own = EndEntityCert::try_from(own);
        own.is_ok_and(|own| own.verify_is_valid_for_subject_name(&name).is_ok())
    }
}

/// From when to when a certificate is valid.
///
/// The library gives these times with the reason why a certificate is not valid at another time: so
/// it is asked about the beginning and the end of all time. It checks that before anything else.
fn validity(certificate: &CertificateDer<'_>) -> Result<(UnixMillis, UnixMillis), webpki::Error> {
    let certificate = EndEntityCert::try_from(certificate)?;
    let at = |seconds| {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let usage = KeyUsage::server_auth();
        certificate.verify_for_usage(&[], &[], &[], time, usage, None, None)
    };
    let millis = |time: UnixTime| UnixMillis(time.as_secs().saturating_mul(1_000));
    let not_before = match at(0).err() {
        Some(webpki::Error::CertNotValidYet { not_before, .. }) => millis(not_before),
        // It has always been valid.
        _ => UnixMillis(0),
    };
    match at(u64::MAX).err() {
        Some(webpki::Error::CertExpired { not_after, .. }) => Ok((not_before, millis(not_after))),
        Some(error) => Err(error),
        // It ends after all times that there are.
        None => Ok((not_before, UnixMillis(u64::MAX))),
    }
}
