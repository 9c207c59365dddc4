//! The store of a fleet: Redis 7 or Valkey 8.
//!
//! The protocol's decisions are made by scripts that run there (`nearhead_fleet::scripts`); this
//! module calls them. Each call has a time limit. A call that fails says why, and the next one
//! connects again: a store that is back is used at once.

use std::{fmt, sync::Arc, time::Duration};

use alloy_primitives::Bytes;
use nearhead_fleet::{
    bounds::{ENTRY_BYTES_MAX, EPOCH_LEAP_MAX, EPOCH_MAX, LEASE, LEASE_MAX},
    leader::Append,
    position::Position,
    replica::Report,
    scripts::{
        ACQUIRE, APPEND, Acquired, Appended, RELEASE, RENEW, REPORT, Renewed, Reported,
        UnknownAnswer,
    },
};
use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, aio::MultiplexedConnection, cmd,
};
use tokio::{sync::Mutex, time};

/// Longest wait for a connection, and for an answer: a third of the lease, so that a call that
/// hangs is made again while the lease is valid.
const CALL_MAX: Duration = Duration::from_secs(1);

/// The same for an entry that is sent or read, which may have many megabytes.
const ENTRY_CALL_MAX: Duration = Duration::from_secs(2);

/// Entries of one answer: some ten of a snapshot's parts at most are in memory at a time.
const ENTRIES_AT_ONCE: usize = 8;

/// Where the store is, and as whom to call it.
#[derive(Clone)]
pub struct StoreOptions {
    /// URLs of the store, or of its sentinels. They may have passwords.
    pub urls: Vec<String>,
    /// The name of the master that the sentinels watch.
    pub sentinel: Option<String>,
    /// What the names of all keys begin with.
    pub prefix: String,
    /// Names this process as the holder of the lease; another one at each start.
    pub owner: String,
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("sentinel", &self.sentinel)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Why a call to the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The options cannot be used.
    #[error("{0}")]
    Options(String),
    /// No answer came in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// It cannot be reached, it refused the call, or its answer is none.
    #[error("{0}")]
    Failed(#[from] RedisError),
    /// A script's answer is none that is known.
    #[error(transparent)]
    Unknown(#[from] UnknownAnswer),
}

/// The store. Clones share its connections.
#[derive(Clone, Debug)]
pub struct FleetStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: Client,
    owner: String,
    lease: String,
    fence: String,
    entries: String,
    /// For calls that are answered at once.
    calls: Connection,
    /// For entries that are sent: a large one holds up no renewal.
    appends: Connection,
    /// For reads, which wait.
    reads: Connection,
}

/// A connection, made when it is needed.
#[derive(Debug, Default)]
struct Connection(Mutex<Option<MultiplexedConnection>>);

impl FleetStore {
    /// The store with these options. It is not called yet, and may be away.
    ///
    /// # Errors
    /// [`StoreError::Options`].
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let StoreOptions {
            urls,
            sentinel,
            prefix,
            owner,
        } = options;
        if sentinel.is_some() {
            let reason = "sentinels are not supported yet";
            return Err(StoreError::Options(reason.to_owned()));
        }
        let [url] = &urls[..] else {
            return Err(StoreError::Options("give one URL".to_owned()));
        };
        if url.starts_with("rediss:") {
            return Err(StoreError::Options("TLS is not supported yet".to_owned()));
        }
        // The error would have the URL, with its password.
        let client = Client::open(url.as_str()).map_err(|error| {
            StoreError::Options(format!("the URL is not valid: {:?}", error.kind()))
        })?;
        // All keys are in one slot.
        let key = |name: &str| format!("{{{prefix}}}:{name}");
        Ok(Self(Arc::new(Shared {
            client,
            owner,
            lease: key("lease"),
            fence: key("fence"),
            entries: key("entries"),
            calls: Connection::default(),
            appends: Connection::default(),
            reads: Connection::default(),
        })))
    }

