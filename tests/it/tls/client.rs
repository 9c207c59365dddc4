//! TLS clients that verify what a server sends.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, ProtocolVersion, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    runtime::{self, Handle},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::certificates::{Authority, Pair};
use crate::harness::PATIENCE;

/// Versions that a client offers.
pub(crate) type Versions = &'static [&'static SupportedProtocolVersion];

pub(crate) static ONLY_12: Versions = &[&TLS12];
pub(crate) static ONLY_13: Versions = &[&TLS13];
static BOTH: Versions = &[&TLS12, &TLS13];

/// What a client offers and trusts.
#[derive(Clone)]
pub(crate) struct TlsClient {
    pub(crate) versions: Versions,
    pub(crate) protocols: &'static [&'static str],
    /// Its own certificate.
    pub(crate) pair: Option<Pair>,
}

/// A connection under TLS, and what was agreed on.
pub(crate) struct Tunnel {
    /// What is written here is sent under TLS, and the other way round.
    pub(crate) stream: TcpStream,
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) protocol: Option<Vec<u8>>,
    pub(crate) certificate: CertificateDer<'static>,
}

impl Default for TlsClient {
    fn default() -> Self {
        Self {
            versions: BOTH,
            protocols: &["http/1.1"],
            pair: None,
        }
    }
}

impl TlsClient {
    fn config(&self) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(Authority::shared().trusted());
        let mut config = match &self.pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
                builder
                    .with_client_auth_cert(vec![pair.der()], key)
                    .unwrap()
            }
        };
        let protocols = self.protocols.iter();
        config.alpn_protocols = protocols.map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// Makes a handshake, for the name `localhost`, and verifies the server.
    pub(crate) fn handshake(&self, address: SocketAddr) -> io::Result<Stream> {
        self.handshake_on(TcpStream::connect(address)?)
    }

    /// The same on a connection on which something may have been sent.
    pub(crate) fn handshake_on(&self, socket: TcpStream) -> io::Result<Stream> {
        let connector = TlsConnector::from(Arc::new(self.config()));
        let name = ServerName::try_from("localhost").unwrap();
        runtime().block_on(async {
            let made = async {
                socket.set_nodelay(true)?;
                socket.set_nonblocking(true)?;
                let socket = tokio::net::TcpStream::from_std(socket)?;
                connector.connect(name, socket).await
            };
            tokio::time::timeout(PATIENCE, made).await.unwrap()
        })
    }

    /// The end of a connection that a server closes in place of an answer.
    pub(crate) fn is_refused(&self, address: SocketAddr) -> io::Error {
        let refused = self.handshake(address).and_then(|mut stream| {
            // With TLS 1.3, the client is done before the server has looked at its certificate.
            runtime().block_on(async {
                stream
                    .write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    .await?;
                stream.read_u8().await
            })
        });
        refused.expect_err("it is refused")
    }

    /// Connects.
    #[track_caller]
    pub(crate) fn connect(&self, address: SocketAddr) -> Tunnel {
        let mut tls = self.handshake(address).unwrap();
        let (_, session) = tls.get_ref();
        let certificates = session.peer_certificates().unwrap();
        let (version, protocol) = (session.protocol_version(), session.alpn_protocol());
        let (version, protocol) = (version, protocol.map(<[u8]>::to_vec));
        let certificate = certificates[0].clone().into_owned();
        let (stream, far) = pair();
        runtime().spawn(async move {
            far.set_nonblocking(true)?;
            let mut far = tokio::net::TcpStream::from_std(far)?;
            // An error ends the connection, which both sides see.
            copy_bidirectional(&mut far, &mut tls).await
        });
        Tunnel {
            stream,
            version,
            protocol,
            certificate,
        }
    }
}

/// A connection with its TLS, for what tunnels hide.
pub(crate) type Stream = TlsStream<tokio::net::TcpStream>;

/// Sends bytes.
pub(crate) fn sent(mut stream: Stream, bytes: &[u8]) -> Stream {
    runtime().block_on(stream.write_all(bytes)).unwrap();
    stream
}

/// Everything up to the end of the connection, which has to be said under TLS.
pub(crate) fn read_to_end(mut stream: Stream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = runtime().block_on(async {
        let read = stream.read_to_end(&mut bytes);
        tokio::time::timeout(PATIENCE, read).await.unwrap()
    });
    read.map(|_| bytes)
}

/// Closes a connection, and says so under TLS or not.
pub(crate) fn leave(mut stream: Stream, says_so: bool) {
    runtime().block_on(async {
        if says_so {
            stream.shutdown().await.unwrap();
        }
        drop(stream);
    });
}

/// Where the tunnels run: a thread that ends with the tests.
fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    })
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    (near, far)
}
