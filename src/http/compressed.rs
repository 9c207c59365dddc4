//! A reply that is compressed while its client takes it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use actix_http::encoding::Encoder;
use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

use super::{compression::Compression, reply::ReplyBody};
use crate::{
    connections::{Answering, HeldReply},
    limits::CHUNK_BYTES,
};

/// A reply's body, compressed.
pub(super) struct CompressedBody {
    encoder: Encoder<ReplyBody>,
    /// What the encoder has given, and the connection has not taken.
    rest: Bytes,
    held: Option<HeldReply>,
    answering: Option<Answering>,
    compression: Option<Arc<Compression>>,
}

impl CompressedBody {
    /// A body that holds what it is charged for until the client has taken it.
    pub(super) const fn new(
        encoder: Encoder<ReplyBody>,
        held: HeldReply,
        answering: Option<Answering>,
        compression: Arc<Compression>,
    ) -> Self {
        Self {
            encoder,
            rest: Bytes::new(),
            held: Some(held),
            answering,
            compression: Some(compression),
        }
    }

    /// Called when everything was passed on.
    fn end(&mut self) {
        self.compression = None;
        let held = self.held.take();
        if let Some((answering, held)) = self.answering.take().zip(held) {
            answering.keep_until_sent(held);
        }
    }
}

impl MessageBody for CompressedBody {
    type Error = <Encoder<ReplyBody> as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.encoder.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        // The connection asks for a chunk when the last one has left its buffer.
        if let Some(answering) = &this.answering {
            answering.took();
        }
        if let Some(held) = &this.held {
            held.progressed(Instant::now());
        }
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.encoder).poll_next(cx)).transpose()? {
                Some(chunk) => this.rest = chunk,
                None => {
                    this.end();
                    return Poll::Ready(None);
                }
            }
        }
        // An encoder may give more than a part at once.
        let len = this.rest.len().min(CHUNK_BYTES);
        Poll::Ready(Some(Ok(this.rest.split_to(len))))
    }
}
