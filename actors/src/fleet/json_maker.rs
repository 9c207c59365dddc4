//! Makes the JSON of blocks ahead of requests: that of logs always, that which needs senders if
//! clients read such.

use std::io;

use crossbeam::channel::{self, Receiver, Sender};
use nearhead_chain::window::Snapshot;

use crate::{follow_threads::FollowThreads, head::Head};

/// A thread that makes the JSON of the window's blocks, the newest first. It ends when this is
/// dropped.
///
/// A block of an entry is readable without its JSON. That of its transactions and receipts needs
/// its senders: four fifths of the work of a block, which a process whose clients read logs and
/// state never does. A request that needs JSON earlier makes it itself.
#[derive(Debug)]
pub(super) struct JsonMaker(Sender<()>);

impl JsonMaker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(head: Head, threads: &FollowThreads) -> io::Result<Self> {
        let (changed, changes) = channel::bounded(1);
        threads.spawn("fleet-json", move || make_each(&changes, &head))?;
        Ok(Self(changed))
    }

    /// Looks at the window, which has changed.
    pub(super) fn look(&self) {
        // If there is no room, it has yet to look.
        let _ = self.0.try_send(());
    }
}

fn make_each(changes: &Receiver<()>, head: &Head) {
    for () in changes {
        // The window may change while a block's JSON is made.
        while head.load().is_some_and(|window| make_next(&window)) {}
    }
}

/// Makes what the newest block lacks; returns whether one lacked any.
fn make_next(window: &Snapshot) -> bool {
    let newest_first = || window.canonical().iter().rev();
    if let Some(block) = newest_first().find(|block| !block.has_json_without_senders()) {
        let _ = block.json_without_senders();
        return true;
    }
    // Clients have read blocks that had no senders.
    let is_read = newest_first().any(|block| block.has_been_read());
    let Some(block) = newest_first().find(|block| is_read && !block.has_json()) else {
        return false;
    };
    if let Err(error) = block.make_json() {
        let hash = block.hash;
        tracing::error!(%hash, %error, "cannot make the JSON of a verified block");
    }
    true
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use nearhead_chain::{
        dev::{CHAIN_ID, DevConfig, Producer, Profile},
        encode::EncodeOptions,
        network::FeeRules,
        remote::Verifier,
        trie::NodeStore,
        window::Window,
    };

    use super::*;
    use crate::test_wait::wait_until;

    /// A window of blocks without JSON.
    fn restored() -> Arc<Snapshot> {
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
        let mut restore = || {
            let step = producer.step().unwrap();
            let (_, block) = &step.applied[0];
            let saved = block.save().unwrap();
            verifier.restore(block.hash, &saved).unwrap()
        };
        let mut window = Window::new(CHAIN_ID, restore());
        for _ in 0..4 {
            window.apply(restore()).unwrap();
        }
        window.snapshot()
    }

    #[test]
    fn no_senders_are_recovered_for_readers_of_logs() {
        let window = restored();
        while make_next(&window) {}
        for block in window.canonical() {
            assert!(block.has_json_without_senders());
            let json = block.json_without_senders();
            assert!(json.log_range(0).is_some(), "a block with logs");
        }
        assert!(!make_next(&window));
        assert!(!window.canonical().iter().any(|block| block.has_json()));
    }

    #[test]
    fn the_json_of_all_blocks_is_made_once_one_is_read() {
        let window = restored();
        while make_next(&window) {}
        let [oldest, .., head] = window.canonical() else {
            panic!("a window of five blocks");
        };
        assert!(oldest.json().transaction(0).is_some());
        assert!(make_next(&window));
        assert!(head.has_json(), "the newest first");
        let held = Head::default();
        held.store(Arc::clone(&window));
        let maker = JsonMaker::start(held, &FollowThreads::new()).unwrap();
        maker.look();
        wait_until("the JSON is made", || {
            window.canonical().iter().all(|block| block.has_json())
        });
        assert!(!head.has_been_read(), "nobody has read it");
        assert!(!make_next(&window));
    }
}
