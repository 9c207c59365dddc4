//! The filters of clients, which all processes of a fleet answer.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use alloy_primitives::Bytes;
use nearhead_fleet::{
    bounds::{
        CALL_TIME_MAX, FILTER_BESIDES, FILTER_CRITERIA_BYTES_MAX, FILTER_KEPT,
        FILTER_MOVE_TIME_MAX, FILTER_NAMES_TIDIED, FILTER_NOTED_EVERY, FILTER_PLACE_BYTES_MAX,
        FILTER_RETURN_MAX, FILTER_SIZES, STORED_FILTERS_BYTES_MAX,
        STORED_FILTERS_BYTES_PER_TENANT_MAX, STORED_FILTERS_MAX, STORED_FILTERS_PER_TENANT_MAX,
    },
    filter::FilterName,
    scripts::{self, FilterMade, FilterMoved},
};
use redis::Value;
use tokio::sync::oneshot;

use super::{
    StoreError, StoreFault, StoreOptions, key_of, millis,
    pipe::{Pipe, PipeAnswer, PipeCall, PipeCounts},
    reply,
    script::{KnownScript, parsed},
};

static MAKE: KnownScript = KnownScript::new(scripts::MAKE_FILTER);
static READ: KnownScript = KnownScript::new(scripts::READ_FILTER);
static MOVE: KnownScript = KnownScript::new(scripts::MOVE_FILTER);
static DROP: KnownScript = KnownScript::new(scripts::DROP_FILTER);

/// Bytes of an answer besides what records are in it.
const FRAME_BYTES: usize = 256;

/// The clock of the store is not known.
const NO_CLOCK: i64 = i64::MIN;

/// A filter as the store has it. Nothing is checked: others may have written it.
#[derive(Clone, Debug)]
pub struct FilterRead {
    /// Its place; empty if there is no filter.
    pub place: Bytes,
    /// What it is for; empty if there is none, or if that was not asked for.
    pub criteria: Bytes,
    /// The store's clock, in milliseconds since 1970.
    pub now: u64,
}

/// The filters in the store of a fleet; clones share a thread and its connection.
#[derive(Clone)]
pub struct FilterStore {
    pipe: Pipe,
    prefix: Arc<str>,
    /// The store's clock in milliseconds since 1970 when `started` was, or [`NO_CLOCK`].
    clock: Arc<AtomicI64>,
    started: Instant,
}

impl fmt::Debug for FilterStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("FilterStore")
            .field(&self.prefix)
            .finish()
    }
}

/// The way of a filter back to a place; it goes on if this is dropped.
#[must_use = "the way back goes on by itself, but nobody waits for it"]
pub struct FilterReturn {
    pipe: Pipe,
    answered: oneshot::Receiver<PipeAnswer>,
}

impl FilterReturn {
    /// Waits until the filter is back, or as long as a call may take.
    pub async fn made(self) {
        let Self { pipe, answered } = self;
        if let Err(error) = pipe.wait(answered, CALL_TIME_MAX).await {
            tracing::debug!(%error, "a filter is not back in its place yet");
        }
    }
}

impl FilterStore {
    /// The filters in the store with these options, which is connected to when it is needed.
    ///
    /// # Errors
    /// An option cannot be used, or the system has no thread left.
    pub fn open(options: &StoreOptions, counts: Arc<PipeCounts>) -> Result<Self, StoreError> {
        Ok(Self {
            pipe: Pipe::start(options, "filters", counts)?,
            prefix: options.prefix.as_str().into(),
            clock: Arc::new(AtomicI64::new(NO_CLOCK)),
            started: Instant::now(),
        })
    }

    fn key(&self, name: &str) -> String {
        key_of(&self.prefix, name)
    }

    /// The key of a filter, and those of the names by which it is counted.
    fn keys(&self, name: &FilterName) -> Vec<String> {
        let of_all = FILTER_SIZES.map(|size| self.key(&format!("filters:{size}")));
        let tenant = name.tenant();
        let of_tenant = FILTER_SIZES.map(|size| self.key(&format!("filters:{tenant}:{size}")));
        let own = [self.key(&name.key())];
        own.into_iter().chain(of_all).chain(of_tenant).collect()
    }

    /// Adds a filter.
    ///
    /// # Errors
    /// The store did not answer as it should. The filter may have been added even so.
    pub async fn make(
        &self,
        name: &FilterName,
        criteria: &[u8],
        place: &[u8],
    ) -> Result<FilterMade, StoreError> {
        let mut args = vec![
            name.member().into_bytes(),
            criteria.to_vec(),
            place.to_vec(),
        ];
        args.extend([FILTER_BESIDES, millis(FILTER_KEPT), FILTER_NAMES_TIDIED].map(number));
        args.push(self.key("filter:").into_bytes());
        args.extend(
            [
                STORED_FILTERS_MAX,
                STORED_FILTERS_BYTES_MAX,
                STORED_FILTERS_PER_TENANT_MAX,
                STORED_FILTERS_BYTES_PER_TENANT_MAX,
            ]
            .map(number),
        );
        args.extend(FILTER_SIZES.map(number));
        let call = PipeCall {
            script: &MAKE,
            keys: self.keys(name),
            args,
            bytes_max: FRAME_BYTES,
        };
        let (server, answer, _) = self.pipe.ask(call, CALL_TIME_MAX).await?;
        parsed(server, answer, FilterMade::parse)
    }

