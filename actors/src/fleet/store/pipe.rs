//! Calls of many callers on one connection. Those that wait are sent together, so that thousands of
//! small calls a second need no more connections.
//!
//! A thread of its own sends them: workers only put them into a queue, which has a bound in bytes.
//! While the store does not answer, one call at a time tries it, and all others are refused at
//! once: callers may hold what other requests need.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nearhead_fleet::bounds::{
    CALL_TIME_MAX, FILTER_CALLS_AT_ONCE, FILTER_CALLS_AT_ONCE_KIB, FILTER_CALLS_KIB_MAX,
    FILTER_MOVE_TIME_MAX, RECONNECT_PAUSE, REPLY_BYTES_MAX,
};
use redis::{Cmd, Value};
use tokio::{
    runtime::Builder,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time,
};

use super::{
    StoreError, StoreFault, StoreOptions,
    connect::Connector,
    line::Line,
    millis,
    script::{KnownScript, ScriptCall},
};

/// A call of a script.
pub(super) struct PipeCall {
    pub(super) script: &'static KnownScript,
    pub(super) keys: Vec<String>,
    pub(super) args: Vec<Vec<u8>>,
    /// Bytes of the longest answer.
    pub(super) bytes_max: usize,
}

/// An answer, with the server that gave it, and when it came.
pub(super) type PipeAnswer = Result<(Arc<str>, Value, Instant), StoreError>;

/// What became of calls.
#[derive(Debug, Default)]
pub struct PipeCounts {
    answered: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    given_up: AtomicU64,
}

