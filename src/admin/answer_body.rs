//! Large answers, of which a worker holds so many bytes at most while clients read them.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use actix_web::{
    HttpResponse,
    body::{BodySize, BoxBody, MessageBody},
};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::api::ApiError;
use crate::{
    connections::Answering,
    limits::{CHUNK_BYTES, OPERATOR_ANSWER_BYTES},
};

/// Bytes of large answers that one worker may hold; cloning shares the count.
#[derive(Clone, Debug)]
pub(super) struct AnswerBudget(Arc<Semaphore>);

/// A large answer. The connection asks for its next chunk when the client has taken the last one,
/// so that a client that stops reading is cut off, and holds no more than its share until then.
#[derive(Debug)]
struct AnswerBody {
    rest: Bytes,
    answering: Option<Answering>,
    share: Option<OwnedSemaphorePermit>,
}

impl Default for AnswerBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(OPERATOR_ANSWER_BYTES)))
    }
}

impl AnswerBudget {
    /// The answer, with its body in chunks if it is large. If clients read so many others that
    /// there is no room for it, it is refused.
    pub(super) fn bound(&self, answer: HttpResponse, answering: Option<Answering>) -> HttpResponse {
        let (head, body) = answer.into_parts();
        let bytes = match body.try_into_bytes() {
            Ok(bytes) => bytes,
            Err(body) => return head.set_body(body),
        };
        if bytes.len() <= CHUNK_BYTES {
            return head.set_body(BoxBody::new(bytes));
        }
        // An answer that is larger than all of it takes all of it.
        let share = u32::try_from(bytes.len().min(OPERATOR_ANSWER_BYTES)).unwrap_or(u32::MAX);
        match Arc::clone(&self.0).try_acquire_many_owned(share) {
            Ok(share) => head.set_body(BoxBody::new(AnswerBody {
                rest: bytes,
                answering,
                share: Some(share),
            })),
            Err(_) => ApiError::TOO_MANY_ANSWERS.response(),
        }
    }
}

impl MessageBody for AnswerBody {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.rest.len() as u64)
    }

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            this.answering = None;
            this.share = None;
            return Poll::Ready(None);
        }
        if let Some(answering) = &this.answering {
            answering.took();
        }
        let len = this.rest.len().min(CHUNK_BYTES);
        Poll::Ready(Some(Ok(this.rest.split_to(len))))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::task::Waker;

    use actix_web::http::StatusCode;

    use super::*;

    fn answer(len: usize) -> HttpResponse {
        let body: Vec<u8> = (0..len).map(|at| at as u8).collect();
        HttpResponse::Ok().body(body)
    }

    fn read(answer: HttpResponse) -> Vec<Bytes> {
        let mut body = Box::pin(answer.into_body());
        let mut context = Context::from_waker(Waker::noop());
        let mut chunks = Vec::new();
        while let Poll::Ready(Some(chunk)) = body.as_mut().poll_next(&mut context) {
            chunks.push(chunk.unwrap());
        }
        chunks
    }

    #[test]
    fn a_large_answer_is_read_in_chunks() {
        let budget = AnswerBudget::default();
        for len in [0, 7, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES + 3] {
            let bound = budget.bound(answer(len), None);
            assert_eq!(bound.body().size(), BodySize::Sized(len as u64));
            let chunks = read(bound);
            assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES));
            let expected: Vec<u8> = (0..len).map(|at| at as u8).collect();
            assert_eq!(chunks.concat(), expected, "{len} bytes");
        }
    }

    /// Answers that nobody reads take no more than the budget, and those that are read or dropped
    /// make room.
    #[test]
    fn answers_take_no_more_than_the_budget() {
        let budget = AnswerBudget::default();
        let quarter = OPERATOR_ANSWER_BYTES / 4;
        let mut unread: Vec<_> = (0..4)
            .map(|_| budget.bound(answer(quarter), None))
            .collect();
        let status = |len| budget.bound(answer(len), None).status();
        assert_eq!(status(CHUNK_BYTES + 1), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(CHUNK_BYTES), StatusCode::OK, "small ones take none");
        let first = unread.remove(0);
        assert_eq!(read(first).concat().len(), quarter);
        assert_eq!(status(quarter), StatusCode::OK);
        drop(unread);
        assert_eq!(status(2 * OPERATOR_ANSWER_BYTES), StatusCode::OK);
        assert_eq!(budget.0.available_permits(), OPERATOR_ANSWER_BYTES);
    }
}
