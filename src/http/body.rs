//! Reads a request's body, within its bounds of size and time.

use std::{future::poll_fn, pin::Pin, time::Duration};

use actix_web::{
    HttpResponse,
    dev::Payload,
    http::{ConnectionType, StatusCode},
};
use bytes::{Bytes, BytesMut};
use futures_core::Stream;

use crate::{
    limits::{BODY_BYTES_MAX, DRAIN_BYTES_MAX},
    rpc::RpcError,
};

/// Why a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyRefusal {
    /// It has more bytes than may be asked at once.
    TooLarge,
    /// It did not arrive in time.
    TooSlow,
    /// The connection or the transfer coding broke.
    Broken,
}

impl BodyRefusal {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }

    pub(super) const fn error(self) -> RpcError {
        RpcError::InvalidHttp(match self {
            Self::TooLarge => "request body too large, send at most 5 MiB",
            Self::TooSlow => "request body too slow, send it in one go",
            Self::Broken => "request body broken off or malformed, send it again",
        })
    }
}

/// The whole body.
///
/// A body that is too large is read on to its end, within [`DRAIN_BYTES_MAX`], so that the connection can be used again.
///
/// # Errors
/// It is too large, too slow or broken.
pub(super) async fn read_body(payload: Payload, timeout: Duration) -> Result<Bytes, BodyRefusal> {
    let (kept, seen) = read(payload, BODY_BYTES_MAX, timeout).await?;
    if seen > BODY_BYTES_MAX {
        Err(BodyRefusal::TooLarge)
    } else {
        Ok(kept)
    }
}

/// Reads a body of a request that is refused, or needs none, and throws it away.
///
/// # Errors
/// It is too slow or broken.
pub(super) async fn drain(payload: Payload, timeout: Duration) -> Result<(), BodyRefusal> {
    read(payload, 0, timeout).await.map(drop)
}

/// Marks a response as the connection's last.
pub(super) fn close_after(mut response: HttpResponse) -> HttpResponse {
    response
        .head_mut()
        .set_connection_type(ConnectionType::Close);
    response
}

/// The body if it has at most `keep` bytes, and how many it has, as far as it was read.
async fn read(
    mut payload: Payload,
    keep: usize,
    timeout: Duration,
) -> Result<(Bytes, usize), BodyRefusal> {
    if matches!(payload, Payload::None) {
        return Ok((Bytes::new(), 0));
    }
    let all = async {
        let mut kept = Kept::default();
        let mut seen = 0_usize;
        while let Some(chunk) = poll_fn(|cx| Pin::new(&mut payload).poll_next(cx)).await {
            let chunk = chunk.map_err(|_| BodyRefusal::Broken)?;
            seen = seen.saturating_add(chunk.len());
            if seen > DRAIN_BYTES_MAX {
                break;
            }
            if seen <= keep {
                kept.push(chunk);
            } else {
                kept = Kept::default();
            }
        }
        Ok((kept.into_bytes(), seen))
    };
    tokio::time::timeout(timeout, all)
        .await
        .unwrap_or(Err(BodyRefusal::TooSlow))
}

/// Chunks of a body: one alone is kept as it is, several are joined.
#[derive(Default)]
struct Kept {
    first: Bytes,
    joined: BytesMut,
}

impl Kept {
    fn push(&mut self, chunk: Bytes) {
        if self.first.is_empty() && self.joined.is_empty() {
            self.first = chunk;
            return;
        }
        self.joined
            .extend_from_slice(&std::mem::take(&mut self.first));
        self.joined.extend_from_slice(&chunk);
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() {
            self.first
        } else {
            self.joined.freeze()
        }
    }
}
