//! Responses with replies, of which large ones are compressed and made in turns.

use std::{future::poll_fn, sync::Arc};

use actix_http::encoding::Encoder;
use actix_web::{
    HttpRequest, HttpResponse,
    body::BoxBody,
    http::{
        StatusCode, Version,
        header::{self, AcceptEncoding, ContentEncoding, Encoding, Header},
    },
};
use nearhead_actors::admission::{ReplyInTurns, ReplyTurns};
use nearhead_chain::json::{Json, Piece};
use tokio::sync::Semaphore;

use super::reply::{Charge, ReplyBody};
use crate::{
    connections::Answering,
    limits::{CHUNK_BYTES, COMPRESS_BYTES_MIN, COMPRESSIONS_MAX},
    rpc::Answer,
};

/// The replies of one worker.
pub(super) struct Replies {
    compressions: Arc<Semaphore>,
    turns: ReplyTurns,
}

impl Replies {
    /// Replies that are made in these turns.
    pub(super) fn new(turns: &ReplyTurns) -> Self {
        Self {
            compressions: Arc::new(Semaphore::new(COMPRESSIONS_MAX)),
            turns: turns.clone(),
        }
    }

    /// Waits until the first part of a large reply may be made; none if nothing has to be made.
    ///
    /// Headers that were sent before it would wake the client in vain.
    pub(super) async fn first_turn(&self, answer: &Answer) -> Option<ReplyInTurns> {
        let json = answer.json.as_ref()?;
        let charge = answer.permits.as_ref()?.reply.as_ref()?;
        let left = json.len();
        let is_made = |piece: &Piece| matches!(piece, Piece::Lazy(_));
        if left <= CHUNK_BYTES || !json.pieces().iter().any(is_made) {
            return None;
        }
        let mut reply = self.turns.reply(charge.share());
        poll_fn(|cx| reply.poll(cx, left)).await;
        Some(reply)
    }

    /// A response with this body. It is compressed if it is large, the client accepts an encoding,
    /// and not too many replies are being compressed.
    pub(super) fn response(
        &self,
        request: &HttpRequest,
        status: StatusCode,
        json: Json,
        charge: Option<Charge>,
        answering: Option<Answering>,
    ) -> HttpResponse {
        let wanted = (json.len() >= COMPRESS_BYTES_MIN)
            .then(|| wanted(request))
            .flatten();
        let admitted = wanted.and_then(|encoding| {
            let permit = Arc::clone(&self.compressions).try_acquire_owned().ok()?;
            Some((encoding, permit))
        });
        let Some((encoding, permit)) = admitted else {
            return HttpResponse::with_body(status, ReplyBody::boxed(json, charge, answering));
        };
        let body = ReplyBody::new(json, charge, answering).compressed_by(permit);
        HttpResponse::with_body(status, body)
            .map_body(|head, body| BoxBody::new(Encoder::response(encoding, head, body)))
    }
}

/// The encoding to compress with: of those that are offered, the one that the client prefers.
fn wanted(request: &HttpRequest) -> Option<ContentEncoding> {
    // The length of a compressed reply is unknown, and HTTP/1.0 has no transfer coding for that
    // (RFC 9112 §6.1).
    if request.version() < Version::HTTP_11
        || !request.headers().contains_key(header::ACCEPT_ENCODING)
    {
        return None;
    }
    let offered = [
        Encoding::identity(),
        Encoding::zstd(),
        Encoding::brotli(),
        Encoding::gzip(),
    ];
    match AcceptEncoding::parse(request)
        .ok()?
        .negotiate(offered.iter())?
    {
        Encoding::Known(encoding) if encoding != ContentEncoding::Identity => Some(encoding),
        _ => None,
    }
}
