//! Calls about what a leader says of blocks below its window.

use alloy_primitives::Bytes;
use nearhead_fleet::bounds::{BELOW_BYTES_MAX, CALL_TIME_MAX, REPLY_BYTES_MAX};
use redis::Value;

use super::{FleetStore, StoreError, StoreFault};

impl FleetStore {
    /// Writes what this leader says of blocks below its window, in place of what was there.
    ///
    /// # Errors
    /// The store did not answer as it should. It may have been written even so.
    pub async fn put_below(&self, record: &[u8]) -> Result<(), StoreError> {
        let mut command = redis::cmd("SET");
        command.arg(&self.0.keys.below).arg(record);
        let put = self.0.puts.ask(command, REPLY_BYTES_MAX, CALL_TIME_MAX);
        put.await.map(drop)
    }

    /// What a leader has written of blocks below its window; empty if there is nothing. Others may
    /// have written it.
    ///
    /// # Errors
    /// The store did not answer as it should, or something else than bytes is there.
    pub async fn below(&self) -> Result<Bytes, StoreError> {
        let mut command = redis::cmd("GETRANGE");
        command
            .arg(&self.0.keys.below)
            .arg(0)
            .arg(BELOW_BYTES_MAX - 1);
        let bytes_max = BELOW_BYTES_MAX + REPLY_BYTES_MAX;
        let asked = self.0.items.ask(command, bytes_max, CALL_TIME_MAX);
        match asked.await? {
            (_, Value::BulkString(bytes)) => Ok(bytes.into()),
            (server, _) => {
                let fault = StoreFault::Nonsense("something else than bytes".into());
                Err(StoreError::new(server, fault))
            }
        }
    }
}
