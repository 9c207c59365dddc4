//! Reads a request's body, within its bounds of size and time.

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
    connections::{BodyBudget, Charge},
    limits::{BODY_BYTES_MAX, DRAIN_BYTES_MAX},
    rpc::RpcError,
};

/// Why a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyRefusal {
    /// It has more bytes than may be asked at once.
    TooLarge,
    /// It has so many that it was not read to its end.
    Endless,
    /// It did not arrive in time.
    TooSlow,
    /// The connection or the transfer coding broke.
    Broken,
    /// Too many large bodies are being held already.
    Busy,
}

impl BodyRefusal {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge | Self::Endless => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(super) const fn error(self) -> RpcError {
        RpcError::InvalidHttp(match self {
            Self::TooLarge | Self::Endless => return RpcError::BODY_TOO_LARGE,
            Self::TooSlow => "request body too slow, send it in one go",
            Self::Broken => "request body broken off or malformed, send it again",
            Self::Busy => return RpcError::Unavailable,
        })
    }
}

/// The whole body, with what it takes of the budget for as long as it is held.
///
/// A body that is refused is read on to its end, within [`DRAIN_BYTES_MAX`], so that the connection
/// can be used again.
///
/// # Errors
/// It is too large, too slow or broken, or the budget is used up.
pub(super) async fn read_body(
    payload: Payload,
    timeout: Duration,
    budget: &BodyBudget,
) -> Result<(Bytes, Charge), BodyRefusal> {
    let mut kept = Kept::new(budget.clone());
    read(payload, timeout, |chunk, seen| kept.push(chunk, seen)).await?;
    kept.finish()
}

/// Reads a body of a request that is refused, or needs none, and throws it away.
///
/// # Errors
/// It is endless, too slow or broken.
pub(super) async fn drain(payload: Payload, timeout: Duration) -> Result<(), BodyRefusal> {
    read(payload, timeout, |_, _| {}).await
}

/// Marks a response as the connection's last.
pub(super) fn close_after(mut response: HttpResponse) -> HttpResponse {
    response
        .head_mut()
        .set_connection_type(ConnectionType::Close);
    response
}

/// Hands every chunk to `take`, with the number of bytes up to its end, for as long as the body is
/// worth reading.
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
        // The connection feeds the payload, then polls its request: it needs no waker, which would
        // have it polled twice.
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
        // Most bodies come with their heads, and are there at the second poll: only what is later
        // needs a clock.
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

/// Chunks of a body: one alone is kept as it is, several are joined; nothing is kept once it is
/// refused.
struct Kept {
    first: Bytes,
    joined: BytesMut,
    charge: Charge,
    refused: Option<BodyRefusal>,
}

impl Kept {
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
        self.charge
            .add(chunk.len())
            .map_err(|_| BodyRefusal::Busy)?;
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
    use crate::limits::BODY_BYTES_PER_WORKER;

    /// Pushes chunks of these sizes: the length of the body and what it takes of the budget, or why
    /// it is refused.
    fn pushed(budget: &BodyBudget, sizes: &[usize]) -> Result<(usize, Charge), BodyRefusal> {
        let mut kept = Kept::new(budget.clone());
        let mut seen = 0;
        for size in sizes {
            seen += size;
            kept.push(Bytes::from(vec![b' '; *size]), seen);
        }
        kept.finish().map(|(body, charge)| (body.len(), charge))
    }

    #[track_caller]
    fn check(sizes: &[usize], expected: Result<(usize, usize), BodyRefusal>) {
        let budget = BodyBudget::default();
        let found = pushed(&budget, sizes).map(|(len, charge)| (len, charge.bytes()));
        assert_eq!(found, expected, "{sizes:?}");
        assert_eq!(budget.taken(), 0, "given back");
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
        let fit = BODY_BYTES_PER_WORKER / (BODY_BYTES_MAX - 1);
        let mut held: Vec<_> = (0..fit).map(|_| pushed(&budget, &large)).collect();
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(pushed(&budget, &large).err(), Some(BodyRefusal::Busy));
        assert!(pushed(&budget, &[1_000]).is_ok(), "small ones go on");
        held.pop();
        assert!(pushed(&budget, &large).is_ok());
    }
}
