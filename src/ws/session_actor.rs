//! One WebSocket session as an actor that lives as long as its connection. This is the only file
//! that knows actix-web-actors.

use std::{
    io::ErrorKind,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, StreamHandler, WrapFuture};
use actix_http::ws::{Codec, Item, Message, ProtocolError};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, dev::Payload};
use actix_web_actors::ws::{self, WebsocketContext};
use bytes::Bytes;
use nearhead_actors::admission::RequestTurns;
use nearhead_chain::json::Json;
use tracing::Instrument;

use crate::{
    access::Now,
    connections::{BodyBudget, Charge},
    rpc::{Answer, Dispatcher, RpcError, Via, envelope::NULL_ID},
    ws::{
        close_reason::CloseReason,
        inbound::Inbound,
        message::{Fragments, MessageRefusal},
        outbound::Outbound,
        request_subscriptions::RequestSubscriptions,
        session::Session,
        session_traces::SessionTraces,
    },
};

/// Answers its client's messages, each like the body of an HTTP request.
///
/// It writes only through its [`Session`], which bounds what waits for the client. When the client
/// goes away, its requests in flight are dropped.
pub(crate) struct SessionActor {
    session: Rc<Session>,
    dispatcher: Rc<Dispatcher>,
    requests: RequestTurns,
    budget: BodyBudget,
    /// A message that arrives in fragments.
    fragments: Option<Fragments>,
    traces: SessionTraces,
}

/// Starts the answer to a handshake.
///
/// # Errors
/// The request is not a handshake that can be accepted.
pub(crate) fn accept(request: &HttpRequest) -> Result<HttpResponseBuilder, ws::HandshakeError> {
    ws::handshake(request)
}

/// Starts the session's actor, and completes the answer to its handshake.
pub(crate) fn open(
    mut response: HttpResponseBuilder,
    payload: Payload,
    session: Rc<Session>,
    (dispatcher, requests): (Rc<Dispatcher>, RequestTurns),
    budget: BodyBudget,
    traces: SessionTraces,
) -> HttpResponse {
    let inbound = Inbound::new(payload, Rc::clone(&session));
    let actor = SessionActor {
        session: Rc::clone(&session),
        dispatcher,
        requests,
        budget,
        fragments: None,
        traces,
    };
    let context = WebsocketContext::with_codec(actor, inbound, Codec::new());
    response.streaming(Outbound::new(context, session))
}

impl SessionActor {
    /// Answers a whole message, and keeps its share of the worker's memory budget until then.
    ///
    /// # Errors
    /// The session is no longer let in.
    fn answer(
        &mut self,
        body: Bytes,
        charge: Option<Charge>,
        ctx: &mut WebsocketContext<Self>,
    ) -> Result<(), CloseReason> {
        let (session, dispatcher) = (Rc::clone(&self.session), Rc::clone(&self.dispatcher));
        let now = Now {
            instant: Instant::now(),
            unix: SystemTime::now().into(),
        };
        let key = session.grant.key(now.unix).map_err(CloseReason::of)?;
        session.begin_request();
        let request = RequestSubscriptions::new(Rc::clone(&session));
        let mut trace = self.traces.begin(&key.tenant);
        let span = trace.span().clone();
        let requests = self.requests.clone();
        let answer = async move {
            let via = Via::session(&request);
            let (mut key, mut turn) = (key, Ok(()));
            if !requests.begin(body.len()) {
                let share = key.tenant.call_budget.share();
                turn = requests.wait(share, body.len()).await;
                // A key that was revoked meanwhile lets nobody in, and one that was changed less.
                key = match session.grant.key(SystemTime::now().into()) {
                    Ok(key) => key,
                    Err(refused) => {
                        session.close(CloseReason::of(refused));
                        return (None, request);
                    }
                };
            }
            let answer = match turn {
                Ok(()) => dispatcher.answer(&key, &body, now, via).await,
                Err(error) => dispatcher.refuse_unread(&key, &body, error, now),
            };
            trace.answered(&answer);
            drop((body, charge));
            (Some(answer), request)
        };
        ctx.spawn(
            answer
                .instrument(span)
                .into_actor(self)
                .map(|(answer, request), this, _| {
                    if let Some(answer) = answer {
                        if let Some(json) = answer.json {
                            this.session.answer(json, answer.permits);
                        }
                        if answer.refusal.is_none() {
                            request.answered();
                        }
                    }
                    this.session.end_request();
                }),
        );
        Ok(())
    }

