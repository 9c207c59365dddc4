//! The baselines of WebSocket sessions. Any cost above them is nearhead's own.
//!
//! `bare_ws PORT` listens on 127.0.0.1:PORT, with one worker.
//!
//! | path | what it does |
//! |---|---|
//! | `GET /idle` | opens a session of actix-web-actors whose actor only answers a close |
//! | `GET /receive` | opens a session of actix-ws that receives every broadcast |
//! | `POST /broadcast` | sends the body to all receivers; answers with the start time in ns |

use std::{
    cell::RefCell,
    rc::Rc,
    time::{SystemTime, UNIX_EPOCH},
};

use actix::{Actor, ActorContext, StreamHandler};
use actix_web::{
    App, Error, HttpRequest, HttpResponse, HttpServer,
    error::ErrorInternalServerError,
    rt,
    web::{self, Bytes, Payload},
};
use actix_web_actors::ws::{self, WebsocketContext};
use actix_ws::Message;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A session that only answers a close.
struct Idle;

impl Actor for Idle {
    type Context = WebsocketContext<Self>;
}

impl StreamHandler<Result<ws::Message, ws::ProtocolError>> for Idle {
    fn handle(
        &mut self,
        message: Result<ws::Message, ws::ProtocolError>,
        ctx: &mut WebsocketContext<Self>,
    ) {
        if let Ok(ws::Message::Close(reason)) = message {
            ctx.close(reason);
            ctx.stop();
        }
    }
}

async fn idle(request: HttpRequest, payload: Payload) -> Result<HttpResponse, Error> {
    ws::start(Idle, &request, payload)
}

type Sessions = Rc<RefCell<Vec<actix_ws::Session>>>;

async fn receive(
    request: HttpRequest,
    payload: Payload,
    sessions: web::Data<Sessions>,
) -> Result<HttpResponse, Error> {
    let (response, mut session, mut messages) = actix_ws::handle(&request, payload)?;
    sessions.borrow_mut().push(session.clone());
    rt::spawn(async move {
        while let Some(Ok(message)) = messages.recv().await {
            let is_answered = match message {
                Message::Ping(payload) => session.pong(&payload).await.is_ok(),
                Message::Close(reason) => {
                    // An error means that the session is closed.
                    let _ = session.close(reason).await;
                    return;
                }
                _ => true,
            };
            if !is_answered {
                return;
            }
        }
    });
    Ok(response)
}

async fn broadcast(body: Bytes, sessions: web::Data<Sessions>) -> Result<String, Error> {
    let began = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(ErrorInternalServerError)?;
    let mut all = sessions.take();
    for session in &mut all {
        // An error means that the session is closed, which the load generator notices.
        let _ = session.binary(body.clone()).await;
    }
    sessions.borrow_mut().append(&mut all);
    Ok(began.as_nanos().to_string())
}

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|arg| arg.parse().ok());
    let port: u16 = port.ok_or_else(|| std::io::Error::other("usage: bare_ws PORT"))?;
    rt::System::new().block_on(
        HttpServer::new(|| {
            App::new()
                .app_data(web::Data::new(Sessions::default()))
                .route("/idle", web::get().to(idle))
                .route("/receive", web::get().to(receive))
                .route("/broadcast", web::post().to(broadcast))
        })
        .workers(1)
        .max_connections(20_000)
        .shutdown_timeout(0)
        .bind(("127.0.0.1", port))?
        .run(),
    )
}
