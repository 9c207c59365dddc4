//! Clients of one worker: what each holds must be what the view holds, whatever happens in between.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use alloy_primitives::B256;
use nearhead_actors::messages::HeadChanged;
use nearhead_chain::{
    block::Block,
    window::{REPLACED_BLOCKS_MAX, Snapshot, Window},
};
use serde_json::Value;

use super::{
    Dice,
    held::{Held, Id, id, told_of},
    tree::{TREE, Way},
};
use crate::{
    access::{SessionCaps, Tenant},
    connections::ConnectionHandle,
    metrics::Metrics,
    rpc::{RpcError, Subscriber as _, SubscriptionKind},
    subscriptions::{Hub, SessionSubscriptions},
    ws::{request_subscriber::RequestSubscriber, session::Session, sessions::Sessions},
};

pub(super) struct World {
    pub(super) hub: Rc<Hub>,
    /// What everybody reads.
    pub(super) served: RefCell<Arc<Snapshot>>,
    window: RefCell<Window>,
    replaced: Cell<usize>,
    sessions: Sessions,
    pub(super) metrics: Metrics,
    caps: SessionCaps,
    tenant: Tenant,
}

impl World {
    pub(super) fn new(window: &Window, budget: usize) -> Self {
        let metrics = Metrics::new([]).unwrap();
        let hub = Hub::new(metrics.clone());
        hub.reset(window.snapshot());
        let draining = Arc::new(AtomicBool::new(false));
        Self {
            hub,
            served: RefCell::new(window.snapshot()),
            window: RefCell::new(window.clone()),
            replaced: Cell::new(0),
            sessions: Sessions::new(budget, Duration::MAX, draining, metrics.clone()),
            metrics,
            caps: SessionCaps::new(100),
            tenant: Tenant::for_tests(100),
        }
    }

    pub(super) fn view(&self) -> Arc<Snapshot> {
        Arc::clone(&self.served.borrow())
    }

    /// Changes the chain; nobody knows yet.
    pub(super) fn advance(&self, way: Way) -> HeadChanged {
        let mut window = self.window.borrow_mut();
        self.replaced.set(self.replaced.get() + way.reverted);
        let delta = window
            .advance(way.reverted, way.applied, None, None)
            .unwrap();
        HeadChanged {
            reverted: delta.reverted,
            applied: delta.applied,
            is_reset: false,
            snapshot: window.snapshot(),
        }
    }

    /// Puts a block below the oldest; nobody is told.
    pub(super) fn extend_below(&self, block: &Arc<Block>) {
        let mut window = self.window.borrow_mut();
        window.extend_below(Arc::clone(block)).unwrap();
        self.served.replace(window.snapshot());
    }

    /// A way on from the head; `None` where a branch ended that a window of few blocks cannot
    /// leave.
    pub(super) fn way(&self, dice: &mut Dice) -> Option<Way> {
        let view = self.window.borrow().snapshot();
        let mut ways = (0..1_000).filter_map(|_| TREE.way(view.head(), dice));
        // The oldest block of a window stays.
        ways.find(|way| way.reverted < view.canonical().len())
    }

    pub(super) fn session(&self) -> Rc<Session> {
        let slot = self.caps.take(&self.tenant).unwrap();
        let subscriptions = SessionSubscriptions::new(Rc::clone(&self.hub));
        self.sessions
            .open(slot, subscriptions, ConnectionHandle::default())
    }

    /// Whether what happened since this block is held no more.
    fn is_lost(&self, since: &B256, view: &Snapshot) -> bool {
        if self.replaced.get() > REPLACED_BLOCKS_MAX && view.by_hash(since).is_none() {
            return true;
        }
        let mut block = TREE.block(since).unwrap();
        while block.number() >= view.oldest() {
            if view.is_canonical(block) {
                return false;
            }
            block = TREE.block(&block.header.parent_hash).unwrap();
        }
        // Its replaced blocks are all held; what they replaced begins with the oldest.
        block.number() + 1 < view.oldest()
            || block.hash != view.canonical()[0].header.parent_hash
            || block.hash == *since
    }
}

/// One subscription of a client.
struct Subscribed {
    kind: SubscriptionKind,
    held: Held,
    /// The last block that it knows completely.
    knows: Id,
    id: String,
    /// Its answer, until it is sent.
    asking: Option<RequestSubscriber>,
}

/// One client and its session, if it is connected.
pub(super) struct Client {
    pub(super) session: Option<Rc<Session>>,
    subscribed: Vec<Subscribed>,
    /// Bytes of frames that came in part.
    bytes: Vec<u8>,
    is_closed: bool,
    pub(super) told: usize,
}

impl Client {
    pub(super) fn new(world: &World) -> Self {
        Self {
            session: Some(world.session()),
            subscribed: Vec::new(),
            bytes: Vec::new(),
            is_closed: false,
            told: 0,
        }
    }

    pub(super) fn is_away(&self) -> bool {
        self.is_closed || self.session.is_none()
    }

