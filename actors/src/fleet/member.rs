//! One process of a fleet: it reads entries and applies them, or leads and appends them.
//!
//! One task decides, and handles one answer after another: what it asks the store and the nodes
//! runs beside it, at most one call of each kind. So the window has one writer at a time: entries
//! are applied only while no node is followed, but for the moment in which a refill by own nodes
//! ends.

mod below;
mod calls;
mod reading;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use nearhead_chain::{block::Block, remote, window::WINDOW_BLOCKS};
use nearhead_fleet::{
    block_id::BlockId,
    bounds::LEASE,
    entry::Settled,
    fleet_key::FleetKey,
    lease::{Lease, LeaseCall, LeaseEvent},
    position::Position,
    replica::Replica,
    scripts::Appended,
};
use parking_lot::Mutex;
use tokio::{sync::oneshot, task, time};

use self::calls::{Answer, CallKind, Calls};
use super::{
    below_window::BelowSchedule,
    entry_bytes::EntryBytes,
    entry_verifier::EntryVerifier,
    event_log::EventLog,
    json_maker::JsonMaker,
    node_follower::{HeadCheck, NodeFollower},
    publisher::Publisher,
    reporter::Reporter,
    status::{FleetStatus, LOST_REASONS, Role},
    store::{FleetStore, StoreError},
    window_update::{WindowUpdate, chain_of},
};
use crate::{
    source::{SourceError, SourceLink},
    upstream::{HeldWindow, Standing, TrackerWindow},
};

/// How often a process looks what is due, if nothing arrives. It is short beside a third of the
/// lease.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Pause before a refill reads on; it doubles until [`reading::PAUSE_MAX`]. Refused entries are
/// read again each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Pause before an entry that the store did not take is sent again: it may be full of memory, and
/// answer at once.
const APPEND_AGAIN: Duration = Duration::from_millis(100);

/// Longest wait for the lease to be given back at the end.
const RELEASE_MAX: Duration = Duration::from_secs(1);

type Blocks = Vec<Arc<Block>>;

/// The reader of the stream. The thread that verifies locks it; nobody waits for it meanwhile.
struct Reader {
    replica: Replica<Blocks>,
    verifier: EntryVerifier,
}

/// What a process of a fleet works with.
pub(super) struct Parts {
    pub(super) store: FleetStore,
    pub(super) key: FleetKey,
    pub(super) link: SourceLink,
    pub(super) window: TrackerWindow,
    pub(super) nodes: NodeFollower,
    pub(super) standing: Arc<Standing>,
    pub(super) status: FleetStatus,
    pub(super) verifier: Arc<remote::Verifier>,
    pub(super) bytes: EntryBytes,
    pub(super) json: JsonMaker,
    /// The hash of the chain's genesis.
    pub(super) genesis: Option<B256>,
}

/// One process of a fleet.
pub(super) struct Member {
    store: FleetStore,
    key: FleetKey,
    link: SourceLink,
    window: TrackerWindow,
    nodes: NodeFollower,
    standing: Arc<Standing>,
    status: FleetStatus,
    bytes: EntryBytes,
    json: JsonMaker,
    reader: Arc<Mutex<Reader>>,
    lease: Lease,
    publisher: Option<Publisher>,
    calls: Calls,
    reporter: Reporter,
    log: EventLog,
    started: Instant,
    append_at: Duration,
    /// It has read the stream to its end.
    has_read: bool,
    read_at: Duration,
    pause: Duration,
    refill_since: Option<Duration>,
    /// An update that leads back, and until when it waits for one that does not.
    leads_back: Option<(WindowUpdate, Duration)>,
    /// The newest block that did not fit an entry.
    unfit: Option<BlockId>,
    /// What is below the window.
    below: BelowSchedule,
    /// The settled blocks of the last entry that was applied.
    settled: Settled,
}

