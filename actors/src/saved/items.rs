use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use crossbeam::channel::{self, Receiver, Sender};
use nearhead_chain::trie::State;
use tokio::{sync::oneshot, time};

use super::{PATIENCE, SavedStatus, file::ReadFile};
use crate::follow_threads::FollowThreads;

/// Loads that wait for the thread that reads. More are not waited for: nodes are asked.
const LOADS_MAX: usize = 64;

/// The trie nodes and codes of an earlier process. A thread of its own reads them as reads need
/// them, so that nothing else waits for a disk that hangs.
#[derive(Debug)]
pub(crate) struct SavedItems {
    loads: Sender<Load>,
    /// Set once the disk has not answered in time.
    is_given_up: AtomicBool,
}

/// An account and slots of it.
#[derive(Clone, Debug)]
pub(crate) struct WantedState {
    pub(crate) address: Address,
    pub(crate) slots: Vec<U256>,
    pub(crate) with_code: bool,
}

struct Load {
    state: Arc<State>,
    wanted: Vec<WantedState>,
    /// Gets whether all is held now.
    reply: oneshot::Sender<bool>,
}

impl SavedItems {
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        file: ReadFile,
        status: Arc<SavedStatus>,
        threads: &FollowThreads,
    ) -> io::Result<Self> {
        let (loads, waiting) = channel::bounded(LOADS_MAX);
        let mut reader = Reader::new(file, status);
        threads.spawn("saved-items", move || reader.run(&waiting))?;
        Ok(Self {
            loads,
            is_given_up: AtomicBool::new(false),
        })
    }

    /// Stores what is wanted and the state lacks, as far as the file has it. Returns whether all is
    /// held now.
    pub(crate) async fn load(&self, state: Arc<State>, wanted: Vec<WantedState>) -> bool {
        if self.is_given_up.load(Ordering::Relaxed) {
            return false;
        }
        let (reply, loaded) = oneshot::channel();
        let load = Load {
            state,
            wanted,
            reply,
        };
        if self.loads.try_send(load).is_err() {
            return false;
        }
        match time::timeout(PATIENCE, loaded).await {
            Ok(loaded) => loaded.unwrap_or(false),
            Err(_) => {
                if !self.is_given_up.swap(true, Ordering::Relaxed) {
                    tracing::warn!("the disk does not give the saved state in time: nodes do");
                }
                false
            }
        }
    }
}

/// The thread that reads.
pub(super) struct Reader {
    /// `None` once it could not be read.
    file: Option<ReadFile>,
    status: Arc<SavedStatus>,
}

impl Reader {
    pub(super) const fn new(file: ReadFile, status: Arc<SavedStatus>) -> Self {
        Self {
            file: Some(file),
            status,
        }
    }

    fn run(&mut self, loads: &Receiver<Load>) {
        for load in loads {
            let Load {
                state,
                wanted,
                reply,
            } = load;
            let mut is_held = true;
            for WantedState {
                address,
                slots,
                with_code,
            } in wanted
            {
                let source = |hash: &B256| self.item(hash);
                // The rest is of use even if a part is not there.
                is_held &= state.load(&address, &slots, with_code, source);
                if reply.is_closed() {
                    break;
                }
            }
            drop(state);
            // Sending fails if nobody waits any more.
            let _ = reply.send(is_held);
        }
    }

    /// A trie node or code that has this hash.
    pub(super) fn item(&mut self, hash: &B256) -> Option<Bytes> {
        match self.file.as_ref()?.item(hash) {
            Ok(content) => {
                let content = Bytes::from(content?);
                let is_whole = keccak256(&content) == *hash;
                self.status.count_item(is_whole);
                is_whole.then_some(content)
            }
            Err(error) => {
                tracing::warn!(%error, "the saved state cannot be read: nodes are asked for it");
                self.status.failed(&error);
                self.file = None;
                None
            }
        }
    }
}
