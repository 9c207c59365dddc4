//! A reply's body: slices that were encoded with their block, and pieces that are encoded as they
//! are written.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
    vec,
};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::Bytes;
use nearhead_actors::admission::{ReplyCharge, ReplyInTurns};
use nearhead_chain::json::{Json, Piece, Truncated};

use super::compression::Compression;
use crate::{
    connections::{Answering, HeldReply},
    limits::CHUNK_BYTES,
};

/// JSON of known length, passed to the connection in chunks of at most [`CHUNK_BYTES`].
#[derive(Debug)]
pub(super) struct ReplyBody {
    len: u64,
    /// Bytes that are still to be taken.
    left: usize,
    current: Option<Piece>,
    rest: vec::IntoIter<Piece>,
    held: Option<HeldReply>,
    /// While it is compressed.
    compression: Option<Arc<Compression>>,
    /// If it is large and has parts that have to be made: they are made when it is its turn.
    in_turns: Option<ReplyInTurns>,
    answering: Option<Answering>,
}

/// What a reply is charged for, and the turns in which its parts are made, if it needs any.
pub(super) type Charge = (ReplyCharge, Option<ReplyInTurns>);

impl ReplyBody {
    /// A body that holds what it is charged for until the client has taken it, and reports each
    /// chunk to the watch.
    pub(super) fn new(json: Json, charge: Option<Charge>, answering: Option<Answering>) -> Self {
        let (charge, in_turns) = charge.unzip();
        Self {
            held: charge.map(|charge| hold(charge, answering.as_ref())),
            answering,
            ..Self::of(json, in_turns.flatten())
        }
    }

    /// A body that is compressed. What compresses it holds the rest.
    pub(super) fn to_compress(
        json: Json,
        in_turns: Option<ReplyInTurns>,
        compression: Arc<Compression>,
    ) -> Self {
        Self {
            compression: Some(compression),
            ..Self::of(json, in_turns)
        }
    }

    fn of(json: Json, in_turns: Option<ReplyInTurns>) -> Self {
        let left = json.len();
        let (current, rest) = match json {
            Json::One(piece) => (Some(piece), Vec::new()),
            Json::Many(pieces) => (None, pieces),
        };
        Self {
            len: left as u64,
            left,
            current,
            rest: rest.into_iter(),
            in_turns,
            held: None,
            compression: None,
            answering: None,
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

    /// The body in its cheapest form: a single small slice needs no chunks.
    pub(super) fn boxed(
        json: Json,
        charge: Option<Charge>,
        answering: Option<Answering>,
    ) -> BoxBody {
        match json {
            Json::One(Piece::Own(slice) | Piece::Shared(slice))
                if slice.len() <= CHUNK_BYTES && charge.is_none() =>
            {
                BoxBody::new(slice)
            }
            json => BoxBody::new(Self::new(json, charge, answering)),
        }
    }
}

impl MessageBody for ReplyBody {
    type Error = Truncated;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.len)
    }

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Truncated>>> {
        let this = self.get_mut();
        let piece = loop {
            match &mut this.current {
                Some(piece) if !piece.is_empty() => break piece,
                current => match this.rest.next() {
                    Some(next) => *current = Some(next),
                    None => {
                        this.end();
                        return Poll::Ready(None);
                    }
                },
            }
        };
        let mut in_turns = match piece {
            Piece::Lazy(_) => this.in_turns.as_mut(),
            // Nothing has to be made.
            Piece::Own(_) | Piece::Shared(_) => None,
        };
        if let Some(reply) = &mut in_turns {
            ready!(reply.poll(cx, this.left));
        }
        let now = Instant::now();
        // The connection asks for a chunk when the last one has left its buffer.
        if let Some(answering) = &this.answering {
            answering.took();
        }
        if let Some(held) = &this.held {
            held.progressed(now);
        }
        let part = piece.take(CHUNK_BYTES);
        this.left -= part.as_ref().map_or(this.left, Bytes::len);
        if let Some(reply) = in_turns {
            reply.took(now.elapsed());
        }
        Poll::Ready(Some(match &this.compression {
            Some(compression) => part.map(|bytes| compression.part(bytes)),
            None => part,
        }))
    }
}

/// What a reply is charged for, on this connection.
pub(super) fn hold(charge: ReplyCharge, answering: Option<&Answering>) -> HeldReply {
    match answering {
        Some(answering) => answering.holds(charge),
        None => HeldReply::without_connection(charge),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn chunks(mut body: ReplyBody) -> Vec<Bytes> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut chunks = Vec::new();
        while let Poll::Ready(Some(chunk)) = Pin::new(&mut body).poll_next(&mut cx) {
            chunks.push(chunk.unwrap());
        }
        chunks
    }

    #[test]
    fn chunks_are_bounded_and_nothing_is_lost_or_copied() {
        let large = Bytes::from(
            (0..3 * CHUNK_BYTES + 5)
                .map(|at| at as u8)
                .collect::<Vec<_>>(),
        );
        let pieces = [
            Bytes::from_static(b"head"),
            Bytes::new(),
            large.clone(),
            Bytes::from_static(b"}"),
        ];
        let shared = pieces.iter().cloned().map(Piece::Shared).collect();
        let body = ReplyBody::new(Json::Many(shared), None, None);
        assert_eq!(body.size(), BodySize::Sized(4 + large.len() as u64 + 1));
        let chunks = chunks(body);
        assert!(
            chunks
                .iter()
                .all(|chunk| (1..=CHUNK_BYTES).contains(&chunk.len()))
        );
        assert_eq!(chunks.concat(), pieces.concat());
        assert_eq!(chunks[1].as_ptr(), large.as_ptr());
    }

    #[test]
    fn an_empty_body_ends_at_once() {
        assert!(chunks(ReplyBody::new(Json::Many(Vec::new()), None, None)).is_empty());
    }
}
