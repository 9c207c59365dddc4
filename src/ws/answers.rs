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
                buffer,
                large_answer,
            } = *permits;
            let mut charged = self.buffer.borrow_mut();
            if charged.is_none() {
                *charged = buffer.map(|charge| self.holds(charge));
            }
            drop(charged);
            outbox.keep(KeptAnswer {
                reply: reply.map(|charge| self.holds(charge)),
                large_answer,
            });
        }
        drop(outbox);
        self.wake();
    }

    /// Bytes of the connection's buffers that the next large answer is charged for: all answers
    /// have the same ones.
    pub(super) fn uncharged_buffer(&self) -> usize {
        match *self.buffer.borrow() {
            Some(_) => 0,
            None => self.connection.buffered_max(),
        }
    }

    /// Gives back what the connection's buffers are charged for, once the kernel has what was in
    /// them. The connection asks for more when that may be so.
    pub(super) fn release_buffer(&self) {
        if self.buffer.borrow().is_some() && self.connection.is_writable() {
            let sent = self.buffer.take();
            drop(sent);
        }
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
