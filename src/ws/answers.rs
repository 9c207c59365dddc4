//! Answers that a session's client has not taken yet.

use std::rc::Rc;

use nearhead_actors::admission::ReplyCharge;
use nearhead_chain::json::{Json, Piece};

use super::{
    close_reason::CloseReason,
    frame::{self, Opcode},
    outbox::KeptAnswer,
    session::Session,
};
use crate::{connections::HeldReply, rpc::AnswerPermits};

impl Session {
    /// Queues an answer, and keeps its permits until the client has taken it. Even a large answer
    /// holds little memory until then; if others need that, the session is closed.
    pub(crate) fn answer(self: &Rc<Self>, json: Json, permits: Option<Box<AnswerPermits>>) {
        if !self.takes_messages() {
            return;
        }
        let mut outbox = self.begin_sending();
        let header = frame::header(Opcode::Text, json.len());
        outbox.push(std::iter::once(Piece::Own(header)).chain(json.into_pieces()));
        if let Some(permits) = permits {
            let AnswerPermits {
                reply,
                large_answer,
            } = *permits;
            outbox.keep(KeptAnswer {
                reply: reply.map(|charge| self.holds(charge)),
                large_answer,
            });
        }
        drop(outbox);
        self.wake();
    }

    /// Ends the session because others need the memory of its answers. What would have to be sent
    /// before a close frame is not sent: the client reads too slowly for that.
    fn evict_for_memory(&self) {
        let was_open = self.takes_messages();
        self.evict(CloseReason::MEMORY);
        if !was_open || self.is_within_frame() {
            self.connection.cut();
        }
    }

    /// A reply that holds memory.
    fn holds(self: &Rc<Self>, charge: ReplyCharge) -> HeldReply {
        let session = Rc::downgrade(self);
        let evict = move || {
            if let Some(session) = session.upgrade() {
                session.evict_for_memory();
            }
        };
        match self.connection.on_eviction(evict) {
            Some(eviction) => HeldReply::new(charge, eviction),
            None => HeldReply::without_connection(charge),
        }
    }
}
