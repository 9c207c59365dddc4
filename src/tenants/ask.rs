//! Asks the tenants' actor something, and does not wait for a disk that hangs.

use std::time::Duration;

use actix::{Addr, Handler, Message};
use tokio::time::timeout;

use super::{store_state::StoreState, tenants_actor::TenantsActor};

/// Longest wait for the store. The largest operations take a second, and many may wait for their
/// turn; a disk that hangs answers none.
const STORE_WAIT_MAX: Duration = Duration::from_secs(30);

/// Why the tenants' actor gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Its disk is known to hang, so it was not asked.
    #[error("the disk of the store does not answer")]
    DiskHangs,
    /// It was asked, and may still do it.
    #[error("the store has not answered in time")]
    IsLate,
    /// The service is stopping.
    #[error("the service is stopping")]
    Stopping,
}

impl StoreState {
    /// Asks the actor whose store this is.
    ///
    /// # Errors
    /// There is no answer.
    pub(crate) async fn ask<M>(
        &self,
        tenants: &Addr<TenantsActor>,
        message: M,
    ) -> Result<M::Result, NoAnswer>
    where
        M: Message<Result: Send> + Send + 'static,
        TenantsActor: Handler<M>,
    {
        if self.hangs() {
            return Err(NoAnswer::DiskHangs);
        }
        let answer = timeout(STORE_WAIT_MAX, tenants.send(message)).await;
        let answer = answer.map_err(|_| NoAnswer::IsLate)?;
        answer.map_err(|_| NoAnswer::Stopping)
    }
}
