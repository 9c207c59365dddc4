//! What a process writes or reads of blocks below its window.

use std::time::Duration;

use nearhead_chain::window::SettledBlocks;
use nearhead_fleet::block_id::BlockId;

use super::{
    Member,
    calls::{Answer, CallKind},
};
use crate::{
    fleet::below_window::{BelowOutcome, FoundBelow, ReadBelowError},
    messages::SettleHead,
    source::SourceError,
    upstream::{ChangeError, HeldWindow},
};

impl Member {
    /// Writes what is below the window if this process leads, and reads what it lacks if it
    /// follows. One that follows its nodes gets it from them.
    pub(super) fn look_below(&mut self, now: Duration) {
        let Some(held) = self.window.held() else {
            return;
        };
        let call = match &self.publisher {
            Some(_) => self.below.write(&held, now),
            None if self.nodes.are_followed() => None,
            None => self.below.read(&held, self.settled, now),
        };
        if let Some(call) = call {
            let call = async move { Answer::Below(call.await) };
            self.calls.begin(CallKind::Below, call);
        }
    }

    /// Adds what was read to the window, unless nodes change it by now.
    pub(super) async fn read_below(
        &mut self,
        answer: BelowOutcome,
        now: Duration,
    ) -> Result<(), SourceError> {
        let read = match answer {
            BelowOutcome::Written(written) => {
                self.below.ended(written.is_err());
                if let Err(error) = written {
                    self.failed(&error, now);
                }
                return Ok(());
            }
            BelowOutcome::Read(read) => {
                self.below.ended(false);
                read
            }
        };
        match read {
            Ok(_) if self.publisher.is_some() || self.nodes.are_followed() => Ok(()),
            Ok(read) => self.apply_below(read).await,
            Err(ReadBelowError::Store(error)) => {
                self.failed(&error, now);
                Ok(())
            }
            Err(error) => {
                tracing::debug!(%error, "nothing is known below the window");
                self.status.shared().refused.add(1);
                Ok(())
            }
        }
    }

    async fn apply_below(&mut self, read: FoundBelow) -> Result<(), SourceError> {
        let FoundBelow {
            genesis,
            safe,
            finalized,
        } = read;
        if let Some(genesis) = genesis {
            match self.window.keep_genesis(genesis).await {
                Ok(()) => {}
                Err(ChangeError::Gone(error)) => return Err(error),
                Err(refusal) => {
                    tracing::error!(%refusal, "the window does not take the fleet's genesis");
                }
            }
        }
        // An entry may have moved them meanwhile.
        let named = |block: Option<BlockId>, number: Option<u64>| {
            let block = block.filter(|block| Some(block.number) == number);
            block.map(|block| (block.number, block.hash))
        };
        let safe = named(safe, self.settled.safe);
        let finalized = named(finalized, self.settled.finalized);
        if safe.is_some() || finalized.is_some() {
            self.window
                .settle(SettleHead(SettledBlocks { safe, finalized }))
                .await?;
        }
        Ok(())
    }
}
