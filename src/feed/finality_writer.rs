//! Writes the newest finalized block on a thread of its own: a disk that is slow, or hangs, holds
//! up neither the source nor the events of its upstreams.

use std::{
    io,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use crossbeam::channel::{self, Receiver, Sender};
use nearhead_actors::{data_folder::DataFolder, disk_wait::DiskThread};

/// Longest wait for the last write when the process ends: some hundred bytes.
const FINALITY_WRITE_MAX: Duration = Duration::from_secs(2);

/// A folder, and the thread that writes to it. Dropping it waits until the newest block is written,
/// unless the disk hangs.
pub(super) struct FinalityWriter {
    /// The block to write next; `None` once this is being dropped.
    next: Option<Sender<(u64, B256)>>,
    /// The same channel, to take out a block when a newer one comes.
    waiting: Receiver<(u64, B256)>,
    thread: DiskThread,
}

impl FinalityWriter {
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(data: DataFolder) -> io::Result<Self> {
        let (next, waiting) = channel::bounded(1);
        let blocks = waiting.clone();
        let thread = DiskThread::start("finality", move || write_all(data, blocks))?;
        Ok(Self {
            next: Some(next),
            waiting,
            thread,
        })
    }

    /// Has this block written, by number and hash, unless a newer one comes before.
    pub(super) fn keep(&self, block: (u64, B256)) {
        let _older = self.waiting.try_recv();
        if let Some(next) = &self.next {
            // There is room: nobody else sends.
            let _ = next.try_send(block);
        }
    }
}

impl Drop for FinalityWriter {
    fn drop(&mut self) {
        self.next = None;
        if !self.thread.ends_within(FINALITY_WRITE_MAX) {
            tracing::warn!("the last finalized block is not written: the disk does not answer");
        }
    }
}

fn write_all(mut data: DataFolder, blocks: Receiver<(u64, B256)>) {
    for block in blocks {
        let kept = data.keep_finalized(block, Instant::now());
        warn_unless_kept(&data, kept);
    }
    let kept = data.flush();
    warn_unless_kept(&data, kept);
}

/// The service goes on with what it knows: only a restart would miss it.
fn warn_unless_kept(data: &DataFolder, kept: io::Result<()>) {
    if let Err(error) = kept {
        let folder = data.path().display();
        tracing::warn!(%folder, %error, "the finalized block cannot be written");
    }
}
