//! Looks once whether the store suits a fleet.

use std::time::Duration;

use tokio::time;

use super::store::{FleetStore, StoreFault};

/// Pause before a store that did not answer is asked again.
const PAUSE: Duration = Duration::from_secs(10);

/// Asks the store what it is until it answers, and logs what is wrong with it. It says nothing of a
/// store that is away: each call that needs it does.
pub(super) async fn check_store(store: FleetStore) {
    let checks = loop {
        match store.checks().await {
            Ok(checks) => break checks,
            Err(error) if matches!(error.fault(), StoreFault::Denied(_)) => {
                tracing::warn!(%error, "whether the store suits a fleet is not known");
                return;
            }
            Err(_) => time::sleep(PAUSE).await,
        }
    };
    tracing::info!(server = %checks.server, "the fleet's store answers");
    for problem in &checks.problems {
        tracing::warn!(server = %checks.server, %problem, "the store does not suit a fleet");
    }
}
