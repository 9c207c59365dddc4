//! Who is there: what processes write of themselves.

use std::time::Duration;

use alloy_primitives::Bytes;
use nearhead_fleet::{
    bounds::{
        CALL_TIME_MAX, PRESENCE_BYTES_MAX, PRESENCE_MAX, PRESENCE_REPLY_BYTES_MAX, PROCESSES_MAX,
    },
    scripts,
};

use super::{
    FleetStore, StoreError, StoreFault, millis, reply,
    script::{KnownScript, ScriptCall, ask},
};

static PRESENT: KnownScript = KnownScript::new(scripts::PRESENT);

impl FleetStore {
    /// Writes what this process is, which counts for so long, or that it ends (`record` is empty);
    /// returns what all processes have written. What is too long for a record is empty.
    ///
    /// # Errors
    /// The store did not answer as it should. The record may have been written even so.
    pub async fn present(&self, record: &[u8], counts: Duration) -> Result<Vec<Bytes>, StoreError> {
        let call = ScriptCall::new(&PRESENT, &[&self.0.keys.processes])
            .bytes(self.0.owner.as_bytes())
            .bytes(record)
            .number(millis(counts.min(PRESENCE_MAX)))
            .number(millis(PRESENCE_MAX))
            .number(PROCESSES_MAX as u64)
            .number(PRESENCE_BYTES_MAX as u64);
        let bytes_max = PRESENCE_REPLY_BYTES_MAX;
        let (server, answer) = ask(&self.0.presence, &call, bytes_max, CALL_TIME_MAX).await?;
        reply::strings(answer, PRESENCE_BYTES_MAX)
            .map_err(|text| StoreError::new(server, StoreFault::Nonsense(text)))
    }

    /// Who this process is: random, and another one at each start.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.0.owner
    }
}
