//! One WebSocket session: an actor that lives as long as its connection. The only file that knows
//! actix-web-actors.

use std::{
    io::ErrorKind,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, StreamHandler, WrapFuture};
use actix_http::ws::{Codec, Item, Message, ProtocolError};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, dev::Payload};
use actix_web_actors::ws::{self, WebsocketContext};
use bytes::Bytes;
use nearhead_chain::json::Json;

use crate::{
    access::Tenant,
    connections::{BodyBudget, Charge},
    rpc::{Answer, Dispatcher, RpcError, envelope::NULL_ID},
    subscriptions::Asking,
};

use super::{CloseReason, Inbound, Outbound, Pieces, Refused, Session};

/// Answers what its client sends, each message as HTTP answers a body.
///
/// It writes through its [`Session`] alone; what its client does not take is bounded there. When
/// the client goes away, so does everything that was going on for it.
pub(crate) struct SessionActor {
    session: Rc<Session>,
    dispatcher: Rc<Dispatcher>,
    tenant: Arc<Tenant>,
    budget: BodyBudget,
    /// A message that is coming in pieces.
    pieces: Option<Pieces>,
}

/// The answer to a handshake, without what follows it.
///
/// # Errors
/// What the handshake lacks.
pub(crate) fn accept(request: &HttpRequest) -> Result<HttpResponseBuilder, ws::HandshakeError> {
    ws::handshake(request)
}

/// Starts the session's actor behind the answer to its handshake.
pub(crate) fn open(
    mut response: HttpResponseBuilder,
    payload: Payload,
    session: Rc<Session>,
    dispatcher: Rc<Dispatcher>,
    tenant: Arc<Tenant>,
    budget: BodyBudget,
) -> HttpResponse {
    let inbound = Inbound::new(payload, Rc::clone(&session));
    let actor = SessionActor {
        session: Rc::clone(&session),
        dispatcher,
        tenant,
        budget,
        pieces: None,
    };
    let context = WebsocketContext::with_codec(actor, inbound, Codec::new());
    response.streaming(Outbound::new(context, session))
}

impl SessionActor {
    /// Answers a whole message, and holds what it takes of the worker's memory until then.
    fn answer(&mut self, body: Bytes, charge: Option<Charge>, ctx: &mut WebsocketContext<Self>) {
        let (session, dispatcher) = (Rc::clone(&self.session), Rc::clone(&self.dispatcher));
        let (tenant, now) = (Arc::clone(&self.tenant), Instant::now());
        session.begin_request();
        let asking = Asking::new(Rc::clone(&session));
        let answer = async move {
            let answer = dispatcher.answer(&tenant, &body, now, Some(&asking)).await;
            drop((body, charge));
            (answer, asking)
        };
        ctx.spawn(answer.into_actor(self).map(|(answer, asking), this, _| {
            // What a batch was admitted by is given back: what it holds is within the session's
            // budget from here on.
            if let Some(json) = answer.json {
                this.session.answer(json, answer.turn);
            }
            if answer.refusal.is_none() {
                asking.answered();
            }
            this.session.end_request();
        }));
    }

    /// Says why a message is not answered, as HTTP says it of a body.
    fn refuse(&self, error: &RpcError) {
        let refused = Answer::error(NULL_ID, error);
        let metrics = self.dispatcher.metrics.method(None);
        metrics.answered(refused.outcome, Duration::ZERO);
        self.session
            .answer(refused.json.unwrap_or(Json::NULL), None);
    }

    /// Takes a piece of a message, and answers it with its last one.
    fn piece(&mut self, item: Item, ctx: &mut WebsocketContext<Self>) -> Result<(), CloseReason> {
        let (is_text, is_last, bytes) = match item {
            Item::FirstText(bytes) => (Some(true), false, bytes),
            Item::FirstBinary(bytes) => (Some(false), false, bytes),
            Item::Continue(bytes) => (None, false, bytes),
            Item::Last(bytes) => (None, true, bytes),
        };
        if let Some(is_text) = is_text {
            self.pieces = Some(Pieces::new(is_text, &self.budget));
        }
        let mut pieces = self.pieces.take().ok_or(CloseReason::PROTOCOL)?;
        pieces.push(&bytes);
        if !is_last {
            self.pieces = Some(pieces);
            return Ok(());
        }
        match pieces.finish() {
            Ok((body, charge)) => self.answer(body, Some(charge), ctx),
            Err(Refused::NotUtf8) => return Err(CloseReason::NOT_UTF8),
            Err(Refused::TooLarge) => self.refuse(&RpcError::BODY_TOO_LARGE),
            Err(Refused::Busy) => self.refuse(&RpcError::Unavailable),
        }
        Ok(())
    }

    fn receive(
        &mut self,
        message: Result<Message, ProtocolError>,
        ctx: &mut WebsocketContext<Self>,
    ) -> Result<(), CloseReason> {
        match message.map_err(|error| why_of(&error))? {
            Message::Text(text) => self.answer(text.into_bytes(), None, ctx),
            Message::Binary(bytes) => self.answer(bytes, None, ctx),
            Message::Continuation(item) => self.piece(item, ctx)?,
            Message::Ping(payload) => self.session.pong(&payload),
            Message::Pong(_) | Message::Nop => {}
            Message::Close(reason) => {
                let code = reason.map(|reason| u16::from(reason.code));
                self.session.close_came(code);
            }
        }
        Ok(())
    }
}

impl Actor for SessionActor {
    type Context = WebsocketContext<Self>;
}

impl StreamHandler<Result<Message, ProtocolError>> for SessionActor {
    fn handle(
        &mut self,
        message: Result<Message, ProtocolError>,
        ctx: &mut WebsocketContext<Self>,
    ) {
        self.session.handed_over();
        if !self.session.takes_messages() {
            // Ours was sent: the client's close is all that is waited for.
            if matches!(message, Ok(Message::Close(_)) | Err(_)) {
                self.session.end();
                ctx.stop();
            }
            return;
        }
        if let Err(why) = self.receive(message, ctx) {
            self.session.close(why);
            // What follows a violation has no meaning.
            ctx.stop();
        }
    }

    /// The client closed its side of the connection.
    fn finished(&mut self, ctx: &mut WebsocketContext<Self>) {
        ctx.stop();
    }
}

/// The library says that text is not UTF-8 by an error of no kind of its own.
fn why_of(error: &ProtocolError) -> CloseReason {
    match error {
        ProtocolError::Overflow => CloseReason::TOO_LARGE,
        ProtocolError::Io(error) if error.kind() == ErrorKind::Other => CloseReason::NOT_UTF8,
        _ => CloseReason::PROTOCOL,
    }
}
