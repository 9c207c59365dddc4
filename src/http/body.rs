//! Reads a request's body within its bounds of size and time.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use actix_web::{
    HttpResponse,
    dev::Payload,
    http::{ConnectionType, StatusCode},
};
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use tokio::time::{Sleep, sleep};

use crate::{
    connections::{BodyBudget, Charge, UsedUp},
    limits::{BODY_BYTES_MAX, DRAIN_BYTES_MAX},
    rpc::RpcError,
};

/// Why a body was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyRefusal {
    /// It has more than [`BODY_BYTES_MAX`] bytes.
    TooLarge,
    /// It has more than [`DRAIN_BYTES_MAX`] bytes, and was not read to its end.
    Endless,
    /// It did not arrive in time.
    TooSlow,
    /// The connection or the transfer coding broke.
    Broken,
    /// The worker's budget for large bodies and messages is used up, for this time.
    Busy { retry_after: Duration },
}

impl BodyRefusal {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge | Self::Endless => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(super) fn error(self) -> RpcError {
        RpcError::InvalidHttp(match self {
            Self::TooLarge | Self::Endless => return RpcError::BODY_TOO_LARGE,
            Self::TooSlow => "request body too slow, send it in one go",
            Self::Broken => "request body broken off or malformed, send it again",
            Self::Busy { retry_after } => return RpcError::overloaded(retry_after),
        })
    }
}

/// Reads the whole body; the charge is its share of the budget.
///
/// A refused body is still read to its end, up to [`DRAIN_BYTES_MAX`], so that the connection can
/// be used again.
///
/// # Errors
/// The body is too large, too slow or broken, or the budget is used up.
pub(super) async fn read_body(
    payload: Payload,
    timeout: Duration,
    budget: &BodyBudget,
) -> Result<(Bytes, Charge), BodyRefusal> {
    let mut buffer = BodyBuffer::new(budget.clone());
    read(payload, timeout, |chunk, seen| buffer.push(chunk, seen)).await?;
    buffer.finish()
}

/// Reads a whole body of at most `bytes_max` bytes. No budget is charged, so the number of
/// connections has to bound the sum.
///
/// # Errors
/// The body is too large, too slow or broken.
pub(crate) async fn read_small(
    payload: Payload,
    timeout: Duration,
    bytes_max: usize,
) -> Result<Bytes, BodyRefusal> {
    let mut body = BytesMut::new();
    let mut is_too_large = false;
    read(payload, timeout, |chunk, seen| match seen <= bytes_max {
        true => body.extend_from_slice(&chunk),
        false => {
            is_too_large = true;
            body = BytesMut::new();
        }
    })
    .await?;
    match is_too_large {
        true => Err(BodyRefusal::TooLarge),
        false => Ok(body.freeze()),
    }
}

/// Reads and discards a body that is not needed.
///
/// # Errors
/// The body is endless, too slow or broken.
pub(crate) async fn drain(payload: Payload, timeout: Duration) -> Result<(), BodyRefusal> {
    read(payload, timeout, |_, _| {}).await
}

/// Marks a response as the last of its connection.
pub(crate) fn close_after(mut response: HttpResponse) -> HttpResponse {
    response
        .head_mut()
        .set_connection_type(ConnectionType::Close);
    response
}

/// Passes each chunk to `take`, with the number of bytes up to the end of the chunk.
async fn read(
    mut payload: Payload,
    timeout: Duration,
    mut take: impl FnMut(Bytes, usize),
) -> Result<(), BodyRefusal> {
    if matches!(payload, Payload::None) {
        return Ok(());
    }
    let mut seen = 0_usize;
    let mut polls = 0_u32;
    let mut overdue: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        // The connection fills the payload and then polls its request. With a waker, the request
        // would be polled twice.
        let mut unwoken = Context::from_waker(Waker::noop());
        while let Poll::Ready(chunk) = Pin::new(&mut payload).poll_next(&mut unwoken) {
            let Some(chunk) = chunk else {
                return Poll::Ready(Ok(()));
            };
            let chunk = chunk.map_err(|_| BodyRefusal::Broken)?;
            seen = seen.saturating_add(chunk.len());
            take(chunk, seen);
            if seen > DRAIN_BYTES_MAX {
                return Poll::Ready(Err(BodyRefusal::Endless));
            }
        }
        // Most bodies arrive with their headers and are complete at the second poll. Only the
        // others need a timer.
        polls = polls.saturating_add(1);
        if polls == 1 {
            return Poll::Pending;
        }
        overdue
            .get_or_insert_with(|| Box::pin(sleep(timeout)))
            .as_mut()
            .poll(cx)
            .map(|()| Err(BodyRefusal::TooSlow))
    })
    .await
}