    /// Answers a message that cannot be processed with an error, as HTTP does for a body.
    fn refuse(&self, error: &RpcError) {
        let refused = Answer::error(NULL_ID, error);
        let metrics = self.dispatcher.metrics.method(None);
        metrics.answered(refused.outcome, Duration::ZERO);
        self.session
            .answer(refused.json.unwrap_or(Json::NULL), None);
    }

    /// Adds a fragment to its message, and answers the message after its last fragment.
    fn fragment(
        &mut self,
        item: Item,
        ctx: &mut WebsocketContext<Self>,
    ) -> Result<(), CloseReason> {
        let (is_text, is_last, bytes) = match item {
            Item::FirstText(bytes) => (Some(true), false, bytes),
            Item::FirstBinary(bytes) => (Some(false), false, bytes),
            Item::Continue(bytes) => (None, false, bytes),
            Item::Last(bytes) => (None, true, bytes),
        };
        if let Some(is_text) = is_text {
            self.fragments = Some(Fragments::new(is_text, &self.budget));
        }
        let mut fragments = self.fragments.take().ok_or(CloseReason::PROTOCOL)?;
        fragments.push(&bytes);
        if !is_last {
            self.fragments = Some(fragments);
            return Ok(());
        }
        match fragments.finish() {
            Ok((body, charge)) => self.answer(body, Some(charge), ctx)?,
            Err(MessageRefusal::NotUtf8) => return Err(CloseReason::NOT_UTF8),
            Err(MessageRefusal::TooLarge) => self.refuse(&RpcError::BODY_TOO_LARGE),
            Err(MessageRefusal::Busy { retry_after }) => {
                self.refuse(&RpcError::overloaded(retry_after));
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        message: Result<Message, ProtocolError>,
        ctx: &mut WebsocketContext<Self>,
    ) -> Result<(), CloseReason> {
        match message.map_err(|error| close_reason(&error))? {
            Message::Text(text) => self.answer(text.into_bytes(), None, ctx)?,
            Message::Binary(bytes) => self.answer(bytes, None, ctx)?,
            Message::Continuation(item) => self.fragment(item, ctx)?,
            Message::Ping(payload) => self.session.pong(&payload),
            Message::Pong(_) | Message::Nop => {}
            Message::Close(reason) => {
                let code = reason.map(|reason| u16::from(reason.code));
                self.session.close_received(code);
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
        self.session.frame_handled();
        if !self.session.takes_messages() {
            // Our close frame is queued or sent; only the client's is awaited.
            if matches!(message, Ok(Message::Close(_)) | Err(_)) {
                self.session.end();
                ctx.stop();
            }
            return;
        }
        if let Err(reason) = self.receive(message, ctx) {
            self.session.close(reason);
            // Whatever follows a violation is meaningless.
            ctx.stop();
        }
    }

    /// The client closed its side of the connection.
    fn finished(&mut self, ctx: &mut WebsocketContext<Self>) {
        ctx.stop();
    }
}

/// The reason to close after this error. The library reports text that is not UTF-8 as an I/O error
/// of kind `Other`.
fn close_reason(error: &ProtocolError) -> CloseReason {
    match error {
        ProtocolError::Overflow => CloseReason::TOO_LARGE,
        ProtocolError::Io(error) if error.kind() == ErrorKind::Other => CloseReason::NOT_UTF8,
        _ => CloseReason::PROTOCOL,
    }
}
