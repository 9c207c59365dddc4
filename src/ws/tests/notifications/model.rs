//! The clients of one worker, and the chain that it serves.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
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
    Rng,
    held::{BlockId, Held, block_of, id},
    tree::{HeadMove, TREE},
};
use crate::{
    access::{Access, Caller, SessionCaps},
    connections::ConnectionHandle,
    metrics::Metrics,
    rpc::{RequestSession as _, RpcError, SubscriptionKind},
    subscriptions::{Hub, SessionSubscriptions},
    tenants::UsageMeter,
    ws::{request_subscriptions::RequestSubscriptions, session::Session, sessions::Sessions},
};

pub(super) struct World {
    pub(super) hub: Rc<Hub>,
    /// The snapshot that requests read.
    pub(super) served: RefCell<Arc<Snapshot>>,
    window: RefCell<Window>,
    replaced: Cell<usize>,
    sessions: Sessions,
    pub(super) metrics: Metrics,
    caps: SessionCaps,
    access: Access,
}

impl World {
    pub(super) fn new(window: &Window, budget: usize) -> Self {
        let metrics = Metrics::new([]).unwrap();
        let hub = Hub::new(metrics.clone());
        hub.adopt(window.snapshot());
        let access = Access::for_tests(100);
        Self {
            hub,
            served: RefCell::new(window.snapshot()),
            window: RefCell::new(window.clone()),
            replaced: Cell::new(0),
            sessions: Sessions::new(
                budget,
                Duration::MAX,
                Arc::default(),
                access.clone(),
                metrics.clone(),
                UsageMeter::default(),
            ),
            metrics,
            caps: SessionCaps::new(100),
            access,
        }
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.served.borrow())
    }

    /// Changes the chain; the hub is not notified yet.
    pub(super) fn advance(&self, head_move: HeadMove) -> HeadChanged {
        let mut window = self.window.borrow_mut();
        self.replaced.set(self.replaced.get() + head_move.reverted);
        let delta = window
            .advance(head_move.reverted, head_move.applied, None, None)
            .unwrap();
        HeadChanged {
            reverted: delta.reverted,
            applied: delta.applied,
            is_reset: false,
            snapshot: window.snapshot(),
        }
    }

    /// Adds a block below the oldest; no client is notified.
    pub(super) fn extend_below(&self, block: &Arc<Block>) {
        let mut window = self.window.borrow_mut();
        window.extend_below(Arc::clone(block)).unwrap();
        self.served.replace(window.snapshot());
    }

    /// A random change of the head; `None` at the end of a branch that a short window cannot leave.
    pub(super) fn head_move(&self, rng: &mut Rng) -> Option<HeadMove> {
        let snapshot = self.window.borrow().snapshot();
        let mut moves = (0..1_000).filter_map(|_| TREE.head_move(snapshot.head(), rng));
        // The oldest block of a window stays.
        moves.find(|head_move| head_move.reverted < snapshot.canonical().len())
    }

    pub(super) fn session(&self) -> Rc<Session> {
        let admitted = self.access.admit_for_tests();
        let permit = self.caps.take(&admitted.key.tenant).unwrap();
        let grant = admitted.into_grant(&self.access, Caller::default());
        let subscriptions = SessionSubscriptions::new(Rc::clone(&self.hub));
        self.sessions
            .open(grant, permit, subscriptions, ConnectionHandle::default())
    }

    /// Whether the chain from this block to the head is no longer held.
    fn is_lost(&self, since: &B256, snapshot: &Snapshot) -> bool {
        if self.replaced.get() > REPLACED_BLOCKS_MAX && snapshot.by_hash(since).is_none() {
            return true;
        }
        let mut block = TREE.block(since).unwrap();
        while block.number() >= snapshot.oldest() {
            if snapshot.is_canonical(block) {
                return false;
            }
            block = TREE.block(&block.header.parent_hash).unwrap();
        }
        // The path has left the window. It is held only if `since` is, and if what replaced it
        // begins with the oldest block.
        block.number() + 1 < snapshot.oldest()
            || block.hash != snapshot.canonical()[0].header.parent_hash
            || block.hash == *since
    }
}

/// One subscription of a client.
struct Subscribed {
    kind: SubscriptionKind,
    held: Held,
    /// The last block that it knows completely.
    knows: BlockId,
    id: String,
    /// Set until the answer is sent.
    request: Option<RequestSubscriptions>,
}

/// One client and its session, if it is connected.
pub(super) struct Client {
    pub(super) session: Option<Rc<Session>>,
    subscribed: Vec<Subscribed>,
    /// Bytes of incomplete frames.
    bytes: Vec<u8>,
    is_closed: bool,
    pub(super) notified: usize,
}

impl Client {
    pub(super) fn new(world: &World) -> Self {
        Self {
            session: Some(world.session()),
            subscribed: Vec::new(),
            bytes: Vec::new(),
            is_closed: false,
            notified: 0,
        }
    }

    pub(super) fn is_away(&self) -> bool {
        self.is_closed || self.session.is_none()
    }

