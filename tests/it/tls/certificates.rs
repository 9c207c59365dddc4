//! Certificates, made by openssl for as long as a test runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock, PoisonError},
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::harness::scratch;

/// How openssl signs: it keeps a list of what it has signed.
const AUTHORITY_CONFIG: &str = "
[req]
distinguished_name = name
x509_extensions = authority
prompt = no
[name]
CN = nearhead test authority
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[ca]
default_ca = own
[own]
database = list.txt
new_certs_dir = .
certificate = authority.pem
private_key = authority.key
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
[server]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:localhost, IP:127.0.0.1
[other_name]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:other.example.org
[client]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = clientAuth
";

/// An authority that signs certificates, in a folder of its own.
pub(crate) struct Authority {
    folder: PathBuf,
    /// Held while openssl signs: it replaces its list, which for a moment does not exist.
    list: Mutex<()>,
}

/// The files of a certificate and its key.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// When a certificate is valid, as `openssl ca` reads it.
#[derive(Clone, Copy)]
pub(crate) struct Valid(pub(crate) &'static str, pub(crate) &'static str);

impl Valid {
    /// Now, and for longer than anybody is warned.
    pub(crate) const LONG: Self = Self("20200101000000Z", "20991231235959Z");
    pub(crate) const ENDED: Self = Self("20200101000000Z", "20200201000000Z");
}

impl Authority {
    /// A new authority.
    pub(crate) fn new(name: &str) -> Self {
        let folder = scratch(&format!("authority-{name}"));
        fs::write(folder.join("openssl.cnf"), AUTHORITY_CONFIG).unwrap();
        fs::write(folder.join("list.txt"), "").unwrap();
        let this = Self {
            folder,
            list: Mutex::default(),
        };
        let files = ["-keyout", "authority.key", "-out", "authority.pem"];
        let subject = format!("/CN=nearhead test authority {name}");
        let made = ["req", "-x509", "-nodes", "-days", "2", "-subj", &subject];
        this.openssl(&[&made[..], &NEW_KEY, &CONFIG, &files].concat());
        this
    }

    /// The authority that the tests share.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Authority> = OnceLock::new();
        SHARED.get_or_init(|| Self::new("shared"))
    }

    /// Its certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// A store that trusts it alone.
    pub(crate) fn trusted(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(self.certificate()).unwrap();
        store.add(certificate).unwrap();
        store
    }

    /// Signs a new certificate of this kind: a section of the configuration.
    pub(crate) fn sign(&self, name: &str, kind: &str, Valid(from, to): Valid) -> Pair {
        let file = |extension: &str| format!("{name}.{extension}");
        let [key, request, certificate] = ["key", "csr", "pem"].map(file);
        let files = ["-keyout", &key, "-out", &request];
        let subject = format!("/CN={name}");
        let asked = ["req", "-new", "-nodes", "-subj", &subject];
        self.openssl(&[&asked[..], &NEW_KEY, &CONFIG, &files].concat());
        let signed = ["ca", "-batch", "-notext", "-extensions", kind];
        let when = ["-startdate", from, "-enddate", to];
        let files = ["-in", &request, "-out", &certificate];
        let _list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        self.openssl(&[&signed[..], &CONFIG, &when, &files].concat());
        Pair {
            certificate: self.folder.join(certificate),
            key: self.folder.join(key),
        }
    }

    fn openssl(&self, arguments: &[&str]) {
        let mut openssl = Command::new("openssl");
        let output = openssl.args(arguments).current_dir(&self.folder).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

const NEW_KEY: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
const CONFIG: [&str; 2] = ["-config", "openssl.cnf"];

impl Pair {
    /// The options of a server with this pair.
    pub(crate) fn options(&self) -> [&str; 4] {
        let [certificate, key] = [&self.certificate, &self.key].map(|path| path.to_str().unwrap());
        ["--tls-cert", certificate, "--tls-key", key]
    }

    /// The same files in a folder of a test's own, where they can be replaced.
    pub(crate) fn copied_to(&self, folder: &Path) -> Self {
        let copy = Self {
            certificate: folder.join("live.pem"),
            key: folder.join("live.key"),
        };
        self.replace(&copy);
        copy
    }

    /// Replaces the files of `live` by these, one after the other, each at once.
    pub(crate) fn replace(&self, live: &Self) {
        for (from, to) in [
            (&self.certificate, &live.certificate),
            (&self.key, &live.key),
        ] {
            let next = to.with_extension("next");
            fs::copy(from, &next).unwrap();
            fs::rename(next, to).unwrap();
        }
    }

    /// The certificate as it is sent.
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).unwrap()
    }
}