    /// Reads a filter, with what it is for if `with_criteria`, and keeps it for longer.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub async fn read(
        &self,
        name: &FilterName,
        with_criteria: bool,
    ) -> Result<FilterRead, StoreError> {
        let numbers = [
            FILTER_CRITERIA_BYTES_MAX as u64,
            FILTER_PLACE_BYTES_MAX as u64,
            FILTER_BESIDES,
            millis(FILTER_KEPT),
            millis(FILTER_NOTED_EVERY),
        ];
        let mut args = vec![name.member().into_bytes(), number(with_criteria.into())];
        args.extend(numbers.map(number));
        args.extend(FILTER_SIZES.map(number));
        let criteria_max = match with_criteria {
            true => FILTER_CRITERIA_BYTES_MAX,
            false => 0,
        };
        let call = PipeCall {
            script: &READ,
            keys: self.keys(name),
            args,
            bytes_max: FILTER_PLACE_BYTES_MAX + criteria_max + FRAME_BYTES,
        };
        let answer = self.pipe.ask(call, CALL_TIME_MAX);
        let (server, value, received) = answer.await?;
        let (now, [place, criteria]) = reply::number_and_strings(value)
            .map_err(|text| StoreError::new(server, StoreFault::Nonsense(text)))?;
        // It was so before the answer came: what this is for happens too early then, not too late.
        let at_start = now.saturating_sub_unsigned(self.since_start(received));
        self.clock.store(at_start, Ordering::Relaxed);
        Ok(FilterRead {
            place,
            criteria,
            now: u64::try_from(now).unwrap_or(0),
        })
    }

    /// Milliseconds from the start to a time.
    fn since_start(&self, at: Instant) -> u64 {
        millis(at.saturating_duration_since(self.started))
    }

    /// The store's clock now, in milliseconds since 1970; `None` before the first read.
    #[must_use]
    pub fn now(&self) -> Option<u64> {
        let at_start = self.clock.load(Ordering::Relaxed);
        let now = at_start.saturating_add_unsigned(self.since_start(Instant::now()));
        u64::try_from(now).ok().filter(|_| at_start != NO_CLOCK)
    }

    /// Moves a filter from one place to the other; whether it was there. It does not move any more
    /// once this has failed for want of an answer, but it may have moved before.
    ///
    /// # Errors
    /// The store did not answer as it should. Unless the fault is [`StoreFault::NotAsked`], the
    /// filter may have moved even so.
    pub async fn advance(
        &self,
        name: &FilterName,
        from: &[u8],
        to: &[u8],
    ) -> Result<bool, StoreError> {
        let not_after = self
            .now()
            .map(|now| now.saturating_add(millis(CALL_TIME_MAX)));
        let call = self.step(name, from, to, not_after);
        let (server, answer, _) = self.pipe.ask(call, FILTER_MOVE_TIME_MAX).await?;
        let moved = parsed(server, answer, FilterMoved::parse)?;
        Ok(moved == FilterMoved::Moved)
    }

    /// Moves a filter back from the place to which it was moved. It is tried for
    /// [`FILTER_RETURN_MAX`], whether somebody waits for it or not; what is asked of the store
    /// after this call is asked later.
    ///
    /// # Errors
    /// Too many calls wait.
    pub fn take_back(
        &self,
        name: &FilterName,
        from: &[u8],
        to: &[u8],
    ) -> Result<FilterReturn, StoreError> {
        let call = self.step(name, from, to, None);
        let until = Instant::now() + FILTER_RETURN_MAX;
        let answered = self.pipe.put(call, Some(until))?;
        Ok(FilterReturn {
            pipe: self.pipe.clone(),
            answered,
        })
    }

    fn step(&self, name: &FilterName, from: &[u8], to: &[u8], not_after: Option<u64>) -> PipeCall {
        PipeCall {
            script: &MOVE,
            keys: vec![self.key(&name.key())],
            args: vec![
                from.to_vec(),
                to.to_vec(),
                not_after.map(number).unwrap_or_default(),
            ],
            bytes_max: FRAME_BYTES,
        }
    }

    /// Removes a filter; returns the place that it had, empty if there was no filter.
    ///
    /// # Errors
    /// The store did not answer as it should. The filter may be gone even so.
    pub async fn remove(&self, name: &FilterName) -> Result<Bytes, StoreError> {
        let call = PipeCall {
            script: &DROP,
            keys: self.keys(name),
            args: vec![
                name.member().into_bytes(),
                number(FILTER_PLACE_BYTES_MAX as u64),
            ],
            bytes_max: FILTER_PLACE_BYTES_MAX + FRAME_BYTES,
        };
        let answer = self.pipe.ask(call, CALL_TIME_MAX);
        match answer.await? {
            (_, Value::BulkString(place), _) => Ok(place.into()),
            (server, ..) => {
                let fault = StoreFault::Nonsense("something else than a place".into());
                Err(StoreError::new(server, fault))
            }
        }
    }

    /// Waits until no call is on its way any more, as long as one may take.
    pub async fn settle(&self) {
        self.pipe.settle().await;
    }
}

fn number(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}
