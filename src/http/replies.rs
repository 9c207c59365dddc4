//! Responses with replies, of which large ones are compressed and made in turns.

use std::{future::poll_fn, sync::Arc, time::Instant};

use actix_http::encoding::Encoder;
use actix_web::{
    HttpRequest, HttpResponse,
    body::BoxBody,
    http::{
        StatusCode, Version,
        header::{self, AcceptEncoding, ContentEncoding, Encoding, Header},
    },
};
use nearhead_actors::{
    admission::{ReplyBudget, ReplyCharge, ReplyInTurns, ReplyTurns},
    share::Share,
};
use nearhead_chain::json::{Json, Piece};
use tokio::sync::Semaphore;

use super::{
    compressed::CompressedBody,
    compression::{Compression, encoder_bytes},
    reply::{Charge, ReplyBody, hold},
};
use crate::{
    connections::Answering,
    limits::{CHUNK_BYTES, COMPRESS_BYTES_MIN, COMPRESSIONS_MAX},
    rpc::Answer,
};

/// The replies of one worker.
pub(super) struct Replies {
    compressions: Arc<Semaphore>,
    turns: ReplyTurns,
    budget: ReplyBudget,
    /// Of what is sent to everybody, without a key.
    public: Share,
}

impl Replies {
    /// Replies that are made in these turns, and charged to this budget.
    pub(super) fn new(turns: &ReplyTurns, budget: &ReplyBudget) -> Self {
        Self {
            compressions: Arc::new(Semaphore::new(COMPRESSIONS_MAX)),
            turns: turns.clone(),
            budget: budget.clone(),
            public: Share::default(),
        }
    }

    /// The charge of a document that is sent to everybody. No reply of a tenant makes way for it,
    /// so that it is charged for nothing but its encoder.
    pub(super) fn charge_document(&self) -> Option<Charge> {
        let charge = self.budget.charge(self.public, 0, Instant::now());
        Some((charge.ok()?, None))
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

    /// A response with this body. It is compressed if it is large and charged, the client accepts
    /// an encoding, not too many replies are being compressed, and there is memory for it.
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
            let (charge, _) = charge.as_ref()?;
            let compression = self.compression(charge, encoder_bytes(encoding, json.len()))?;
            Some((encoding, Arc::new(compression)))
        });
        let ((encoding, compression), (charge, in_turns)) = match (admitted, charge) {
            (Some(admitted), Some(charge)) => (admitted, charge),
            (_, charge) => {
                return HttpResponse::with_body(status, ReplyBody::boxed(json, charge, answering));
            }
        };
        let held = hold(charge, answering.as_ref());
        let body = ReplyBody::to_compress(json, in_turns, Arc::clone(&compression));
        HttpResponse::with_body(status, body).map_body(|head, body| {
            let encoder = Encoder::response(encoding, head, body);
            BoxBody::new(CompressedBody::new(encoder, held, answering, compression))
        })
    }

    /// The right to compress a reply with an encoder that takes so many bytes, if there is room for
    /// it beside other replies.
    fn compression(&self, reply: &ReplyCharge, bytes: usize) -> Option<Compression> {
        let permit = Arc::clone(&self.compressions).try_acquire_owned().ok()?;
        let charge = reply.extra(bytes, Instant::now())?;
        Some(Compression::new(permit, charge))
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use actix_web::{body::to_bytes, test::TestRequest};
    use bytes::Bytes;

    use super::*;

    const LEN: usize = 1 << 20;

    /// What the reply is charged for before it is compressed.
    const CHARGED: usize = 100_000;

    /// A response of `LEN` bytes to a client that accepts this encoding, from a budget of so many
    /// bytes.
    fn response(encoding: ContentEncoding, budget: &ReplyBudget) -> HttpResponse {
        let replies = Replies::new(&ReplyTurns::default(), budget);
        let accepted = (header::ACCEPT_ENCODING, encoding.as_str());
        let request = TestRequest::post()
            .insert_header(accepted)
            .to_http_request();
        let charge = budget.charge(Share::default(), CHARGED, Instant::now());
        let charge = Some((charge.unwrap(), None));
        let json = Json::from(vec![b'7'; LEN]);
        replies.response(&request, StatusCode::OK, json, charge, None)
    }

    async fn read(response: HttpResponse) -> Bytes {
        to_bytes(response.into_body()).await.ok().unwrap()
    }

    const ALL: [ContentEncoding; 3] = [
        ContentEncoding::Gzip,
        ContentEncoding::Brotli,
        ContentEncoding::Zstd,
    ];

    #[actix::test]
    async fn an_encoder_is_charged_while_it_is_there() {
        for encoding in ALL {
            let budget = ReplyBudget::new(64 << 20);
            let response = response(encoding, &budget);
            let found = response.headers().get(header::CONTENT_ENCODING).cloned();
            assert_eq!(found.unwrap(), encoding.as_str());
            let used = budget.usage().used;
            assert_eq!(used, CHARGED + encoder_bytes(encoding, LEN), "{encoding:?}");
            assert!(read(response).await.len() < LEN / 100);
            assert_eq!(budget.usage().used, 0, "{encoding:?}");
        }
    }

    #[actix::test]
    async fn a_reply_is_sent_as_it_is_if_there_is_no_room_for_an_encoder() {
        for encoding in ALL {
            let budget = ReplyBudget::new(CHARGED + encoder_bytes(encoding, LEN));
            let response = response(encoding, &budget);
            assert!(!response.headers().contains_key(header::CONTENT_ENCODING));
            let usage = budget.usage();
            assert_eq!((usage.used, usage.refused), (CHARGED, 0), "{encoding:?}");
            assert_eq!(read(response).await, vec![b'7'; LEN]);
        }
    }
}
