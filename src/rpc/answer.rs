//! Writes responses: the start of the envelope, slices encoded at ingest, a closing brace.

use std::sync::Arc;

use nearhead_actors::admission::{Permit, ReplyCharge};
use nearhead_chain::{
    block::Block,
    json::{Json, Piece, Truncated},
};

use super::{envelope::NULL_ID, error::RpcError, price::MINIMUM_UNITS};
use crate::{
    access::{QuotaKind, Remaining},
    limits::{ERROR_ID_BYTES_MAX, JOINED_REPLY_BYTES_MAX, RETRY_AFTER_SECONDS},
    metrics::Outcome,
};

/// The answer to one request body.
///
/// It is moved a dozen times on its way to the client, so what few answers have is boxed, and
/// `ANSWER_BYTES_MAX` bounds its size.
#[derive(Debug)]
pub struct Answer {
    /// The reply; `None` if the body had only notifications.
    pub json: Option<Json>,
    /// Why nothing of the body was answered; HTTP has a status for it.
    pub(crate) refusal: Option<Refusal>,
    /// What it holds until the client has taken it; `None` for most answers.
    pub(crate) permits: Option<Box<AnswerPermits>>,
    /// The head of the snapshot that it was made from; `None` if it was refused before one was
    /// taken.
    pub(crate) head: Option<Arc<Block>>,
    /// What the answer costs; a batch costs the sum of its items.
    pub units: u64,
    /// What the key has left; `None` if no rate is limited.
    pub(crate) remaining: Option<Remaining>,
    /// A method's name, or `batch`, for the access log.
    pub(crate) method: &'static str,
    /// The outcome; metrics count each item of a batch with its own.
    pub(crate) outcome: Outcome,
    /// Whether it has what a node says, which is not verified.
    pub(crate) is_unverified: bool,
}

/// Most bytes of an answer: with what is around it on its way, it is still moved without a call.
const ANSWER_BYTES_MAX: usize = 112;

const _: () = assert!(size_of::<Answer>() <= ANSWER_BYTES_MAX);

/// What an answer holds until the client has taken it.
#[derive(Debug, Default)]
pub(crate) struct AnswerPermits {
    /// For the memory of a large reply.
    pub(crate) reply: Option<ReplyCharge>,
    /// For the buffers of its session's connection.
    pub(crate) buffer: Option<ReplyCharge>,
    /// Of a session, for a large answer.
    pub(crate) large_answer: Option<Permit>,
}

/// Why nothing of a body was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The service is overloaded, or there is no block yet.
    Unavailable {
        /// Whole seconds to wait; at least 1.
        retry_after_seconds: u32,
    },
    /// The key or its tenant is over a quota.
    QuotaExceeded {
        /// Which quota.
        quota: QuotaKind,
        /// Whole seconds to wait; at least 1.
        retry_after_seconds: u32,
    },
    /// An allowlist of the key does not have what is asked for.
    NotListed,
}

impl Refusal {
    /// The refusal that this error stands for, if any.
    pub(crate) const fn of(error: &RpcError) -> Option<Self> {
        match error {
            RpcError::Unavailable | RpcError::NotReached(_) => Some(Self::Unavailable {
                retry_after_seconds: RETRY_AFTER_SECONDS,
            }),
            RpcError::Overloaded {
                retry_after_seconds,
            } => Some(Self::Unavailable {
                retry_after_seconds: *retry_after_seconds,
            }),
            RpcError::QuotaExceeded(exceeded) => Some(Self::QuotaExceeded {
                quota: exceeded.quota,
                retry_after_seconds: exceeded.retry_after_seconds,
            }),
            RpcError::NotListed(_) => Some(Self::NotListed),
            _ => None,
        }
    }
}

impl Answer {
    /// The answer that is one error.
    #[must_use]
    pub fn error(id: &str, error: &RpcError) -> Self {
        let id = match id.len() {
            0..=ERROR_ID_BYTES_MAX => id,
            _ => NULL_ID,
        };
        let mut writer = Writer::new(0);
        writer.error(id, error);
        Self {
            json: Some(writer.finish()),
            refusal: Refusal::of(error),
            permits: None,
            head: None,
            units: MINIMUM_UNITS,
            remaining: None,
            method: "none",
            outcome: error.outcome(),
            is_unverified: false,
        }
    }

    /// The answer to a body that was not refused as a whole; items of a batch may have errors.
    pub(crate) const fn ok(method: &'static str, units: u64, json: Option<Json>) -> Self {
        Self {
            json,
            refusal: None,
            permits: None,
            head: None,
            units,
            remaining: None,
            method,
            outcome: Outcome::Ok,
            is_unverified: false,
        }
    }

    /// The same answer, which holds these permits until the client has taken it.
    #[inline]
    pub(crate) fn holding(self, more: AnswerPermits) -> Self {
        let AnswerPermits {
            reply,
            buffer,
            large_answer,
        } = more;
        if reply.is_none() && buffer.is_none() && large_answer.is_none() {
            return self;
        }
        let mut permits = self.permits.unwrap_or_default();
        permits.reply = permits.reply.or(reply);
        permits.buffer = permits.buffer.or(buffer);
        permits.large_answer = permits.large_answer.or(large_answer);
        Self {
            permits: Some(permits),
            ..self
        }
    }
}

const START: &str = r#"{"jsonrpc":"2.0","id":"#;
const RESULT: &str = r#","result":"#;
const ERROR: &str = r#","error":"#;