    /// Reads and subscribes, both in this view.
    pub(super) fn subscribe(
        &mut self,
        kind: SubscriptionKind,
        view: &Arc<Snapshot>,
    ) -> Result<(), String> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        let asking = RequestSubscriber::new(Rc::clone(session));
        let id = asking.subscribe(kind.clone(), None, view);
        self.subscribed.push(Subscribed {
            held: Held::read(&kind, view),
            kind,
            knows: super::held::id(view.head()),
            id: id.map_err(|error| format!("{error:?}"))?,
            asking: Some(asking),
        });
        Ok(())
    }

    /// Has the answers sent that were not.
    pub(super) fn answer(&mut self) {
        for subscribed in &mut self.subscribed {
            if let Some(asking) = subscribed.asking.take() {
                asking.answered();
            }
        }
    }

    /// Loses the answer to what was subscribed to last, if it was not sent.
    pub(super) fn lose_answer(&mut self) {
        if self
            .subscribed
            .last()
            .is_some_and(|last| last.asking.is_some())
        {
            self.subscribed.pop();
        }
    }

    /// Ends a subscription: it must not be told any more once everything before was read.
    pub(super) fn unsubscribe(&mut self, dice: &mut Dice) -> Result<(), String> {
        let Some(session) = self.session.clone() else {
            return Ok(());
        };
        if self.subscribed.is_empty() || !self.read(usize::MAX, None)? {
            return Ok(());
        }
        let ended = self.subscribed.remove(dice.roll(self.subscribed.len()));
        let asking = RequestSubscriber::new(session);
        match asking.unsubscribe(&ended.id) && !asking.unsubscribe(&ended.id) {
            true => Ok(()),
            false => Err("it is not ended once".to_owned()),
        }
    }

    /// Reads up to so many bytes; whether it is told of everything. Where it was told right now,
    /// heads are those that are served.
    pub(super) fn read(&mut self, most: usize, served: Option<&Snapshot>) -> Result<bool, String> {
        let session = match &self.session {
            Some(session) if !self.is_closed => Rc::clone(session),
            _ => return Ok(false),
        };
        let mut left = most;
        while left > 0 {
            session.subscriptions.catch_up(&session);
            match session.take(left) {
                Some(slice) => {
                    left -= slice.len();
                    self.bytes.extend_from_slice(&slice);
                }
                None if session.takes_messages() && session.subscriptions.has_more() => {}
                None => break,
            }
        }
        while let Some((opcode, payload)) = take_frame(&mut self.bytes) {
            if opcode == 8 {
                self.is_closed = true;
                return Ok(false);
            }
            self.hear(&payload, served)?;
        }
        Ok(left > 0 && !session.subscriptions.is_behind())
    }

    fn hear(&mut self, payload: &[u8], served: Option<&Snapshot>) -> Result<(), String> {
        let message: Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        let params = &message["params"];
        let mut all = self.subscribed.iter_mut();
        let subscribed = all.find(|subscribed| params["subscription"] == subscribed.id.as_str());
        let subscribed = subscribed.ok_or("it did not subscribe to that")?;
        if subscribed.asking.is_some() {
            return Err("told before it knows the id".to_owned());
        }
        let result = &params["result"];
        subscribed.held.apply(result)?;
        self.told += 1;
        let (block, is_whole) = told_of(&subscribed.kind, result).ok_or("no such block")?;
        let is_served = |served: &Snapshot| served.is_canonical(&block);
        if subscribed.kind == SubscriptionKind::NewHeads && !served.is_none_or(is_served) {
            return Err("told of a head that is not served".to_owned());
        }
        subscribed.knows = if is_whole {
            id(&block)
        } else {
            (block.number() - 1, block.header.parent_hash)
        };
        Ok(())
    }

    /// Goes away without a farewell.
    pub(super) fn leave(&mut self) {
        self.subscribed
            .iter_mut()
            .for_each(|subscribed| subscribed.asking = None);
        self.session = None;
    }

    /// Comes back with the last block that it knows of each subscription; those that are lost begin
    /// anew.
    pub(super) fn come_back(&mut self, world: &World, view: &Arc<Snapshot>) -> Result<(), String> {
        self.leave();
        self.bytes.clear();
        self.is_closed = false;
        let session = world.session();
        for subscribed in &mut self.subscribed {
            let asking = RequestSubscriber::new(Rc::clone(&session));
            let (number, hash) = subscribed.knows;
            let kind = || subscribed.kind.clone();
            subscribed.id = match asking.subscribe(kind(), Some(hash), view) {
                Ok(id) => {
                    subscribed.held.truncate(number);
                    id
                }
                Err(RpcError::ResumeLost { number, hash }) => {
                    let oldest = &view.canonical()[0];
                    if (number, hash) != id(oldest) || !world.is_lost(&subscribed.knows.1, view) {
                        return Err(format!(
                            "{:?} is not lost, oldest {number}",
                            subscribed.knows
                        ));
                    }
                    subscribed.held = Held::read(&subscribed.kind, view);
                    subscribed.knows = id(view.head());
                    let anew = asking.subscribe(kind(), None, view);
                    anew.map_err(|error| format!("{error:?}"))?
                }
                Err(error) => return Err(format!("{error:?}")),
            };
            subscribed.asking = Some(asking);
        }
        self.session = Some(session);
        Ok(())
    }

    /// Whether it holds what is answered from the view.
    pub(super) fn check_answers(&self, view: &Snapshot) -> Result<(), String> {
        let mut all = self.subscribed.iter();
        all.try_for_each(|subscribed| subscribed.held.check_answers(view))
    }

    /// Whether it holds what the view holds.
    pub(super) fn check(&self, view: &Snapshot) -> Result<(), String> {
        let mut told = self
            .subscribed
            .iter()
            .filter(|subscribed| subscribed.asking.is_none());
        told.try_for_each(|subscribed| subscribed.held.check(&subscribed.kind, view))
    }
}

/// The first whole frame.
pub(super) fn take_frame(bytes: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let (len, start) = match *bytes.get(1)? {
        126 => (
            usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?])),
            4,
        ),
        127 => (
            usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?,
            10,
        ),
        len => (usize::from(len), 2),
    };
    let payload = bytes.get(start..start + len)?.to_vec();
    let opcode = bytes[0] & 0x0f;
    bytes.drain(..start + len);
    Some((opcode, payload))
}
