//! The transport of calls: HTTP or WebSocket.

use std::{sync::Arc, time::Duration};

use alloy_json_rpc::{ErrorPayload, RpcError, RpcSend};
use alloy_primitives::B256;
use alloy_rpc_client::RpcClient;
use alloy_transport::TransportError;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::{sync::Mutex as AsyncMutex, time};

use super::{
    CallError, ClientError, Heads, JsonAnswer,
    http::{BytesMax, HttpTransport},
    large::LargeAnswers,
    ws::WsConnect,
};
use crate::upstream::{Endpoint, Scheme};

/// A connection, or a pool of them.
#[derive(Clone)]
pub(super) struct Connection {
    client: RpcClient,
    large: Arc<LargeAnswers>,
    /// The number of the pool; 0 over WebSocket.
    pool: u64,
}

impl Connection {
    async fn call(
        self,
        bytes_max: usize,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<JsonAnswer, TransportError> {
        let call = self.client.request(method, params).map_meta(|mut meta| {
            meta.extensions_mut().insert(BytesMax(bytes_max));
            meta
        });
        let expected = self.large.register(call.request().meta.id.clone());
        let json: Box<RawValue> = call.await?;
        Ok(expected.answered(json))
    }
}

/// The connections to one upstream.
pub(super) enum Transport {
    /// A pool of connections, one request at a time on each.
    Http {
        connection: Connection,
        transport: Box<HttpTransport>,
    },
    /// One connection for everything, opened at the first call.
    WebSocket {
        connect: Box<WsConnect>,
        /// Held while a connection is opened, so that concurrent calls wait for it instead of
        /// opening others.
        opening: AsyncMutex<()>,
        open: Mutex<Option<Connection>>,
    },
}

impl Transport {
    pub(super) fn new(endpoint: &Endpoint, answer_bytes_max: usize) -> Result<Self, ClientError> {
        let endpoint = endpoint.clone();
        Ok(match endpoint.scheme() {
            Scheme::Http => {
                let large = Arc::new(LargeAnswers::new());
                let transport = HttpTransport::new(endpoint, answer_bytes_max, Arc::clone(&large))?;
                let client = RpcClient::new(transport.clone(), false);
                let connection = Connection {
                    client,
                    large,
                    pool: 0,
                };
                Self::Http {
                    connection,
                    transport: Box::new(transport),
                }
            }
            Scheme::WebSocket => Self::WebSocket {
                connect: Box::new(WsConnect::new(endpoint, answer_bytes_max)?),
                opening: AsyncMutex::default(),
                open: Mutex::default(),
            },
        })
    }