impl Member {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts {
            store,
            key,
            link,
            window,
            nodes,
            standing,
            status,
            verifier,
            bytes,
            json,
            genesis,
        } = parts;
        let below = BelowSchedule::new(store.clone(), key.clone(), Arc::clone(&verifier), genesis);
        let reporter = Reporter::start(store.clone(), status.clone());
        let reader = Reader {
            replica: Replica::new(key.clone(), WINDOW_BLOCKS),
            verifier: EntryVerifier::new(verifier, link.head.clone(), bytes.clone()),
        };
        Self {
            store,
            key,
            link,
            window,
            nodes,
            standing,
            status,
            bytes,
            json,
            reader: Arc::new(Mutex::new(reader)),
            lease: Lease::default(),
            publisher: None,
            calls: Calls::default(),
            reporter,
            log: EventLog::default(),
            started: Instant::now(),
            append_at: Duration::ZERO,
            has_read: false,
            read_at: Duration::ZERO,
            pause: PAUSE_MIN,
            refill_since: None,
            leads_back: None,
            unfit: None,
            below,
            settled: Settled::default(),
        }
    }

    /// Reads entries or leads, until `stop` has a message or its sender is dropped. Then it gives
    /// the lease back.
    ///
    /// # Errors
    /// The head tracker ends, or following nodes has failed.
    pub(super) async fn run(mut self, mut stop: oneshot::Receiver<()>) -> Result<(), SourceError> {
        loop {
            self.step().await?;
            tokio::select! {
                biased;
                _ = &mut stop => break,
                Some(ended) = self.calls.next() => match ended {
                    Ok(answer) => self.receive(answer).await?,
                    Err(kind) => self.panicked(kind).await?,
                },
                () = self.nodes.readable() => {}
                () = time::sleep(LOOK_EVERY) => {}
            }
        }
        self.nodes.end().await?;
        if let Some(publisher) = &self.publisher {
            let release = self.store.release(publisher.epoch());
            match time::timeout(RELEASE_MAX, release).await {
                Ok(Ok(_)) => tracing::info!("the fleet's lease is given back"),
                _ => tracing::warn!("the fleet's lease ends by itself: the store does not answer"),
            }
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Begins all that is due.
    async fn step(&mut self) -> Result<(), SourceError> {
        let now = self.now();
        let event = self.lease.check(now);
        self.note(event).await?;
        let is_agreed = self.standing.agreement().is_reached();
        self.nodes.look(is_agreed, now).await?;
        let epoch = self.reader.lock().replica.epoch();
        self.lease.saw(epoch);
        let is_fresh = self.nodes.are_fresh(now);
        if !is_fresh && self.lease.epoch().is_some() {
            tracing::warn!("no quorum of the nodes answers: another process may lead the fleet");
            self.release(now).await?;
        }
        self.call_lease(now, is_fresh && self.has_read);
        match self.publisher {
            Some(_) => {
                self.reporter.set(None);
                self.append().await?;
            }
            None => self.read_on(now).await?,
        }
        self.look_below(now);
        self.publish_facts();
        Ok(())
    }

    fn call_lease(&mut self, now: Duration, can_lead: bool) {
        let store = self.store.clone();
        match self.lease.call(now, can_lead) {
            None => {}
            Some(LeaseCall::Acquire { seen }) => {
                let acquire = async move { Answer::Acquired(now, store.acquire(seen).await) };
                self.calls.begin(CallKind::Lease, acquire);
            }
            Some(LeaseCall::Renew { epoch }) => {
                let renew = async move { Answer::Renewed(now, store.renew(epoch).await) };
                self.calls.begin(CallKind::Lease, renew);
            }
        }
    }

    /// Sends the next entry, or the one in progress again.
    async fn append(&mut self) -> Result<(), SourceError> {
        let now = self.now();
        if self.calls.is_running(CallKind::Append) || now < self.append_at {
            return Ok(());
        }
        let Some(publisher) = &mut self.publisher else {
            return Ok(());
        };
        let next = publisher.next(now).await;
        let now = self.now();
        // To make an entry has taken time.
        let event = self.lease.check(now);
        if event.is_some() {
            return self.note(event).await;
        }
        match next {
            Ok(None) => Ok(()),
            Ok(Some(append)) => {
                let (store, position) = (self.store.clone(), append.entry.position);
                let append = async move {
                    let answer = store.append(&append).await;
                    Answer::Appended(position, answer)
                };
                self.calls.begin(CallKind::Append, append);
                Ok(())
            }
            Err(error) => match error.unfit() {
                Some(block) => {
                    tracing::error!(%error, "replicas go on above a block");
                    self.unfit = Some(block);
                    let epoch = self.lease.epoch();
                    let event = epoch.and_then(|epoch| self.lease.refused(epoch, None, now));
                    self.note(event).await
                }
                None => {
                    tracing::error!(%error, "this process cannot lead the fleet");
                    self.release(now).await
                }
            },
        }
    }

    /// Gives the lease back, so that another process may lead.
    async fn release(&mut self, now: Duration) -> Result<(), SourceError> {
        if let Some(epoch) = self.lease.epoch() {
            let store = self.store.clone();
            // If it fails, the lease ends by itself.
            task::spawn(async move { store.release(epoch).await.map(drop) });
        }
        let event = self.lease.released(now, LEASE);
        self.note(event).await
    }

    /// Begins or ends to lead.
    async fn note(&mut self, event: Option<LeaseEvent>) -> Result<(), SourceError> {
        match event {
            None => {}
            Some(LeaseEvent::Leads(epoch)) => {
                tracing::info!(epoch, "this process leads the fleet");
                self.status.change(|facts| {
                    facts.leads += 1;
                    facts.epoch = facts.epoch.max(epoch);
                });
                let (key, now) = (self.key.clone(), self.now());
                let (head, bytes) = (self.link.head.clone(), self.bytes.clone());
                let status = self.status.clone();
                let publisher = Publisher::new(key, epoch, head, bytes, status, now);
                self.publisher = Some(publisher.above(self.unfit));
                // What was appended in an epoch that is over does not count.
                self.calls.forget(CallKind::Append);
                self.append_at = now;
                self.refill_since = None;
                self.leads_back = None;
                self.settled = Settled::default();
                self.nodes.begin(now);
            }
            Some(LeaseEvent::Lost(reason)) => {
                tracing::warn!(?reason, "this process no longer leads the fleet");
                self.status.change(|facts| {
                    let at = LOST_REASONS.iter().position(|one| *one == reason);
                    if let Some(count) = at.and_then(|at| facts.lost.get_mut(at)) {
                        *count += 1;
                    }
                });
                self.nodes.end().await?;
                if let Some(publisher) = self.publisher.take() {
                    let own = chain_of(self.window.held().as_deref());
                    let event = self.reader.lock().replica.led(publisher.last(), own);
                    self.log.note(&event, self.started.elapsed());
                    self.read_at = Duration::ZERO;
                    self.pause = PAUSE_MIN;
                }
            }
        }
        Ok(())
    }

    async fn receive(&mut self, answer: Answer) -> Result<(), SourceError> {
        let now = self.now();
        let event = match answer {
            Answer::Acquired(asked_at, Ok(answer)) => {
                let epoch = self.reader.lock().replica.epoch();
                self.lease.saw(epoch);
                self.lease.acquired(asked_at, answer, now)
            }
            Answer::Renewed(asked_at, Ok(answer)) => {
                let (event, is_wanted) = self.lease.renewed(asked_at, answer, now);
                if let Some(publisher) = self.publisher.as_mut().filter(|_| is_wanted) {
                    publisher.want_snapshot();
                }
                event
            }
            Answer::Acquired(_, Err(error)) | Answer::Renewed(_, Err(error)) => {
                self.failed(&error, now);
                self.lease.failed(now)
            }
            Answer::Appended(position, answer) => self.appended(position, answer, now),
            Answer::Entries(entries) => {
                match entries {
                    Ok(_) if self.publisher.is_some() => {}
                    Ok(entries) => self.read(entries).await?,
                    Err(error) => {
                        self.failed(&error, now);
                        self.slow_down(now);
                        self.status.change(|facts| {
                            facts.lags_since.get_or_insert_with(Instant::now);
                        });
                    }
                }
                None
            }
            Answer::Below(answer) => {
                self.read_below(answer, now).await?;
                None
            }
            Answer::Checked(answer) => {
                self.checked(answer, now);
                None
            }
        };
        self.note(event).await
    }

    /// A call has panicked, which is a defect: it counts as one that has failed, and is made again.
    async fn panicked(&mut self, kind: CallKind) -> Result<(), SourceError> {
        tracing::error!(?kind, "a call of the fleet panicked");
        let now = self.now();
        match kind {
            CallKind::Lease => {
                let event = self.lease.failed(now);
                return self.note(event).await;
            }
            CallKind::Append => self.append_at = now + APPEND_AGAIN,
            CallKind::Read => self.slow_down(now),
            CallKind::Below => self.below.ended(true),
            CallKind::Check => {}
        }
        Ok(())
    }

    fn appended(
        &mut self,
        position: Position,
        answer: Result<Appended, StoreError>,
        now: Duration,
    ) -> Option<LeaseEvent> {
        let publisher = self
            .publisher
            .as_mut()
            .filter(|publisher| publisher.epoch() == position.epoch)?;
        let newest = match answer {
            Ok(Appended::Appended(is_wanted)) => {
                publisher.appended(position, is_wanted);
                return None;
            }
            Ok(Appended::Fenced(newest)) => Some(newest),
            Ok(Appended::Gap | Appended::Blocked) => None,
            // It is sent again, as long as the lease is valid.
            Err(error) => {
                self.append_at = now + APPEND_AGAIN;
                self.failed(&error, now);
                return None;
            }
        };
        self.lease.refused(position.epoch, newest, now)
    }

    fn checked(&mut self, answer: Result<HeadCheck, String>, now: Duration) {
        match answer {
            Ok(check) => {
                self.nodes.answered(now);
                self.status.change(|facts| {
                    let at = HeadCheck::ALL.iter().position(|one| *one == check);
                    if let Some(count) = at.and_then(|at| facts.head_checks.get_mut(at)) {
                        *count += 1;
                    }
                });
                if check == HeadCheck::Other {
                    self.log.other_head(now);
                }
            }
            Err(error) => self.log.node_failed(&error, now),
        }
    }

    fn failed(&mut self, error: &StoreError, now: Duration) {
        self.status.change(|facts| facts.store_failures += 1);
        self.log.store_failed(error, now);
    }

    fn publish_facts(&self) {
        let (counters, epoch, applied, unknown_version, records) = {
            let replica = &self.reader.lock().replica;
            (
                *replica.counters(),
                replica.epoch(),
                replica.seen(),
                replica.unknown_version(),
                replica.records(),
            )
        };
        let role = match (&self.publisher, self.nodes.are_followed()) {
            (Some(_), _) => Role::Leader,
            (None, true) => Role::OwnNodes,
            (None, false) => Role::Replica,
        };
        self.status.change(|facts| {
            facts.role = role;
            facts.epoch = facts.epoch.max(epoch);
            facts.counters = counters;
            facts.applied = applied;
            facts.unknown_version = unknown_version;
            facts.records_stated = facts.records_stated.max(records);
            if role == Role::Leader {
                facts.received = 0;
                facts.lags_since = None;
            }
        });
    }
}
