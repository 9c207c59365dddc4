//! A WebSocket transport with custom headers and a bound on messages.

use std::{sync::Arc, time::Duration};

use alloy_pubsub::{ConnectionHandle, PubSubConnect};
use alloy_transport::{TransportErrorKind, TransportResult};
use alloy_transport_ws::{WebSocketConfig, WsBackend};
use reqwest::header::RETRY_AFTER;
use rustls::ClientConfig;
use tokio_tungstenite::{
    Connector, connect_async_tls_with_config,
    tungstenite::{self, client::IntoClientRequest},
};

use super::{CallError, ClientError, tls};
use crate::upstream::Endpoint;

/// Interval of pings on an idle connection. The connection ends if the pong has not arrived when
/// the next ping is due.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Opens the connection to one upstream.
#[derive(Clone, Debug)]
pub(super) struct WsConnect {
    endpoint: Endpoint,
    tls: Option<Arc<ClientConfig>>,
    /// A longer message ends the connection and every call on it: WebSocket cannot skip a message.
    message_bytes_max: usize,
}

impl WsConnect {
    pub(super) fn new(endpoint: Endpoint, message_bytes_max: usize) -> Result<Self, ClientError> {
        let tls = endpoint.is_tls().then(tls::system).transpose()?;
        Ok(Self {
            endpoint,
            tls: tls.map(Arc::new),
            message_bytes_max,
        })
    }

    async fn open(&self) -> Result<ConnectionHandle, CallError> {
        let mut request = self.endpoint.url().as_str().into_client_request();
        if let Ok(request) = &mut request {
            request
                .headers_mut()
                .extend(self.endpoint.headers().clone());
        }
        let config = WebSocketConfig::default()
            .max_message_size(Some(self.message_bytes_max))
            .max_frame_size(Some(self.message_bytes_max));
        let connector = match &self.tls {
            Some(tls) => Connector::Rustls(Arc::clone(tls)),
            None => Connector::Plain,
        };
        let request = request.map_err(|error| connect_error(&error))?;
        let opening = connect_async_tls_with_config(request, Some(config), true, Some(connector));
        let (socket, _) = opening.await.map_err(|error| connect_error(&error))?;
        let (handle, interface) = ConnectionHandle::new();
        WsBackend::from_socket(socket, interface, KEEPALIVE).spawn();
        Ok(handle)
    }
}

impl PubSubConnect for WsConnect {
    fn is_local(&self) -> bool {
        false
    }

    async fn connect(&self) -> TransportResult<ConnectionHandle> {
        self.open().await.map_err(CallError::into_transport)
    }

    /// Never reconnects: `health` decides when to try again, and has to learn that the connection
    /// ended.
    async fn try_reconnect(&self) -> TransportResult<ConnectionHandle> {
        Err(TransportErrorKind::non_retryable_str(
            "the connection ended",
        ))
    }
}

/// The error of a failed connection, without the URL that some messages contain.
fn connect_error(error: &tungstenite::Error) -> CallError {
    match error {
        tungstenite::Error::Http(response) => {
            let wait = response.headers().get(RETRY_AFTER);
            let wait = wait.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            CallError::from_status(response.status().as_u16(), wait.map(Duration::from_secs))
        }
        tungstenite::Error::Io(error) => CallError::connection(error),
        tungstenite::Error::Tls(error) => CallError::connection(error),
        tungstenite::Error::Protocol(error) => CallError::connection(error),
        _ => CallError::Connection("the WebSocket cannot be opened".into()),
    }
}
