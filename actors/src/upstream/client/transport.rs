//! The transport of calls: HTTP or WebSocket.

use std::sync::Arc;

use alloy_json_rpc::RpcSend;
use alloy_primitives::B256;
use alloy_rpc_client::RpcClient;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::Mutex as AsyncMutex;

use super::{CallError, ClientError, Heads, http::HttpTransport, ws::WsConnect};
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

    pub(super) async fn call(
        &self,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<Box<RawValue>, CallError> {
        let client = self.client().await?;
        let answer = client.request(method, params).await;
        answer.map_err(|error| self.failed(&client, CallError::of_transport(error)))
    }

    pub(super) async fn subscribe(&self, to: &'static str) -> Result<Heads, CallError> {
        let client = self.client().await?;
        let frontend = client.pubsub_frontend().cloned();
        let frontend = frontend.ok_or(CallError::MethodMissing)?;
        let id: Result<B256, _> = client.request("eth_subscribe", (to,)).await;
        let id = id.map_err(|error| self.failed(&client, CallError::of_transport(error)))?;
        Heads::of(frontend, id).await
    }

    /// Stops using the open connection; calls in progress on it go on.
    ///
    /// A connection remembers an abandoned call until its answer arrives, which may be never.
    pub(super) fn renew(&self) {
        if let Self::WebSocket { open, .. } = self {
            *open.lock() = None;
        }
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
                let client = client.map_err(CallError::of_transport)?;
                *open.lock() = Some(client.clone());
                Ok(client)
            }
        }
    }

    /// Drops the connection if it has ended, unless a new one has already replaced it.
    fn failed(&self, client: &RpcClient, error: CallError) -> CallError {
        if let Self::WebSocket { open, .. } = self
            && matches!(error, CallError::Connection(_))
        {
            let mut open = open.lock();
            let is_same = |other: &RpcClient| Arc::ptr_eq(other.inner(), client.inner());
            if open.as_ref().is_some_and(is_same) {
                *open = None;
            }
        }
        error
    }
}