    /// Makes a call, or fails if it is not answered within `timeout`. Over HTTP, at most
    /// `bytes_max` bytes of the answer are read.
    pub(super) async fn call(
        &self,
        timeout: Duration,
        bytes_max: usize,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<JsonAnswer, CallError> {
        let call = async |connection: Connection| {
            let answer = connection.call(bytes_max, method, params).await;
            answer.map_err(CallError::from_transport)
        };
        self.with_timeout(timeout, call).await
    }

    /// Makes several calls of one method in one request, or fails if they are not answered within
    /// `timeout`. Over HTTP, at most `bytes_max` bytes of the answers are read. Over WebSocket,
    /// each call is a message. Each has its own answer.
    pub(super) async fn batch<P: RpcSend>(
        &self,
        timeout: Duration,
        bytes_max: usize,
        method: &'static str,
        params: &[P],
    ) -> Result<Vec<Result<Box<RawValue>, CallError>>, CallError> {
        let bounded = match self {
            Self::Http { transport, .. } => Some(transport.with_batch_bytes_max(bytes_max)),
            Self::WebSocket { .. } => None,
        };
        let calls = async |Connection { client, .. }| {
            // The calls of a batch cannot have a bound of their own in alloy's client.
            let client = bounded.map_or(client, |transport| RpcClient::new(transport, false));
            let mut batch = client.new_batch();
            let mut answers = Vec::with_capacity(params.len());
            for params in params {
                let answer = batch.add_call::<_, Box<RawValue>>(method, params);
                answers.push(answer.map_err(CallError::from_transport)?);
            }
            batch.send().await.map_err(CallError::from_transport)?;
            let mut answered = Vec::with_capacity(answers.len());
            for answer in answers {
                answered.push(answer.await.map_err(CallError::from_transport));
            }
            Ok(answered)
        };
        self.with_timeout(timeout, calls).await
    }

    /// The same as [`Self::call`], with the upstream's own error as an answer.
    pub(super) async fn ask(
        &self,
        timeout: Duration,
        bytes_max: usize,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<Result<JsonAnswer, ErrorPayload>, CallError> {
        let ask =
            async |connection: Connection| match connection.call(bytes_max, method, params).await {
                Ok(answer) => Ok(Ok(answer)),
                Err(RpcError::ErrorResp(payload)) => Ok(Err(payload)),
                Err(error) => Err(CallError::from_transport(error)),
            };
        self.with_timeout(timeout, ask).await
    }

    /// Subscribes, or fails if that is not answered within `timeout`.
    pub(super) async fn subscribe(
        &self,
        timeout: Duration,
        to: &'static str,
    ) -> Result<Heads, CallError> {
        let subscribe = async |Connection { client, .. }| {
            let frontend = client.pubsub_frontend().cloned();
            let frontend = frontend.ok_or(CallError::UnsupportedMethod)?;
            let id: Result<B256, _> = client.request("eth_subscribe", (to,)).await;
            Heads::of(frontend, id.map_err(CallError::from_transport)?).await
        };
        self.with_timeout(timeout, subscribe).await
    }

    /// Makes a call on the open connection, or on a new one. If the connection has ended or the
    /// call times out, later calls open another; calls in progress on it go on.
    ///
    /// A timeout replaces the connection too. The connection remembers an abandoned call until its
    /// answer arrives, which may be never, and other connections may be dead like this one.
    async fn with_timeout<T>(
        &self,
        timeout: Duration,
        call: impl AsyncFnOnce(Connection) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut used = None;
        let answer = time::timeout(timeout, async {
            let connection = used.insert(self.connection().await?);
            call(connection.clone()).await
        });
        let answer = answer.await.unwrap_or(Err(CallError::Timeout(timeout)));
        if let Err(CallError::Connection(_) | CallError::Timeout(_)) = answer
            && let Some(connection) = used
        {
            self.discard(&connection);
        }
        answer
    }

    async fn connection(&self) -> Result<Connection, CallError> {
        match self {
            Self::Http {
                connection,
                transport,
            } => Ok(Connection {
                pool: transport.pool(),
                ..connection.clone()
            }),
            Self::WebSocket {
                connect,
                opening,
                open,
            } => {
                let _opening = opening.lock().await;
                let present = open.lock().clone();
                if let Some(connection) = present {
                    return Ok(connection);
                }
                let connect = connect.for_next_connection();
                let large = Arc::clone(connect.large());
                let client = RpcClient::connect_pubsub(connect).await;
                let client = client.map_err(CallError::from_transport)?;
                let connection = Connection {
                    client,
                    large,
                    pool: 0,
                };
                *open.lock() = Some(connection.clone());
                Ok(connection)
            }
        }
    }

    /// Stops using all connections.
    pub(super) fn reconnect(&self) {
        match self {
            Self::Http { transport, .. } => transport.leave_pool(transport.pool()),
            Self::WebSocket { open, .. } => _ = open.lock().take(),
        }
    }

    /// Stops using this connection. A new one that has already replaced it stays.
    fn discard(&self, connection: &Connection) {
        match self {
            Self::Http { transport, .. } => transport.leave_pool(connection.pool),
            Self::WebSocket { open, .. } => {
                let is_same = |open: &mut Connection| Arc::ptr_eq(&open.large, &connection.large);
                open.lock().take_if(is_same);
            }
        }
    }
}