/// Assembles a reply: small results are copied into one buffer, large ones stay separate pieces.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Finished pieces.
    done: Vec<Piece>,
    /// Bytes of `done`.
    done_len: usize,
    /// Bytes that `done` owns.
    done_held: usize,
    /// The buffer that small results are copied into; it becomes the next piece.
    open: Vec<u8>,
    /// Largest result, in bytes, that is copied.
    copied_max: usize,
}

impl Writer {
    /// A writer that copies results of up to `copied_max` bytes.
    pub(crate) const fn new(copied_max: usize) -> Self {
        Self {
            done: Vec::new(),
            done_len: 0,
            done_held: 0,
            open: Vec::new(),
            copied_max,
        }
    }

    /// The whole reply to a single request with a result.
    pub(crate) fn single(id: &str, result: Json) -> Result<Json, Truncated> {
        let result_len = result.len();
        let mut writer = Self::new(JOINED_REPLY_BYTES_MAX);
        let copied = if result_len <= writer.copied_max {
            result_len
        } else {
            0
        };
        writer.open = Vec::with_capacity(START.len() + id.len() + RESULT.len() + copied + 1);
        writer.result(id, result, result_len)?;
        Ok(writer.finish())
    }

    /// Bytes so far.
    pub(crate) const fn len(&self) -> usize {
        self.done_len + self.open.len()
    }

    /// Bytes that it owns, the list of pieces included.
    pub(crate) const fn held(&self) -> usize {
        self.done_held + self.done.len() * size_of::<Piece>() + self.open.len()
    }

    /// Writes text.
    pub(crate) fn text(&mut self, text: &str) {
        self.open.extend_from_slice(text.as_bytes());
    }

    /// Writes a response object with a result of `result_len` bytes.
    ///
    /// # Errors
    /// [`Truncated`]: the result cannot be copied; discard what was written.
    pub(crate) fn result(
        &mut self,
        id: &str,
        result: Json,
        result_len: usize,
    ) -> Result<(), Truncated> {
        self.text(START);
        self.text(id);
        self.text(RESULT);
        if result_len <= self.copied_max {
            result.write(&mut self.open)?;
        } else {
            self.close();
            self.done_len += result_len;
            self.done_held += result.held();
            match result {
                Json::One(piece) => self.done.push(piece),
                Json::Many(pieces) => self.done.extend(pieces),
            }
        }
        self.text("}");
        Ok(())
    }

    /// Writes a response object with an error.
    pub(crate) fn error(&mut self, id: &str, error: &RpcError) {
        self.text(START);
        self.text(id);
        self.text(ERROR);
        self.text(&error.to_json());
        self.text("}");
    }

    /// The reply.
    pub(crate) fn finish(mut self) -> Json {
        if self.done.is_empty() {
            return Json::from(self.open);
        }
        self.close();
        Json::Many(self.done)
    }

    /// Moves the buffer to the finished pieces.
    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done_len += self.open.len();
            self.done_held += self.open.len();
            let open = std::mem::take(&mut self.open);
            self.done.push(Piece::Own(open.into()));
        }
    }
}

/// Length of a response object with a result of `result_len` bytes.
pub(crate) const fn response_len(id: &str, result_len: usize) -> usize {
    START.len() + id.len() + RESULT.len() + result_len + 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn written(json: Json) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(json.write(&mut out), Ok(()));
        out
    }

    #[test]
    fn small_results_are_joined_and_large_ones_stay_slices() {
        for (len, pieces) in [
            (1, 1),
            (JOINED_REPLY_BYTES_MAX, 1),
            (JOINED_REPLY_BYTES_MAX + 1, 3),
        ] {
            let slice = Bytes::from(vec![b'7'; len]);
            let reply = Writer::single("1", Json::shared(slice.clone())).unwrap();
            assert_eq!(reply.pieces().len(), pieces);
            assert_eq!(reply.len(), response_len("1", len));
            let expected = [
                br#"{"jsonrpc":"2.0","id":1,"result":"#.as_slice(),
                &slice,
                b"}",
            ]
            .concat();
            if let [_, Piece::Shared(middle), _] = reply.pieces() {
                assert_eq!(middle.as_ptr(), slice.as_ptr(), "nothing was copied");
                assert_eq!(reply.held(), reply.len() - len);
            }
            assert_eq!(written(reply), expected);
        }
    }

    #[test]
    fn an_error_repeats_no_long_id() {
        for (len, is_repeated) in [(ERROR_ID_BYTES_MAX, true), (ERROR_ID_BYTES_MAX + 1, false)] {
            let id = "7".repeat(len);
            let json = Answer::error(&id, &RpcError::Parse).json.unwrap();
            let text = String::from_utf8(written(json)).unwrap();
            assert_eq!(text.contains(&id), is_repeated);
            assert_eq!(text.contains(r#""id":null"#), !is_repeated);
        }
    }

    #[test]
    fn a_writer_knows_its_length_and_the_bytes_that_it_owns() {
        let mut writer = Writer::new(8);
        let large = Json::Many(vec![
            Piece::Own(Bytes::from(vec![b'1'; 9_000])),
            Piece::Shared(Bytes::from_static(b"23")),
        ]);
        writer.text("[");
        writer.result("\"a\"", large, 9_002).unwrap();
        writer.text(",");
        writer.error("null", &RpcError::Parse);
        writer.text("]");
        let (len, held) = (writer.len(), writer.held());
        assert_eq!(held, len - 2 + 3 * size_of::<Piece>());
        let reply = writer.finish();
        assert_eq!(reply.len(), len);
        let text = String::from_utf8(written(reply)).unwrap();
        assert!(
            text.starts_with(r#"[{"jsonrpc":"2.0","id":"a","result":111"#),
            "{text}"
        );
        assert!(
            text.ends_with(r#"1123},{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}]"#),
            "{text}"
        );
    }
}
