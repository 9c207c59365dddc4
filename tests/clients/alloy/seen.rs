use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use alloy_json_rpc::{RequestPacket, ResponsePacket};
use alloy_provider::transport::{TransportError, TransportErrorKind, TransportFut};
use reqwest::{Client, Url, header};

/// Posts requests, and passes on the highest block that an answer was made from.
#[derive(Clone)]
pub struct SeenTransport {
    pub client: Client,
    pub url: Url,
    pub seen: Arc<Mutex<Option<(u64, String)>>>,
}

impl SeenTransport {
    async fn post(self, request: RequestPacket) -> Result<ResponsePacket, TransportError> {
        let body = serde_json::to_vec(&request).map_err(TransportError::ser_err)?;
        let mut post = self.client.post(self.url).body(body);
        post = post.header(header::CONTENT_TYPE, "application/json");
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, block)) = &*seen() {
            post = post.header("X-Nearhead-Min-Block", block);
        }
        let response = post.send().await.map_err(TransportErrorKind::custom)?;
        let block = response.headers().get("X-Nearhead-Block");
        let block = block.and_then(|block| {
            let block = block.to_str().ok()?;
            let number = block.split(',').next()?.parse().ok()?;
            Some((number, block.to_owned()))
        });
        let body = response.bytes().await.map_err(TransportErrorKind::custom)?;
        let mut highest = seen();
        *highest = highest.take().max(block);
        serde_json::from_slice(&body)
            .map_err(|error| TransportError::deser_err(error, String::from_utf8_lossy(&body)))
    }
}

impl tower::Service<RequestPacket> for SeenTransport {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: RequestPacket) -> Self::Future {
        Box::pin(self.clone().post(request))
    }
}
