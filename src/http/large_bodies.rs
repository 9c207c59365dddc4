//! Large bodies are parsed and answered on a thread of their own.

use std::{cell::RefCell, io, rc::Rc, sync::Arc};

use actix::{Actor, Addr, Arbiter, Context, Handler, Message};
use bytes::Bytes;
use nearhead_actors::{admission::LARGE_BODY_BYTES, thread_priority};
use tokio::sync::oneshot;
use tracing::Span;

use super::{request_actor::RequestActor, server_state::ServerState};
use crate::{
    access::{ActiveKey, Now},
    rpc::{Answer, Dispatcher, NamedBlock, Via},
    subscriptions::FanoutActor,
    tenants::UsageMeter,
};

/// Answers the large bodies that one worker has read.
///
/// To parse a body takes 2 to 5 ns a byte, as long as dozens of cheap requests. A worker that does
/// it has them wait, however the bodies share their turns. So it only reads large bodies, and
/// passes them to a thread with a lower priority, which has a dispatcher and read actors of its
/// own. The thread starts with the first large body.
pub(super) struct LargeBodies {
    server: ServerState,
    thread: RefCell<Option<BodyThread>>,
}

struct BodyThread {
    arbiter: Arbiter,
    actor: Addr<LargeBodyActor>,
}

impl LargeBodies {
    /// Those of one worker.
    pub(super) fn new(server: &ServerState) -> Self {
        Self {
            server: server.clone(),
            thread: RefCell::default(),
        }
    }

    /// Whether a body is large.
    pub(super) fn has(body: &[u8]) -> bool {
        body.len() >= LARGE_BODY_BYTES
    }

    /// Answers a body that came [as these say](Via::http); `None` if there is no thread for it.
    /// Dropping the future ends the work.
    pub(super) async fn answer(
        &self,
        key: Arc<ActiveKey>,
        body: Bytes,
        now: Now,
        via: (NamedBlock, usize),
        span: Span,
    ) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        let message = AnswerBody {
            key,
            body,
            now,
            via,
            span,
            answer,
        };
        let actor = self.actor()?;
        actor.send(message).await.ok()?;
        answered.await.ok()
    }

    /// The actor on the thread, which is started if it does not run.
    fn actor(&self) -> Option<Addr<LargeBodyActor>> {
        let mut thread = self.thread.borrow_mut();
        if thread.as_ref().is_none_or(|it| !it.actor.connected()) {
            let started = BodyThread::start(&self.server);
            let started = started.inspect_err(|error| {
                tracing::error!(%error, "no thread can be started for large bodies");
            });
            *thread = Some(started.ok()?);
        }
        thread.as_ref().map(|it| it.actor.clone())
    }
}

impl BodyThread {
    fn start(server: &ServerState) -> io::Result<Self> {
        let arbiter = Arbiter::try_new()?;
        let server = server.clone();
        let actor = LargeBodyActor::start_in_arbiter(&arbiter.handle(), move |_| {
            thread_priority::lower("bodies", thread_priority::BODIES);
            let usage = UsageMeter::start_for(server.tenants.as_ref());
            let dispatcher = Rc::new(server.dispatcher(usage));
            FanoutActor::start(server.tracker, None, Rc::clone(&dispatcher.waits));
            LargeBodyActor(dispatcher)
        });
        Ok(Self { arbiter, actor })
    }
}

impl Drop for BodyThread {
    fn drop(&mut self) {
        self.arbiter.stop();
    }
}

/// Answers bodies on its thread.
struct LargeBodyActor(Rc<Dispatcher>);

impl Actor for LargeBodyActor {
    type Context = Context<Self>;
}

/// Answer a body. The work ends when the receiver is dropped.
#[derive(Message)]
#[rtype(result = "()")]
struct AnswerBody {
    key: Arc<ActiveKey>,
    body: Bytes,
    now: Now,
    /// The arguments of [`Via::http`].
    via: (NamedBlock, usize),
    span: Span,
    answer: oneshot::Sender<Answer>,
}

impl Handler<AnswerBody> for LargeBodyActor {
    type Result = ();

    fn handle(&mut self, message: AnswerBody, _: &mut Context<Self>) {
        let dispatcher = Rc::clone(&self.0);
        let AnswerBody {
            key,
            body,
            now,
            via: (min_block, buffered_max),
            span,
            answer,
        } = message;
        let via = Via::http(min_block, buffered_max);
        let work = async move { dispatcher.answer(&key, &body, now, via).await };
        RequestActor::send_answer(work, answer, span);
    }
}
