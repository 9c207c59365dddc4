//! What goes back: the envelope's head, slices that were made at ingest, a closing brace.

use bytes::Bytes;
use nearhead_actors::wiring::Permit;
use nearhead_chain::json::Json;

use super::error::{Outcome, RpcError};
use crate::limits::JOINED_REPLY_BYTES_MAX;

/// The answer to one body.
#[derive(Debug)]
pub struct Answer {
    /// What to send; `None` where nothing but notifications was asked.
    pub json: Option<Json>,
    /// Why nothing of the body was answered, for transports that say so in their own way.
    pub refusal: Option<Refusal>,
    /// What the answer was admitted by; kept until it is written.
    pub permits: Vec<Permit>,
    /// What was asked, for the access log: a method's name, or `batch`.
    pub asked: &'static str,
    /// What became of it; the items of a batch have their own, which metrics count.
    pub outcome: Outcome,
}

/// Why nothing of a body was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No permit was free, or there is no block yet.
    Unavailable,
    /// The tenant asks too often.
    RateExceeded {
        /// Whole seconds to wait.
        backoff_seconds: u64,
    },
}

impl Refusal {
    /// The refusal that an error is, if it is one.
    pub(crate) const fn of(error: &RpcError) -> Option<Self> {
        match error {
            RpcError::Unavailable => Some(Self::Unavailable),
            RpcError::RateExceeded(exceeded) => Some(Self::RateExceeded {
                backoff_seconds: exceeded.backoff_seconds,
            }),
            _ => None,
        }
    }
}

impl Answer {
    /// A single error.
    #[must_use]
    pub fn error(id: &str, error: &RpcError) -> Self {
        let mut writer = Writer::default();
        writer.error(id, error);
        Self {
            json: Some(writer.finish()),
            refusal: Refusal::of(error),
            permits: Vec::new(),
            asked: "none",
            outcome: error.outcome(),
        }
    }

    /// An answer that is not an error as a whole.
    pub(crate) const fn ok(asked: &'static str, json: Option<Json>, permits: Vec<Permit>) -> Self {
        Self {
            json,
            refusal: None,
            permits,
            asked,
            outcome: Outcome::Ok,
        }
    }
}

const HEAD: &str = r#"{"jsonrpc":"2.0","id":"#;
const RESULT: &str = r#","result":"#;
const ERROR: &str = r#","error":"#;

/// Puts a reply together: what is small is copied into one buffer, what is large stays the slice that it is.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    done: Vec<Bytes>,
    done_len: usize,
    open: Vec<u8>,
}

impl Writer {
    /// The whole reply to a single request that has a result.
    pub(crate) fn single(id: &str, result: &Json) -> Json {
        let result_len = result.len();
        let copied = if result_len <= JOINED_REPLY_BYTES_MAX {
            result_len
        } else {
            0
        };
        let mut writer = Self {
            open: Vec::with_capacity(HEAD.len() + id.len() + RESULT.len() + copied + 1),
            ..Self::default()
        };
        writer.result(id, result, result_len);
        writer.finish()
    }

    /// Bytes so far.
    pub(crate) const fn len(&self) -> usize {
        self.done_len + self.open.len()
    }

    /// Writes text.
    pub(crate) fn text(&mut self, text: &str) {
        self.open.extend_from_slice(text.as_bytes());
    }

    /// Writes a response object with a result of `result_len` bytes.
    pub(crate) fn result(&mut self, id: &str, result: &Json, result_len: usize) {
        self.text(HEAD);
        self.text(id);
        self.text(RESULT);
        if result_len <= JOINED_REPLY_BYTES_MAX {
            for piece in result.pieces() {
                self.open.extend_from_slice(piece);
            }
        } else {
            self.close();
            self.done_len += result_len;
            self.done.extend_from_slice(result.pieces());
        }
        self.text("}");
    }

    /// Writes a response object with an error.
    pub(crate) fn error(&mut self, id: &str, error: &RpcError) {
        self.text(HEAD);
        self.text(id);
        self.text(ERROR);
        self.text(&error.to_json());
        self.text("}");
    }

    /// Everything that was written.
    pub(crate) fn finish(mut self) -> Json {
        if self.done.is_empty() {
            return Json::from(self.open);
        }
        self.close();
        Json::Pieces(self.done)
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done_len += self.open.len();
            self.done.push(Bytes::from(std::mem::take(&mut self.open)));
        }
    }
}

/// Length of a response object with a result of `result_len` bytes.
pub(crate) const fn response_len(id: &str, result_len: usize) -> usize {
    HEAD.len() + id.len() + RESULT.len() + result_len + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &Json) -> Vec<u8> {
        json.pieces().concat()
    }

    #[test]
    fn small_results_are_joined_and_large_ones_stay_slices() {
        for (len, pieces) in [
            (1, 1),
            (JOINED_REPLY_BYTES_MAX, 1),
            (JOINED_REPLY_BYTES_MAX + 1, 3),
        ] {
            let slice = Bytes::from(vec![b'7'; len]);
            let reply = Writer::single("1", &Json::Slice(slice.clone()));
            assert_eq!(reply.pieces().len(), pieces);
            assert_eq!(reply.len(), response_len("1", len));
            let expected = [
                br#"{"jsonrpc":"2.0","id":1,"result":"#.as_slice(),
                &slice,
                b"}",
            ]
            .concat();
            assert_eq!(written(&reply), expected);
            if pieces == 3 {
                assert_eq!(
                    reply.pieces()[1].as_ptr(),
                    slice.as_ptr(),
                    "nothing was copied"
                );
            }
        }
    }

    #[test]
    fn a_writer_knows_its_length() {
        let mut writer = Writer::default();
        let large = Json::Pieces(vec![
            Bytes::from(vec![b'1'; 9_000]),
            Bytes::from_static(b"23"),
        ]);
        writer.text("[");
        writer.result("\"a\"", &large, large.len());
        writer.text(",");
        writer.error("null", &RpcError::Parse);
        writer.text("]");
        let len = writer.len();
        let reply = writer.finish();
        assert_eq!(reply.len(), len);
        let text = String::from_utf8(written(&reply)).unwrap_or_default();
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
