//! A WebSocket transport with custom headers and a bound on messages.

use std::{pin::pin, sync::Arc, time::Duration};

use alloy_json_rpc::PubSubItem;
use alloy_pubsub::{ConnectionHandle, ConnectionInterface, PubSubConnect};
use alloy_transport::{TransportErrorKind, TransportResult};
use futures_util::{SinkExt, StreamExt};
use reqwest::header::RETRY_AFTER;
use rustls::ClientConfig;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
    tungstenite::{self, Message, client::IntoClientRequest, protocol::WebSocketConfig},
};

use super::{
    CallError, ClientError,
    large::{LargeAnswers, SMALL_MAX},
    tls,
};
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
    large: Arc<LargeAnswers>,
}

impl WsConnect {
    pub(super) fn new(endpoint: Endpoint, message_bytes_max: usize) -> Result<Self, ClientError> {
        let tls = endpoint.is_tls().then(tls::system).transpose()?;
        Ok(Self {
            endpoint,
            tls: tls.map(Arc::new),
            message_bytes_max,
            large: Arc::new(LargeAnswers::new()),
        })
    }

    /// The same for another connection.
    pub(super) fn for_next_connection(&self) -> Self {
        Self {
            large: Arc::new(self.large.of_next_connection()),
            ..self.clone()
        }
    }

    pub(super) const fn large(&self) -> &Arc<LargeAnswers> {
        &self.large
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
        tokio::spawn(serve(socket, interface, Arc::clone(&self.large)));
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

/// Passes calls and answers on until either side ends.
///
/// alloy's own backend reads as many answers as arrive, of any size.
async fn serve(
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    mut interface: ConnectionInterface,
    large: Arc<LargeAnswers>,
) {
    if pass_on(socket, &mut interface, &large).await.is_none() {
        interface.close_with_error();
    }
}

/// Passes calls and answers on; `None` if the connection has ended.
async fn pass_on(
    mut socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    interface: &mut ConnectionInterface,
    large: &LargeAnswers,
) -> Option<()> {
    let mut is_pong_due = false;
    let mut keepalive = pin!(sleep(KEEPALIVE));
    loop {
        tokio::select! {
            biased;
            call = interface.recv_from_frontend() => {
                let Some(call) = call else {
                    return Some(());
                };
                keepalive.as_mut().reset(Instant::now() + KEEPALIVE);
                let text = Box::<str>::from(call).into_string();
                socket.send(Message::Text(text.into())).await.ok()?;
            }
            () = &mut keepalive => {
                if is_pong_due {
                    return None;
                }
                socket.send(Message::Ping(Default::default())).await.ok()?;
                is_pong_due = true;
                keepalive.as_mut().reset(Instant::now() + KEEPALIVE);
            }
            message = socket.next() => match message?.ok()? {
                Message::Text(text) => {
                    let permit = match text.len() > SMALL_MAX {
                        true => {
                            // Nothing else is read meanwhile, so a pong may be late.
                            let permit = large.permit().await;
                            keepalive.as_mut().reset(Instant::now() + KEEPALIVE);
                            permit
                        }
                        false => None,
                    };
                    let item: PubSubItem = serde_json::from_str(&text).ok()?;
                    if let PubSubItem::Response(answer) = &item {
                        large.give(&answer.id, permit);
                    }
                    interface.send_to_frontend(item).ok()?;
                }
                Message::Pong(_) => is_pong_due = false,
                Message::Ping(_) | Message::Frame(_) => {}
                Message::Binary(_) | Message::Close(_) => return None,
            },
        }
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
