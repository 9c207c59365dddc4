//! The bound on the large answers of an upstream that are in memory.

use std::{collections::HashMap, ops::Deref, sync::Arc};

use alloy_json_rpc::Id;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Longest answer in bytes that is not large.
pub(super) const SMALL_MAX: usize = 4 << 20;

/// Large answers of one upstream that are held at a time, from when most of it is read until the
/// verifier has taken it: an upstream may send nothing else.
const LARGE_ANSWERS_MAX: usize = 2;

/// The permits for large answers, and the calls on one connection that wait for theirs.
#[derive(Debug)]
pub(super) struct LargeAnswers {
    permits: Arc<Semaphore>,
    /// By the id of the call; with the permit once its answer has one.
    calls: Mutex<HashMap<Id, Option<OwnedSemaphorePermit>>>,
}

/// A call in progress. Dropping it gives its permit back.
pub(super) struct ExpectedAnswer<'a> {
    large: &'a LargeAnswers,
    id: Id,
}

/// An answer as an upstream gave it. If it is large, it holds a permit.
#[derive(Debug)]
pub(crate) struct JsonAnswer {
    json: Box<RawValue>,
    permit: Option<OwnedSemaphorePermit>,
}

impl LargeAnswers {
    pub(super) fn new() -> Self {
        Self::with(Arc::new(Semaphore::new(LARGE_ANSWERS_MAX)))
    }

    /// The same permits for another connection, on which ids begin again.
    pub(super) fn of_next_connection(&self) -> Self {
        Self::with(Arc::clone(&self.permits))
    }

    fn with(permits: Arc<Semaphore>) -> Self {
        Self {
            permits,
            calls: Mutex::default(),
        }
    }

    /// Begins a call.
    pub(super) fn register(&self, id: Id) -> ExpectedAnswer<'_> {
        self.calls.lock().insert(id.clone(), None);
        ExpectedAnswer { large: self, id }
    }

    /// Waits for a permit.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.permits).acquire_owned().await.ok()
    }

    /// Gives the permit to a call, until its answer is dropped; ends it if nobody waits any more.
    pub(super) fn give(&self, id: &Id, permit: Option<OwnedSemaphorePermit>) {
        if let Some(call) = self.calls.lock().get_mut(id) {
            *call = permit;
        }
    }
}

impl ExpectedAnswer<'_> {
    /// The answer with its permit, if it has one.
    pub(super) fn answered(self, json: Box<RawValue>) -> JsonAnswer {
        let permit = self.large.calls.lock().remove(&self.id).flatten();
        JsonAnswer { json, permit }
    }
}

impl Drop for ExpectedAnswer<'_> {
    fn drop(&mut self) {
        self.large.calls.lock().remove(&self.id);
    }
}

impl JsonAnswer {
    /// The answer, once it is counted elsewhere or about to be dropped.
    pub(crate) fn into_json(self) -> Box<RawValue> {
        drop(self.permit);
        self.json
    }
}

impl Deref for JsonAnswer {
    type Target = RawValue;

    fn deref(&self) -> &RawValue {
        &self.json
    }
}
