//! Sockets, TLS, log-in, and the search for the master.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use nearhead_fleet::bounds::{CONNECT_TIME_MAX, REPLY_BYTES_MAX};
use redis::{
    AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value, aio::MultiplexedConnection,
};
use rustls::{ClientConfig, crypto::ring, pki_types::ServerName};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::AbortHandle,
    time,
};
use tokio_rustls::TlsConnector;

use super::{
    OptionsError, StoreError, StoreFault, StoreOptions, StoreUrl,
    bounded::{Allowance, Bounded},
    error::printable,
    reply,
    resolver::Resolver,
};

/// A connection to one server, for one exchange at a time.
pub(super) struct Connection {
    url: StoreUrl,
    server: Arc<str>,
    client: MultiplexedConnection,
    allowance: Allowance,
    driver: AbortHandle,
}

impl Drop for Connection {
    /// Otherwise, the socket would stay open until a server that hangs has answered.
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// The server, without secrets.
    pub(super) const fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// Sends a command, and reads at most so many bytes.
    pub(super) async fn ask(
        &mut self,
        command: &Cmd,
        bytes_max: usize,
    ) -> Result<Value, StoreFault> {
        self.allowance.set(bytes_max);
        let answer = self.client.send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        answer.map_err(|error| self.fault(&error, bytes_max))
    }

    /// Sends several commands together, and reads at most so many bytes. Each has its own answer,
    /// in their order.
    pub(super) async fn ask_all(
        &mut self,
        commands: &[Cmd],
        bytes_max: usize,
    ) -> Result<Vec<Result<Value, StoreFault>>, StoreFault> {
        self.allowance.set(bytes_max);
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command.clone());
        }
        let sent = self
            .client
            .send_packed_commands(&pipeline, 0, commands.len());
        let answers = sent.await.map_err(|error| self.fault(&error, bytes_max))?;
        if answers.len() != commands.len() {
            let text = format!("{} answers to {} calls", answers.len(), commands.len());
            return Err(StoreFault::Nonsense(text.into()));
        }
        let answers = answers.into_iter().map(Value::extract_error);
        let answers = answers.map(|one| one.map_err(|error| self.fault(&error, bytes_max)));
        Ok(answers.collect())
    }

    fn fault(&self, error: &RedisError, bytes_max: usize) -> StoreFault {
        match self.allowance.is_exceeded() {
            true => StoreFault::TooLarge(bytes_max),
            false => StoreFault::of(error, &self.url),
        }
    }
}

/// Connects to the master.
pub(super) struct Connector {
    urls: Vec<StoreUrl>,
    sentinel: Option<String>,
    tls: Option<TlsConnector>,
    resolver: Resolver,
    /// Which URL is tried first: not one that has failed.
    first: AtomicUsize,
    /// Grows when a server is found to be no master: connections of before are given up.
    generation: AtomicU64,
}

impl Connector {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// An option cannot be used.
    pub(super) fn new(options: &StoreOptions) -> Result<Self, OptionsError> {
        Self::with(options, Resolver::default())
    }

    pub(super) fn with(options: &StoreOptions, resolver: Resolver) -> Result<Self, OptionsError> {
        options.check()?;
        let is_tls = options.urls.iter().any(|url| url.is_tls);
        let tls = is_tls.then(tls).transpose();
        Ok(Self {
            urls: options.urls.clone(),
            sentinel: options.sentinel.clone(),
            tls: tls.map_err(OptionsError::Tls)?.map(TlsConnector::from),
            resolver,
            first: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
        })
    }

    /// What the store is called before a connection says which server it is.
    pub(super) fn name(&self) -> Arc<str> {
        let urls: Vec<String> = self.urls.iter().map(ToString::to_string).collect();
        urls.join(", ").into()
    }

