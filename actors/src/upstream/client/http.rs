//! An HTTP transport that bounds the answers it reads.
//!
//! alloy's own transport reads answers of any length, writes the URL and the key in it into its
//! spans, and follows redirects to any host with the operator's headers.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use alloy_json_rpc::{RequestPacket, ResponsePacket};
use alloy_transport::{TransportError, TransportFut};
use parking_lot::Mutex;
use reqwest::{
    Client, Response,
    header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use rustls::ClientConfig;
use tokio::sync::OwnedSemaphorePermit;
use tower::Service;

use super::{
    CallError, ClientError, answer_bytes,
    large::{LargeAnswers, SMALL_MAX},
    tls,
};
use crate::upstream::Endpoint;

/// Longest wait for a connection; a call's own timeout may be shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept: for less time than most servers keep it, so that this side
/// closes it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest answer to one request, in bytes. It travels with the request through alloy's client.
#[derive(Clone, Copy, Debug)]
pub(super) struct BytesMax(pub(super) usize);

/// One upstream over HTTP.
#[derive(Clone, Debug)]
pub(super) struct HttpTransport {
    pool: Arc<Mutex<Pool>>,
    tls: ClientConfig,
    endpoint: Endpoint,
    answer_bytes_max: usize,
    batch_bytes_max: usize,
    large: Arc<LargeAnswers>,
}

/// A client with its pool of connections.
#[derive(Debug)]
struct Pool {
    client: Client,
    /// How many pools there were before it.
    number: u64,
}

/// The body of an answer.
struct Body {
    bytes: Vec<u8>,
    /// If it is large.
    permit: Option<OwnedSemaphorePermit>,
}

impl HttpTransport {
    pub(super) fn new(
        endpoint: Endpoint,
        answer_bytes_max: usize,
        large: Arc<LargeAnswers>,
    ) -> Result<Self, ClientError> {
        let tls = if endpoint.is_tls() {
            tls::system()
        } else {
            tls::without_trust()
        }?;
        let client = client(&endpoint, tls.clone())?;
        Ok(Self {
            pool: Arc::new(Mutex::new(Pool { client, number: 0 })),
            tls,
            endpoint,
            answer_bytes_max,
            batch_bytes_max: answer_bytes::BATCH,
            large,
        })
    }

    /// The same pool, for batches whose answers have at most this many bytes.
    pub(super) fn with_batch_bytes_max(&self, bytes_max: usize) -> Self {
        Self {
            batch_bytes_max: bytes_max.min(answer_bytes::BATCH),
            ..self.clone()
        }
    }

    /// The number of the pool in use.
    pub(super) fn pool(&self) -> u64 {
        self.pool.lock().number
    }

    /// Leaves this pool to the calls in progress, and begins an empty one. Connections that are
    /// idle may be as dead as the one of a call that was not answered. A pool that has already
    /// replaced it stays.
    pub(super) fn leave_pool(&self, number: u64) {
        let mut pool = self.pool.lock();
        if pool.number != number {
            return;
        }
        // The same configuration has been valid before.
        if let Ok(client) = client(&self.endpoint, self.tls.clone()) {
            *pool = Pool {
                client,
                number: number + 1,
            };
        }
    }

    async fn send(self, packet: RequestPacket) -> Result<ResponsePacket, CallError> {
        let limit = self.bytes_max(&packet);
        let json = serde_json::to_vec(&packet).map_err(|error| CallError::malformed(&error))?;
        let request = self.pool.lock().client.post(self.endpoint.url().clone());
        let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = request.body(json).send().await.map_err(connection_error)?;
        let status = response.status();
        if status.is_success() {
            let body = self.read(response, limit).await?;
            let answer = serde_json::from_slice(&body.bytes)
                .map_err(|error| CallError::malformed(&error))?;
            // Nobody waits for the permit of a batch, whose ids are its own.
            if let RequestPacket::Single(request) = &packet {
                self.large.give(request.id(), body.permit);
            }
            return Ok(answer);
        }
        let refused = CallError::from_status(status.as_u16(), retry_after(&response));
        if matches!(refused, CallError::RateLimited { .. }) {
            return Err(refused);
        }
        // Some upstreams refuse with an HTTP status and give the reason as JSON-RPC in the body.
        let body = self.read(response, limit).await;
        let answer = body
            .ok()
            .and_then(|body| serde_json::from_slice(&body.bytes).ok());
        let rpc_error = answer.filter(ResponsePacket::is_error);
        rpc_error.ok_or(refused)
    }

    /// Reads the body, up to `limit` bytes.
    async fn read(&self, mut response: Response, limit: usize) -> Result<Body, CallError> {
        let length = response.content_length().unwrap_or(0);
        if length > limit as u64 {
            return Err(CallError::TooLarge { limit });
        }
        let mut bytes = Vec::with_capacity(length.min(SMALL_MAX as u64) as usize);
        let mut permit = None;
        while let Some(chunk) = response.chunk().await.map_err(connection_error)? {
            if chunk.len() > limit - bytes.len() {
                return Err(CallError::TooLarge { limit });
            }
            if permit.is_none() && bytes.len() + chunk.len() > SMALL_MAX {
                permit = self.large.permit().await;
                // Only now: to state a length costs nothing. Doubling would take up to twice that.
                let rest = (length as usize).saturating_sub(bytes.len());
                bytes.reserve_exact(rest.max(chunk.len()));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Body { bytes, permit })
    }

    /// The most bytes to read of the answer.
    fn bytes_max(&self, packet: &RequestPacket) -> usize {
        if matches!(packet, RequestPacket::Batch(_)) {
            return self.batch_bytes_max.min(self.answer_bytes_max);
        }
        let bounds = packet.requests().iter();
        let bounds = bounds.filter_map(|request| request.meta().extensions().get::<BytesMax>());
        let bound = bounds.map(|BytesMax(bytes)| *bytes).max();
        bound.map_or(self.answer_bytes_max, |bytes| {
            bytes.min(self.answer_bytes_max)
        })
    }
}

impl Service<RequestPacket> for HttpTransport {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let send = self.clone().send(packet);
        Box::pin(async { send.await.map_err(CallError::into_transport) })
    }
}

/// A client with an empty pool of connections.
fn client(endpoint: &Endpoint, tls: ClientConfig) -> Result<Client, ClientError> {
    Client::builder()
        .tls_backend_preconfigured(tls)
        .default_headers(endpoint.headers().clone())
        .redirect(Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build()
        .map_err(|error| ClientError::Http(error.without_url()))
}

fn connection_error(error: reqwest::Error) -> CallError {
    CallError::connection(&error.without_url())
}

/// The wait in seconds that the upstream asks for. A date is ignored: no known server sends one.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}