/// The chunks of a body so far. A single chunk is not copied; several are joined. Nothing is kept
/// of a refused body.
struct BodyBuffer {
    first: Bytes,
    joined: BytesMut,
    charge: Charge,
    refused: Option<BodyRefusal>,
}

impl BodyBuffer {
    fn new(budget: BodyBudget) -> Self {
        let charge = budget.open();
        Self {
            first: Bytes::new(),
            joined: BytesMut::new(),
            charge,
            refused: None,
        }
    }

    fn push(&mut self, chunk: Bytes, seen: usize) {
        if self.refused.is_none()
            && let Err(refusal) = self.keep(chunk, seen)
        {
            let budget = self.charge.budget();
            *self = Self {
                refused: Some(refusal),
                ..Self::new(budget)
            };
        }
    }

    fn keep(&mut self, chunk: Bytes, seen: usize) -> Result<(), BodyRefusal> {
        if seen > BODY_BYTES_MAX {
            return Err(BodyRefusal::TooLarge);
        }
        if seen == chunk.len() {
            self.first = chunk;
            return Ok(());
        }
        let added = self.charge.add(chunk.len());
        added.map_err(|UsedUp { retry_after }| BodyRefusal::Busy { retry_after })?;
        self.joined
            .extend_from_slice(&std::mem::take(&mut self.first));
        self.joined.extend_from_slice(&chunk);
        Ok(())
    }

    fn finish(self) -> Result<(Bytes, Charge), BodyRefusal> {
        match self.refused {
            Some(refusal) => Err(refusal),
            None if self.joined.is_empty() => Ok((self.first, self.charge)),
            None => Ok((self.joined.freeze(), self.charge)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_actors::share::Share;

    use crate::limits::BODY_BYTES_PER_WORKER;

    /// Pushes chunks of these sizes. Returns the length of the body and its charge, or why it is
    /// refused.
    fn pushed(budget: &BodyBudget, sizes: &[usize]) -> Result<(usize, Charge), BodyRefusal> {
        let mut buffer = BodyBuffer::new(budget.clone());
        let mut seen = 0;
        for size in sizes {
            seen += size;
            buffer.push(Bytes::from(vec![b' '; *size]), seen);
        }
        buffer.finish().map(|(body, charge)| (body.len(), charge))
    }

    #[track_caller]
    fn check(sizes: &[usize], expected: Result<(usize, usize), BodyRefusal>) {
        let budget = BodyBudget::default();
        let found = pushed(&budget, sizes).map(|(len, charge)| (len, charge.bytes()));
        assert_eq!(found, expected, "{sizes:?}");
        assert_eq!(budget.taken(), 0, "released");
    }

    #[test]
    fn bodies_are_bounded() {
        check(&[], Ok((0, 0)));
        check(&[7], Ok((7, 0)));
        check(&[7, 8, 9], Ok((24, 17)));
        check(&[BODY_BYTES_MAX], Ok((BODY_BYTES_MAX, 0)));
        check(
            &[1, BODY_BYTES_MAX - 1],
            Ok((BODY_BYTES_MAX, BODY_BYTES_MAX - 1)),
        );
        check(&[BODY_BYTES_MAX + 1], Err(BodyRefusal::TooLarge));
        check(&[BODY_BYTES_MAX, 1, 1], Err(BodyRefusal::TooLarge));
    }

    #[test]
    fn all_bodies_together_are_bounded() {
        let budget = BodyBudget::default();
        let large = [1, BODY_BYTES_MAX - 1];
        // A quarter is left for other tenants.
        let fit = (BODY_BYTES_PER_WORKER - BODY_BYTES_PER_WORKER / 4) / (BODY_BYTES_MAX - 1);
        let mut held: Vec<_> = (0..fit).map(|_| pushed(&budget, &large)).collect();
        assert!(held.iter().all(Result::is_ok));
        let refused = pushed(&budget, &large).err();
        assert!(
            matches!(refused, Some(BodyRefusal::Busy { .. })),
            "{refused:?}"
        );
        assert!(
            pushed(&budget, &[1_000]).is_ok(),
            "small bodies are still accepted"
        );
        let other = budget.of(Share::default());
        assert!(pushed(&other, &large).is_ok());
        held.pop();
        assert!(pushed(&budget, &large).is_ok());
    }
}