    /// The current generation of connections.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Gives up all connections of now: their server is not the master.
    pub(super) fn look_again(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// Connects to the first URL that leads to the master. The next call begins after those that
    /// have failed, so that one that hangs uses up the time of one call alone.
    ///
    /// # Errors
    /// What the last one has failed by.
    pub(super) async fn connect(&self) -> Result<Connection, StoreError> {
        let count = self.urls.len();
        let first = self.first.load(Ordering::Relaxed);
        let mut result = Err(OptionsError::Urls(count).into());
        for at in first..first + count {
            self.first.store((at + 1) % count, Ordering::Relaxed);
            result = self.connect_by(&self.urls[at % count]).await;
            if result.is_ok() {
                self.first.store(at % count, Ordering::Relaxed);
                break;
            }
        }
        result
    }

    async fn connect_by(&self, url: &StoreUrl) -> Result<Connection, StoreError> {
        let Some(name) = &self.sentinel else {
            return self.connect_to_master(url).await;
        };
        // A sentinel has one database.
        let with_password = StoreUrl {
            database: 0,
            ..url.clone()
        };
        let mut sentinel = match self.open(&with_password).await {
            // It may have no users and passwords.
            Err(error) if matches!(error.fault(), StoreFault::Denied(_)) => {
                self.open(&url.anonymous()).await?
            }
            sentinel => sentinel?,
        };
        let server = Arc::clone(sentinel.server());
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let answer = within_time(&server, sentinel.ask(&command, REPLY_BYTES_MAX)).await?;
        let address = reply::address(answer);
        let address =
            address.map_err(|text| StoreError::new(server.clone(), StoreFault::Nonsense(text)))?;
        let Some((host, port)) = address else {
            return Err(StoreError::new(
                server,
                StoreFault::NoMaster(name.as_str().into()),
            ));
        };
        self.connect_to_master(&url.at(host, port)).await
    }

    async fn connect_to_master(&self, url: &StoreUrl) -> Result<Connection, StoreError> {
        let mut connection = self.open(url).await?;
        let server = Arc::clone(connection.server());
        let role = redis::cmd("ROLE");
        let role = within_time(&server, connection.ask(&role, REPLY_BYTES_MAX)).await?;
        match reply::is_master(&role) {
            true => Ok(connection),
            false => {
                let fault = StoreFault::NotMaster("its role is another one".into());
                Err(StoreError::new(server, fault))
            }
        }
    }

    /// A connection that is logged in.
    async fn open(&self, url: &StoreUrl) -> Result<Connection, StoreError> {
        let server: Arc<str> = url.to_string().into();
        within_time(&server, self.open_and_log_in(url, &server)).await
    }

    async fn open_and_log_in(
        &self,
        url: &StoreUrl,
        server: &Arc<str>,
    ) -> Result<Connection, StoreFault> {
        let unreachable = |error: io::Error| StoreFault::Unreachable(printable(&error.to_string()));
        let addresses = self.resolver.addresses(&url.host, url.port).await;
        let addresses = addresses.map_err(unreachable)?;
        let socket = TcpStream::connect(&*addresses).await;
        let socket = socket.map_err(unreachable)?;
        // A command is written at once, and waited for.
        socket.set_nodelay(true).map_err(unreachable)?;
        match &self.tls {
            Some(tls) if url.is_tls => {
                let name = ServerName::try_from(url.host.clone());
                let name =
                    name.map_err(|error| StoreFault::Unreachable(error.to_string().into()))?;
                let stream = tls.connect(name, socket).await.map_err(unreachable)?;
                log_in(url, server, stream).await
            }
            _ => log_in(url, server, socket).await,
        }
    }
}

/// Logs in, and chooses the database.
async fn log_in<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    url: &StoreUrl,
    server: &Arc<str>,
    stream: S,
) -> Result<Connection, StoreFault> {
    let mut info = RedisConnectionInfo::default().set_db(url.database);
    if let Some(user) = &url.user {
        info = info.set_username(user);
    }
    if let Some(password) = &url.password {
        info = info.set_password(password);
    }
    let allowance = Allowance::default();
    allowance.set(REPLY_BYTES_MAX);
    let stream = Bounded {
        stream,
        allowance: allowance.clone(),
    };
    // The callers limit the time of each call.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let opened = MultiplexedConnection::new_with_config(&info, stream, config).await;
    let (client, driver) = opened.map_err(|error| match allowance.is_exceeded() {
        true => StoreFault::TooLarge(REPLY_BYTES_MAX),
        false => StoreFault::of(&error, url),
    })?;
    Ok(Connection {
        url: url.clone(),
        server: Arc::clone(server),
        client,
        allowance,
        driver: tokio::spawn(driver).abort_handle(),
    })
}

/// Each step of connecting has its time.
async fn within_time<T>(
    server: &Arc<str>,
    step: impl Future<Output = Result<T, StoreFault>>,
) -> Result<T, StoreError> {
    let result = time::timeout(CONNECT_TIME_MAX, step).await;
    let result = result.unwrap_or(Err(StoreFault::TimedOut(CONNECT_TIME_MAX)));
    result.map_err(|fault| StoreError::new(Arc::clone(server), fault))
}

/// Trusts the authorities that the system trusts.
fn tls() -> Result<Arc<ClientConfig>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    let builder = builder.with_platform_verifier()?;
    Ok(Arc::new(builder.with_no_client_auth()))
}
