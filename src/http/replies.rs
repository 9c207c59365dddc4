//! Responses with replies, of which large ones are compressed and made in turns.

use std::sync::Arc;

use actix_http::encoding::Encoder;
use actix_web::{
    HttpRequest, HttpResponse,
    body::BoxBody,
    http::{
        StatusCode, Version,
        header::{self, AcceptEncoding, ContentEncoding, Encoding, Header},
    },
};
use nearhead_actors::admission::{ReplyCharge, ReplyTurns};
use nearhead_chain::json::Json;
use tokio::sync::Semaphore;

use super::reply::ReplyBody;
use crate::{
    connections::Answering,
    limits::{COMPRESS_BYTES_MIN, COMPRESSIONS_MAX},
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

    /// A response with this body. It is compressed if it is large, the client accepts an encoding,
    /// and not too many replies are being compressed.
    pub(super) fn response(
        &self,
        request: &HttpRequest,
        status: StatusCode,
        json: Json,
        charge: Option<ReplyCharge>,
        answering: Option<Answering>,
    ) -> HttpResponse {
        let wanted = (json.len() >= COMPRESS_BYTES_MIN)
            .then(|| wanted(request))
            .flatten();
        let admitted = wanted.and_then(|encoding| {
            let permit = Arc::clone(&self.compressions).try_acquire_owned().ok()?;
            Some((encoding, permit))
        });
        let charge = charge.map(|charge| (charge, &self.turns));
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
