//! What bounds how much of something is under way.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::messages::{QueryError, Reply};

/// The right to have one request, or so many bytes or keys of it, under way; given back when it is
/// dropped.
pub type Permit = OwnedSemaphorePermit;

/// A bounded amount of something that is under way.
#[derive(Clone, Debug)]
pub struct Permits {
    free: Arc<Semaphore>,
    most: u32,
}

impl Permits {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            most: u32::try_from(most).unwrap_or(u32::MAX),
        }
    }

    /// `weight` permits, or all there are if `weight` is more; nobody waits.
    ///
    /// # Errors
    /// [`QueryError::Unavailable`]: not that many are free.
    pub fn take(&self, weight: usize) -> Reply<Permit> {
        let weight = u32::try_from(weight)
            .unwrap_or(u32::MAX)
            .clamp(1, self.most);
        Arc::clone(&self.free)
            .try_acquire_many_owned(weight)
            .map_err(|_| QueryError::Unavailable)
    }

    /// How many are free.
    #[must_use]
    pub fn available(&self) -> usize {
        self.free.available_permits()
    }

    /// How many are taken.
    #[must_use]
    pub fn in_use(&self) -> usize {
        (self.most as usize).saturating_sub(self.available())
    }
}