    /// Takes the lease, with an epoch above `seen`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn acquire(&self, seen: u64) -> Result<Acquired, StoreError> {
        let shared = &self.0;
        let mut call = script(ACQUIRE, &[&shared.lease, &shared.fence, &shared.entries]);
        call.arg(&shared.owner)
            .arg(millis(LEASE))
            .arg(seen)
            .arg(millis(LEASE_MAX))
            .arg(EPOCH_MAX)
            .arg(EPOCH_LEAP_MAX);
        let (word, number): (String, i64) = self.call(&shared.calls, &call, CALL_MAX).await?;
        Ok(Acquired::parse(&word, number)?)
    }

    /// Renews the lease of this epoch.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn renew(&self, epoch: u64) -> Result<Renewed, StoreError> {
        let shared = &self.0;
        let mut call = script(RENEW, &[&shared.lease, &shared.fence]);
        call.arg(&shared.owner).arg(millis(LEASE)).arg(epoch);
        let (word, number): (String, i64) = self.call(&shared.calls, &call, CALL_MAX).await?;
        Ok(Renewed::parse(&word, number)?)
    }

    /// Gives the lease of this epoch back.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn release(&self, epoch: u64) -> Result<(), StoreError> {
        let shared = &self.0;
        let mut call = script(RELEASE, &[&shared.lease]);
        call.arg(&shared.owner).arg(epoch);
        let _: (String, i64) = self.call(&shared.calls, &call, CALL_MAX).await?;
        Ok(())
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// [`StoreError`]: the entry may be there all the same.
    pub async fn append(&self, append: &Append) -> Result<Appended, StoreError> {
        let shared = &self.0;
        let Position { epoch, sequence } = append.entry.position;
        let mut call = script(APPEND, &[&shared.lease, &shared.fence, &shared.entries]);
        call.arg(&shared.owner)
            .arg(epoch)
            .arg(sequence)
            .arg(&append.entry.bytes[..])
            .arg(append.keep_from)
            .arg(append.entries_max)
            .arg(u8::from(append.begins_snapshot));
        let (word, number): (String, i64) =
            self.call(&shared.appends, &call, ENTRY_CALL_MAX).await?;
        Ok(Appended::parse(&word, number)?)
    }

    /// The next entries after a place, in their order; none if none comes within `wait`. What has
    /// no place or no bytes is left out: anybody may have written it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read(
        &self,
        after: Position,
        wait: Duration,
    ) -> Result<Vec<(Position, Bytes)>, StoreError> {
        /// A stream's name, and its entries: an id, and names and values in turn.
        type Stream = (String, Vec<(String, Vec<Vec<u8>>)>);
        let shared = &self.0;
        let mut call = cmd("XREAD");
        call.arg("COUNT").arg(ENTRIES_AT_ONCE);
        if !wait.is_zero() {
            call.arg("BLOCK").arg(millis(wait));
        }
        call.arg("STREAMS")
            .arg(&shared.entries)
            .arg(after.to_string());
        let most = wait + ENTRY_CALL_MAX;
        let streams: Option<Vec<Stream>> = self.call(&shared.reads, &call, most).await?;
        let entries = streams
            .into_iter()
            .flatten()
            .flat_map(|(_, entries)| entries);
        let entries = entries.filter_map(|(id, fields)| {
            let bytes = fields.into_iter().nth(1).unwrap_or_default();
            let is_small = bytes.len() <= ENTRY_BYTES_MAX;
            let bytes = if is_small { bytes } else { Vec::new() };
            Some((Position::parse(&id)?, Bytes::from(bytes)))
        });
        Ok(entries.collect())
    }

    /// Reports what this process has seen.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn report(&self, report: Report) -> Result<Reported, StoreError> {
        let shared = &self.0;
        let mut call = script(REPORT, &[&shared.fence]);
        call.arg(report.seen.epoch)
            .arg(report.seen.sequence)
            .arg(u8::from(report.is_forked))
            .arg(u8::from(report.wants_snapshot))
            .arg(EPOCH_MAX);
        let (word, number): (String, i64) = self.call(&shared.calls, &call, CALL_MAX).await?;
        Ok(Reported::parse(&word, number)?)
    }

    /// Makes a call. After one that failed, the next one connects again.
    async fn call<T: FromRedisValue>(
        &self,
        connection: &Connection,
        call: &Cmd,
        most: Duration,
    ) -> Result<T, StoreError> {
        let made = async {
            let mut connected = self.connected(connection).await?;
            call.query_async(&mut connected).await
        };
        let outcome = match time::timeout(most, made).await {
            Ok(outcome) => outcome.map_err(StoreError::from),
            Err(_) => Err(StoreError::Timeout(most)),
        };
        if outcome.is_err() {
            *connection.0.lock().await = None;
        }
        outcome
    }

    async fn connected(
        &self,
        connection: &Connection,
    ) -> Result<MultiplexedConnection, RedisError> {
        let mut slot = connection.0.lock().await;
        if let Some(connected) = &*slot {
            return Ok(connected.clone());
        }
        // `call` limits the time.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CALL_MAX))
            .set_response_timeout(None);
        let client = &self.0.client;
        let made = client.get_multiplexed_async_connection_with_config(&config);
        Ok(slot.insert(made.await?).clone())
    }
}

/// A script with these keys; its arguments follow.
fn script(text: &str, keys: &[&String]) -> Cmd {
    let mut call = cmd("EVAL");
    call.arg(text).arg(keys.len()).arg(keys);
    call
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
