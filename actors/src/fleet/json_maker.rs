//! Makes the JSON of blocks that were applied, so that no request has to.

use std::{io, sync::Arc, thread};

use crossbeam::channel::{self, Receiver, Sender};
use nearhead_chain::{block::Block, window::WINDOW_BLOCKS};

/// A thread that makes the JSON of one block after another. It ends when this is dropped.
///
/// A block of an entry is readable without its JSON, for which its senders have to be recovered:
/// most of the work of a block. A request that needs the JSON earlier makes it itself.
#[derive(Debug)]
pub(super) struct JsonMaker(Sender<Arc<Block>>);

impl JsonMaker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start() -> io::Result<Self> {
        let (blocks, applied) = channel::bounded(WINDOW_BLOCKS);
        let thread = thread::Builder::new().name("fleet-json".to_owned());
        thread.spawn(move || make_each(&applied))?;
        Ok(Self(blocks))
    }

    /// Makes the JSON of these blocks, in their order.
    pub(super) fn make<'a>(&self, blocks: impl IntoIterator<Item = &'a Arc<Block>>) {
        let without = blocks.into_iter().filter(|block| !block.has_json());
        for block in without {
            // Those that have no room are made at their first use.
            let _ = self.0.try_send(Arc::clone(block));
        }
    }
}

fn make_each(applied: &Receiver<Arc<Block>>) {
    for block in applied {
        if let Err(error) = block.make_json() {
            let hash = block.hash;
            tracing::error!(%hash, %error, "cannot make the JSON of a verified block");
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use nearhead_chain::{
        dev::{CHAIN_ID, DevConfig, Producer, Profile},
        encode::EncodeOptions,
        network::FeeRules,
        remote::Verifier,
        trie::NodeStore,
    };

    use super::*;
    use crate::test_wait::wait_until;

    #[test]
    fn the_json_of_a_block_is_made_before_it_is_read() {
        let config = DevConfig {
            seed: 1,
            profile: Profile::Small,
            block_time_seconds: 1,
            reorg_every: None,
            reorg_depth: 0,
        };
        let options = EncodeOptions::default();
        let mut producer = Producer::new(config, options, &mut |_, _| {}).unwrap();
        let rules = FeeRules::of_chain(CHAIN_ID);
        let verifier = Verifier::new(CHAIN_ID, rules, options, NodeStore::new());
        let step = producer.step().unwrap();
        let (_, block) = &step.applied[0];
        let restored = verifier.restore(block.hash, &block.save().unwrap());
        let restored = restored.unwrap();
        assert!(!restored.has_json());
        let maker = JsonMaker::start().unwrap();
        maker.make([&restored]);
        wait_until("the JSON is made", || restored.has_json());
        assert_eq!(restored.json().receipts(), block.json().receipts());
    }
}
