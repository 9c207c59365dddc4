//! One WebSocket session: an actor that lives as long as its connection. The only file that knows actix-web-actors.

use std::{io::ErrorKind, rc::Rc, time::Instant};

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, StreamHandler, WrapFuture};
use actix_http::ws::{Codec, Item, Message, ProtocolError};
use actix_web::{HttpRequest, HttpResponse, dev::Payload};
use actix_web_actors::ws::{self, WebsocketContext};
use bytes::{Bytes, BytesMut};
use nearhead_chain::json::Json;

use crate::{
    access::TenantId,
    body_budget::{BodyBudget, Charge},
    limits::{BODY_BYTES_MAX, MESSAGE_BYTES_MAX},
    rpc::{Answer, Dispatcher, RpcError, envelope::NULL_ID},
    sessions::{Inbound, Outbound, Session, Why},
    subscriptions::Asking,
};

/// Answers what its client sends, each message as HTTP answers a body.
///
/// It writes through its [`Session`] alone; what its client does not take is bounded there. When the client goes away,
/// so does everything that was going on for it.
pub(crate) struct SessionActor {
    session: Rc<Session>,
    dispatcher: Rc<Dispatcher>,
    tenant: TenantId,
    /// A message that is coming in pieces.
    message: Option<Pieces>,
}

/// The first pieces of a message.
struct Pieces {
    is_text: bool,
    bytes: BytesMut,
}

/// Answers a handshake, and starts the session's actor if it is one.
///
/// # Errors
/// What the handshake lacks.
pub(crate) fn open(
    request: &HttpRequest,
    payload: Payload,
    session: Rc<Session>,
    dispatcher: Rc<Dispatcher>,
    tenant: TenantId,
    budget: BodyBudget,
) -> Result<HttpResponse, ws::HandshakeError> {
    let mut response = ws::handshake(request)?;
    let inbound = Inbound::new(payload, Rc::clone(&session), budget);
    let actor = SessionActor {
        session: Rc::clone(&session),
        dispatcher,
        tenant,
        message: None,
    };
    let codec = Codec::new().max_size(MESSAGE_BYTES_MAX);
    let context = WebsocketContext::with_codec(actor, inbound, codec);
    Ok(response.streaming(Outbound::new(context, session)))
}

impl SessionActor {
    /// Answers a whole message, and holds what it takes of the worker's memory until then.
    fn answer(&mut self, body: Bytes, charge: Option<Charge>, ctx: &mut WebsocketContext<Self>) {
        if body.len() > BODY_BYTES_MAX {
            let error = RpcError::InvalidHttp("request body too large, send at most 5 MiB");
            let refused = Answer::error(NULL_ID, &error);
            self.session
                .answer(&refused.json.unwrap_or(Json::NULL), Vec::new());
            return;
        }
        let (session, dispatcher) = (Rc::clone(&self.session), Rc::clone(&self.dispatcher));
        let (tenant, now) = (self.tenant, Instant::now());
        session.begin_request();
        let asking = Asking::new(Rc::clone(&session));
        let answer = async move {
            let answer = dispatcher.answer(tenant, &body, now, Some(&asking)).await;
            drop((body, charge));
            (answer, asking)
        };
        ctx.spawn(answer.into_actor(self).map(|(answer, asking), this, _| {
            if let Some(json) = &answer.json {
                this.session.answer(json, answer.permits);
            }
            if answer.refusal.is_none() {
                asking.answered();
            }
            this.session.end_request();
        }));
    }

    /// Takes a piece of a message; the whole message with its last one.
    fn piece(&mut self, item: Item) -> Result<Option<Bytes>, Why> {
        let (is_text, is_last, bytes) = match item {
            Item::FirstText(bytes) => (Some(true), false, bytes),
            Item::FirstBinary(bytes) => (Some(false), false, bytes),
            Item::Continue(bytes) => (None, false, bytes),
            Item::Last(bytes) => (None, true, bytes),
        };
        if let Some(is_text) = is_text {
            self.message = Some(Pieces {
                is_text,
                bytes: BytesMut::new(),
            });
        }
        let message = self.message.as_mut().ok_or(Why::PROTOCOL)?;
        message.bytes.extend_from_slice(&bytes);
        if !is_last {
            return Ok(None);
        }
        let Some(message) = self.message.take() else {
            return Ok(None);
        };
        if message.is_text && std::str::from_utf8(&message.bytes).is_err() {
            return Err(Why::NOT_UTF8);
        }
        Ok(Some(message.bytes.freeze()))
    }

    fn receive(
        &mut self,
        message: Result<Message, ProtocolError>,
        charge: Option<Charge>,
        ctx: &mut WebsocketContext<Self>,
    ) -> Result<(), Why> {
        match message.map_err(|error| why_of(&error))? {
            Message::Text(text) => self.answer(text.into_bytes(), charge, ctx),
            Message::Binary(bytes) => self.answer(bytes, charge, ctx),
            Message::Continuation(item) => {
                if let Some(whole) = self.piece(item)? {
                    self.answer(whole, charge, ctx);
                }
            }
            Message::Ping(payload) => self.session.pong(&payload),
            Message::Pong(_) | Message::Nop => {}
            Message::Close(reason) => {
                let code = reason.map(|reason| u16::from(reason.code));
                if code.is_some_and(|code| !is_sendable(code)) {
                    return Err(Why::PROTOCOL);
                }
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
        let charge = self.session.handed_over();
        if !self.session.takes_messages() {
            // Ours was sent: the client's close is all that is waited for.
            if !matches!(
                message,
                Ok(Message::Text(_) | Message::Binary(_) | Message::Continuation(_))
            ) {
                self.session.end();
                ctx.stop();
            }
            return;
        }
        if let Err(why) = self.receive(message, charge, ctx) {
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

/// Whether a client may send this code (RFC 6455 §7.4).
const fn is_sendable(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// The library says that text is not UTF-8 by an error of no kind of its own.
fn why_of(error: &ProtocolError) -> Why {
    match error {
        ProtocolError::Overflow => Why::TOO_LARGE,
        ProtocolError::Io(error) if error.kind() == ErrorKind::Other => Why::NOT_UTF8,
        _ => Why::PROTOCOL,
    }
}