impl PipeCounts {
    /// Each with its name in metrics: answered; failed; refused, because the store did not answer
    /// before or too many calls waited; given up, after many tries.
    #[must_use]
    pub fn by_outcome(&self) -> [(&'static str, u64); 4] {
        let Self {
            answered,
            failed,
            refused,
            given_up,
        } = self;
        [
            ("answered", answered),
            ("failed", failed),
            ("refused", refused),
            ("given_up", given_up),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// What the callers and the thread share.
#[derive(Debug)]
struct Shared {
    started: Instant,
    /// Whether the last exchange has failed.
    is_away: AtomicBool,
    /// When the next call may try a store that is away, in milliseconds since the start.
    try_at: AtomicU64,
    counts: Arc<PipeCounts>,
}

/// A call in the queue.
struct Queued {
    call: PipeCall,
    kib: u32,
    answer: oneshot::Sender<PipeAnswer>,
    /// Until when it is tried again, whether somebody waits or not; `None` if it is sent once, and
    /// for somebody who waits.
    repeat_until: Option<Instant>,
    _room: OwnedSemaphorePermit,
}

/// Where calls are put; clones share its thread, which ends with the last one.
#[derive(Clone)]
pub(super) struct Pipe {
    calls: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
    shared: Arc<Shared>,
    name: Arc<str>,
}

impl Pipe {
    /// Starts the thread. The store is connected to when it is needed.
    ///
    /// # Errors
    /// An option cannot be used, or the system has no thread left.
    pub(super) fn start(
        options: &StoreOptions,
        thread_name: &str,
        counts: Arc<PipeCounts>,
    ) -> Result<Self, StoreError> {
        let line = Line::new(Arc::new(Connector::new(options)?));
        let name = line.name();
        let no_thread = |error: std::io::Error| {
            let fault = StoreFault::Unreachable(error.to_string().into());
            StoreError::new("".into(), fault)
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(no_thread)?;
        let room = FILTER_CALLS_KIB_MAX as usize;
        // Each call takes a KiB of the room at least: there is a place for each that has room.
        let (calls, queue) = mpsc::channel(room);
        let shared = Arc::new(Shared {
            started: Instant::now(),
            is_away: AtomicBool::new(false),
            try_at: AtomicU64::new(0),
            counts,
        });
        let sender = Sending {
            line,
            queue,
            again: VecDeque::new(),
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new().name(thread_name.to_owned());
        thread
            .spawn(move || runtime.block_on(sender.run()))
            .map_err(no_thread)?;
        Ok(Self {
            calls,
            room: Arc::new(Semaphore::new(room)),
            shared,
            name,
        })
    }

    /// Puts a call into the queue, behind those that are there.
    ///
    /// # Errors
    /// It is not sent: the store did not answer before, or too many calls wait.
    pub(super) fn put(
        &self,
        call: PipeCall,
        repeat_until: Option<Instant>,
    ) -> Result<oneshot::Receiver<PipeAnswer>, StoreError> {
        if repeat_until.is_none() && !self.shared.may_try() {
            return Err(self.refuse());
        }
        let bytes: usize = call.args.iter().map(Vec::len).sum();
        let kib = u32::try_from((bytes + call.bytes_max) >> 10).unwrap_or(u32::MAX);
        let kib = kib.saturating_add(1);
        let room = Arc::clone(&self.room).try_acquire_many_owned(kib);
        let room = room.map_err(|_| self.refuse())?;
        let (answer, answered) = oneshot::channel();
        let queued = Queued {
            call,
            kib,
            answer,
            repeat_until,
            _room: room,
        };
        self.calls.try_send(queued).map_err(|_| self.refuse())?;
        Ok(answered)
    }

    /// Puts a call into the queue, and waits for its answer no longer than `limit`.
    ///
    /// # Errors
    /// Whatever keeps the answer away. The call may have been made, unless the fault is
    /// [`StoreFault::NotAsked`].
    pub(super) async fn ask(&self, call: PipeCall, limit: Duration) -> PipeAnswer {
        self.wait(self.put(call, None)?, limit).await
    }

    /// Waits for an answer no longer than `limit`.
    pub(super) async fn wait(
        &self,
        answered: oneshot::Receiver<PipeAnswer>,
        limit: Duration,
    ) -> PipeAnswer {
        let fault = match time::timeout(limit, answered).await {
            Ok(Ok(answer)) => return answer,
            // The thread has ended, or has given it up.
            Ok(Err(_)) => StoreFault::Unreachable("the call was given up".into()),
            Err(_) => StoreFault::TimedOut(limit),
        };
        Err(StoreError::new(Arc::clone(&self.name), fault))
    }

    /// Waits until no call waits any more, as long as one may take.
    pub(super) async fn settle(&self) {
        let all = self.room.acquire_many(FILTER_CALLS_KIB_MAX);
        if time::timeout(CALL_TIME_MAX, all).await.is_err() {
            tracing::debug!("the fleet's store does not answer: some calls are given up");
        }
    }

    fn refuse(&self) -> StoreError {
        self.shared.counts.refused.fetch_add(1, Ordering::Relaxed);
        let fault = StoreFault::NotAsked(Duration::ZERO);
        StoreError::new(Arc::clone(&self.name), fault)
    }
}

impl Shared {
    /// Whether a call may be sent: while the store is away, one of all tries it now and then.
    fn may_try(&self) -> bool {
        if !self.is_away.load(Ordering::Relaxed) {
            return true;
        }
        let now = millis(self.started.elapsed());
        let at = self.try_at.load(Ordering::Relaxed);
        let next = now.saturating_add(millis(RECONNECT_PAUSE));
        now >= at
            && (self.try_at)
                .compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// What the thread has.
struct Sending {
    line: Line,
    queue: mpsc::Receiver<Queued>,
    /// Calls that have failed and are tried again, before all others.
    again: VecDeque<Queued>,
    shared: Arc<Shared>,
}

impl Sending {
    async fn run(mut self) {
        loop {
            let next = match self.again.is_empty() {
                true => self.queue.recv().await,
                false => match time::timeout(RECONNECT_PAUSE, self.queue.recv()).await {
                    Ok(next) => next,
                    Err(_) => {
                        let batch = self.batch(None);
                        self.exchange(batch).await;
                        continue;
                    }
                },
            };
            let is_last = next.is_none();
            let batch = self.batch(next);
            self.exchange(batch).await;
            if is_last {
                return;
            }
        }
    }

    /// The calls that are sent next: those that are tried again, then those that wait.
    fn batch(&mut self, next: Option<Queued>) -> Vec<Queued> {
        self.again.extend(next);
        let (mut batch, mut kib) = (Vec::new(), 0);
        let now = Instant::now();
        while batch.len() < FILTER_CALLS_AT_ONCE && kib < FILTER_CALLS_AT_ONCE_KIB {
            let next = self.again.pop_front();
            let Some(next) = next.or_else(|| self.queue.try_recv().ok()) else {
                break;
            };
            match next.repeat_until {
                Some(until) if until <= now => {
                    tracing::debug!("a call to the fleet's store is given up");
                    self.shared.counts.given_up.fetch_add(1, Ordering::Relaxed);
                }
                // Nobody waits for it any more.
                None if next.answer.is_closed() => {}
                _ => {
                    kib += next.kib;
                    batch.push(next);
                }
            }
        }
        batch
    }

    /// Sends calls, and passes their answers on.
    async fn exchange(&mut self, batch: Vec<Queued>) {
        if batch.is_empty() {
            return;
        }
        let mut answers = self.ask(&batch, true).await;
        // A store that was started again does not know the scripts.
        let is_unknown = |answer: &Result<_, StoreError>| {
            let fault = answer.as_ref().err().map(StoreError::fault);
            fault == Some(&StoreFault::UnknownScript)
        };
        if answers.iter().any(is_unknown) {
            let (mut unknown, mut places) = (Vec::new(), Vec::new());
            for (at, queued) in batch.iter().enumerate() {
                if is_unknown(&answers[at]) {
                    unknown.push(queued);
                    places.push(at);
                }
            }
            let again = self.ask(&unknown, false).await;
            for (at, answer) in places.into_iter().zip(again) {
                answers[at] = answer;
            }
        }
        let received = Instant::now();
        // One that refuses a command has answered.
        let is_silent = |answer: &Result<_, StoreError>| {
            (answer.as_ref().err()).is_some_and(|error| !error.fault().keeps_connection())
        };
        let is_away = answers.iter().all(is_silent);
        self.shared.is_away.store(is_away, Ordering::Relaxed);
        let counts = &self.shared.counts;
        for (queued, answer) in batch.into_iter().zip(answers).rev() {
            match answer {
                Ok((server, value)) => {
                    counts.answered.fetch_add(1, Ordering::Relaxed);
                    // Sending fails if nobody waits.
                    let _ = queued.answer.send(Ok((server, value, received)));
                }
                Err(error) => {
                    counts.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(%error, "a call about a filter has failed");
                    match queued.repeat_until {
                        Some(_) => self.again.push_front(queued),
                        None => drop(queued.answer.send(Err(error))),
                    }
                }
            }
        }
    }

    /// The answers to calls, by the scripts' hashes or with their text.
    async fn ask(
        &self,
        batch: &[impl std::borrow::Borrow<Queued>],
        is_known: bool,
    ) -> Vec<Result<(Arc<str>, Value), StoreError>> {
        let calls = batch.iter().map(|queued| &queued.borrow().call);
        let bytes_max = calls.clone().map(|call| call.bytes_max).sum::<usize>() + REPLY_BYTES_MAX;
        let commands = calls.map(|call| call.command(is_known)).collect();
        let mut asked = pin!(self.line.ask_all(commands, bytes_max, FILTER_MOVE_TIME_MAX));
        let answered = match time::timeout(CALL_TIME_MAX, asked.as_mut()).await {
            Ok(answered) => answered,
            Err(_) => {
                // Most callers have left: no others need wait.
                self.shared.is_away.store(true, Ordering::Relaxed);
                asked.await
            }
        };
        match answered {
            Ok((server, answers)) => answers
                .into_iter()
                .map(|answer| match answer {
                    Ok(value) => Ok((Arc::clone(&server), value)),
                    Err(fault) => Err(StoreError::new(Arc::clone(&server), fault)),
                })
                .collect(),
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

impl PipeCall {
    fn command(&self, is_known: bool) -> Cmd {
        let keys: Vec<&String> = self.keys.iter().collect();
        let call = ScriptCall::new(self.script, &keys);
        let call = (self.args.iter()).fold(call, |call, arg| call.bytes(arg));
        call.command(is_known)
    }
}
