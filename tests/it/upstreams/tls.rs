//! TLS in front of an upstream that speaks none.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime,
};
use tokio_rustls::TlsAcceptor;

/// What openssl puts into the certificate: self-signed, for `localhost`.
const CERTIFICATE_CONFIG: &str = "
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = nearhead test
[extensions]
subjectAltName = DNS:localhost
basicConstraints = critical, CA:FALSE
";

/// Terminates TLS and passes everything on to an upstream, until the process ends.
pub(crate) struct TlsFront {
    pub(crate) address: SocketAddr,
    /// The certificate, in PEM.
    pub(crate) certificate: PathBuf,
}

impl TlsFront {
    /// Starts a front of `upstream`, with a new certificate in this folder.
    pub(crate) fn to(upstream: SocketAddr, folder: &Path) -> Self {
        let path = |name| folder.join(name);
        let [config, key, certificate] = ["openssl.cnf", "key.pem", "certificate.pem"].map(path);
        fs::write(&config, CERTIFICATE_CONFIG).unwrap();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "2"])
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args([format!("-config={}", config.display())])
            .args([format!("-keyout={}", key.display())])
            .args([format!("-out={}", certificate.display())])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");

        let chain = vec![CertificateDer::from_pem_file(&certificate).unwrap()];
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));

        let runtime = runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            runtime.block_on(async {
                while let Ok((client, _)) = listener.accept().await {
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        // An error ends the connection, which both sides see.
                        let mut client = acceptor.accept(client).await?;
                        let mut upstream = TcpStream::connect(upstream).await?;
                        copy_bidirectional(&mut client, &mut upstream).await
                    });
                }
            });
        });
        Self {
            address,
            certificate,
        }
    }
}