    /// Reads and subscribes at one snapshot.
    pub(super) fn subscribe(
        &mut self,
        kind: SubscriptionKind,
        snapshot: &Arc<Snapshot>,
    ) -> Result<(), String> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        let request = RequestSubscriptions::new(Rc::clone(session));
        let id = request.subscribe(kind.clone(), None, snapshot);
        self.subscribed.push(Subscribed {
            held: Held::read(&kind, snapshot),
            kind,
            knows: super::held::id(snapshot.head()),
            id: id.map_err(|error| format!("{error:?}"))?,
            request: Some(request),
        });
        Ok(())
    }

    /// Sends the answers that are still to be sent.
    pub(super) fn answer(&mut self) {
        for subscribed in &mut self.subscribed {
            if let Some(request) = subscribed.request.take() {
                request.answered();
            }
        }
    }

    /// Loses the answer to the last subscription, if it was not sent.
    pub(super) fn lose_answer(&mut self) {
        if self
            .subscribed
            .last()
            .is_some_and(|last| last.request.is_some())
        {
            self.subscribed.pop();
        }
    }

    /// Ends a subscription once everything was read: no notification may follow.
    pub(super) fn unsubscribe(&mut self, rng: &mut Rng) -> Result<(), String> {
        let Some(session) = self.session.clone() else {
            return Ok(());
        };
        if self.subscribed.is_empty() || !self.read(usize::MAX, None)? {
            return Ok(());
        }
        let ended = self.subscribed.remove(rng.below(self.subscribed.len()));
        let request = RequestSubscriptions::new(session);
        match request.unsubscribe(&ended.id) && !request.unsubscribe(&ended.id) {
            true => Ok(()),
            false => Err("it does not end exactly once".to_owned()),
        }
    }

    /// Reads up to `most` bytes and returns whether nothing is left. With `served`, each new head
    /// must be canonical in it.
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
            self.receive(&payload, served)?;
        }
        Ok(left > 0 && !session.subscriptions.is_behind())
    }

    fn receive(&mut self, payload: &[u8], served: Option<&Snapshot>) -> Result<(), String> {
        let message: Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        let params = &message["params"];
        let mut all = self.subscribed.iter_mut();
        let subscribed = all.find(|subscribed| params["subscription"] == subscribed.id.as_str());
        let subscribed = subscribed.ok_or("there is no such subscription")?;
        if subscribed.request.is_some() {
            return Err("notified before it knows the id".to_owned());
        }
        let result = &params["result"];
        subscribed.held.apply(result)?;
        self.notified += 1;
        let (block, is_whole) = block_of(&subscribed.kind, result).ok_or("no such block")?;
        let is_served = |served: &Snapshot| served.is_canonical(&block);
        if subscribed.kind == SubscriptionKind::NewHeads && !served.is_none_or(is_served) {
            return Err("notified of a head that is not served".to_owned());
        }
        subscribed.knows = if is_whole {
            id(&block)
        } else {
            (block.number() - 1, block.header.parent_hash)
        };
        Ok(())
    }

    /// Disconnects without a close frame.
    pub(super) fn leave(&mut self) {
        self.subscribed
            .iter_mut()
            .for_each(|subscribed| subscribed.request = None);
        self.session = None;
    }

    /// Reconnects and resumes each subscription after the last block that it knows; lost ones start
    /// again.
    pub(super) fn come_back(
        &mut self,
        world: &World,
        snapshot: &Arc<Snapshot>,
    ) -> Result<(), String> {
        self.leave();
        self.bytes.clear();
        self.is_closed = false;
        let session = world.session();
        for subscribed in &mut self.subscribed {
            let request = RequestSubscriptions::new(Rc::clone(&session));
            let (number, hash) = subscribed.knows;
            let kind = || subscribed.kind.clone();
            subscribed.id = match request.subscribe(kind(), Some(hash), snapshot) {
                Ok(id) => {
                    subscribed.held.truncate(number);
                    id
                }
                Err(RpcError::ResumeLost { number, hash }) => {
                    let oldest = &snapshot.canonical()[0];
                    if (number, hash) != id(oldest) || !world.is_lost(&subscribed.knows.1, snapshot)
                    {
                        return Err(format!(
                            "{:?} is not lost, oldest {number}",
                            subscribed.knows
                        ));
                    }
                    subscribed.held = Held::read(&subscribed.kind, snapshot);
                    subscribed.knows = id(snapshot.head());
                    let restarted = request.subscribe(kind(), None, snapshot);
                    restarted.map_err(|error| format!("{error:?}"))?
                }
                Err(error) => return Err(format!("{error:?}")),
            };
            subscribed.request = Some(request);
        }
        self.session = Some(session);
        Ok(())
    }

    /// Checks that it holds what is answered from the snapshot.
    pub(super) fn check_answers(&self, snapshot: &Snapshot) -> Result<(), String> {
        let mut all = self.subscribed.iter();
        all.try_for_each(|subscribed| subscribed.held.check_answers(snapshot))
    }

    /// Checks that it holds what the snapshot holds.
    pub(super) fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        let mut started = self
            .subscribed
            .iter()
            .filter(|subscribed| subscribed.request.is_none());
        started.try_for_each(|subscribed| subscribed.held.check(&subscribed.kind, snapshot))
    }
}

/// Takes the first whole frame.
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
