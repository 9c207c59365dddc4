//! The transport of calls: HTTP or WebSocket.

use std::{sync::Arc, time::Duration};

use alloy_json_rpc::RpcSend;
use alloy_primitives::B256;
use alloy_rpc_client::RpcClient;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::{sync::Mutex as AsyncMutex, time};

use super::{
    CallError, ClientError, Heads,
    http::{BytesMax, HttpTransport},
    ws::WsConnect,
};
use crate::upstream::{Endpoint, Scheme};

/// The connections to one upstream.
pub(super) enum Transport {
    /// A pool of connections, one request at a time on each.
    Http(RpcClient),
    /// One connection for everything, opened at the first call.
    WebSocket {
        connect: Box<WsConnect>,
        /// Held while a connection is opened, so that concurrent calls wait for it instead of
        /// opening others.
        opening: AsyncMutex<()>,
        open: Mutex<Option<RpcClient>>,
    },
}

impl Transport {
    pub(super) fn new(endpoint: &Endpoint, answer_bytes_max: usize) -> Result<Self, ClientError> {
        let endpoint = endpoint.clone();
        Ok(match endpoint.scheme() {
            Scheme::Http => {
                let transport = HttpTransport::new(endpoint, answer_bytes_max)?;
                Self::Http(RpcClient::new(transport, false))
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
    ) -> Result<Box<RawValue>, CallError> {
        let call = async |client: RpcClient| {
            let call = client.request(method, params).map_meta(|mut meta| {
                meta.extensions_mut().insert(BytesMax(bytes_max));
                meta
            });
            call.await.map_err(CallError::from_transport)
        };
        self.with_timeout(timeout, call).await
    }

    /// Subscribes, or fails if that is not answered within `timeout`.
    pub(super) async fn subscribe(
        &self,
        timeout: Duration,
        to: &'static str,
    ) -> Result<Heads, CallError> {
        let subscribe = async |client: RpcClient| {
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
    /// A timeout replaces the connection too, because the connection remembers an abandoned call
    /// until its answer arrives, which may be never.
    async fn with_timeout<T>(
        &self,
        timeout: Duration,
        call: impl AsyncFnOnce(RpcClient) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut used = None;
        let answer = time::timeout(timeout, async {
            let client = used.insert(self.client().await?);
            call(client.clone()).await
        });
        let answer = answer.await.unwrap_or(Err(CallError::Timeout(timeout)));
        if let Err(CallError::Connection(_) | CallError::Timeout(_)) = answer
            && let Some(client) = used
        {
            self.discard(&client);
        }
        answer
    }

    async fn client(&self) -> Result<RpcClient, CallError> {
        match self {
            Self::Http(client) => Ok(client.clone()),
            Self::WebSocket {
                connect,
                opening,
                open,
            } => {
                let _opening = opening.lock().await;
                let present = open.lock().clone();
                if let Some(client) = present {
                    return Ok(client);
                }
                let client = RpcClient::connect_pubsub(connect.as_ref().clone()).await;
                let client = client.map_err(CallError::from_transport)?;
                *open.lock() = Some(client.clone());
                Ok(client)
            }
        }
    }

    /// Stops using this connection. A new one that has already replaced it stays.
    fn discard(&self, client: &RpcClient) {
        if let Self::WebSocket { open, .. } = self {
            let is_same = |open: &mut RpcClient| Arc::ptr_eq(open.inner(), client.inner());
            open.lock().take_if(is_same);
        }
    }
}
