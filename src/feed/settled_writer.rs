//! Writes the newest safe and finalized block on a thread of its own: a disk that is slow, or
//! hangs, holds up neither the source nor the events of its upstreams.

use std::{
    io,
    time::{Duration, Instant},
};

use crossbeam::channel::{self, Receiver, RecvTimeoutError, Sender};
use nearhead_actors::{data_folder::DataFolder, disk_wait::DiskThread};
use nearhead_chain::window::SettledBlocks;

/// Longest wait for the last write when the process ends: some hundred bytes.
const SETTLED_WRITE_MAX: Duration = Duration::from_secs(2);

/// A folder, and the thread that writes to it. Dropping it waits until the newest blocks are
/// written, unless the disk hangs.
pub(super) struct SettledWriter {
    /// The blocks to write next; `None` once this is being dropped.
    next: Option<Sender<SettledBlocks>>,
    /// The same channel, to take out blocks when newer ones come.
    waiting: Receiver<SettledBlocks>,
    thread: DiskThread,
}

impl SettledWriter {
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(data: DataFolder) -> io::Result<Self> {
        let (next, waiting) = channel::bounded(1);
        let blocks = waiting.clone();
        let thread = DiskThread::start("settled", move || write_all(data, &blocks))?;
        Ok(Self {
            next: Some(next),
            waiting,
            thread,
        })
    }

    /// Has these blocks written within a second, unless newer ones come before.
    pub(super) fn save(&self, blocks: SettledBlocks) {
        let _older = self.waiting.try_recv();
        if let Some(next) = &self.next {
            // There is room: nobody else sends.
            let _ = next.try_send(blocks);
        }
    }
}

impl Drop for SettledWriter {
    fn drop(&mut self) {
        self.next = None;
        if !self.thread.ends_within(SETTLED_WRITE_MAX) {
            tracing::warn!("the last settled blocks are not written: the disk does not answer");
        }
    }
}

fn write_all(mut data: DataFolder, blocks: &Receiver<SettledBlocks>) {
    let mut has_failed = false;
    loop {
        let next = match data.due_in(Instant::now()) {
            Some(wait) => blocks.recv_timeout(wait),
            None => blocks.recv().map_err(RecvTimeoutError::from),
        };
        let now = Instant::now();
        let written = match next {
            Ok(blocks) => data.save(blocks, now),
            Err(RecvTimeoutError::Timeout) => data.write_due(now),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        report(&data, written, &mut has_failed);
    }
    let written = data.flush();
    report(&data, written, &mut has_failed);
}

/// Reports the first failure, and that writing goes on. The service goes on with what it knows:
/// only a restart would miss it.
fn report(data: &DataFolder, written: io::Result<()>, has_failed: &mut bool) {
    let folder = data.path().display();
    match written {
        Err(error) => {
            if !std::mem::replace(has_failed, true) {
                tracing::warn!(
                    %folder,
                    %error,
                    "the safe and the finalized block cannot be written"
                );
            }
        }
        Ok(()) if data.due_in(Instant::now()).is_none() => {
            if std::mem::take(has_failed) {
                tracing::info!(%folder, "the safe and the finalized block are written again");
            }
        }
        // It waits for its turn.
        Ok(()) => {}
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{fs, thread};

    use alloy_primitives::B256;

    use super::*;

    /// Blocks that come a moment after others are written although no block follows them.
    #[test]
    fn no_block_waits_for_the_next_one() {
        let root = std::env::temp_dir().join(format!("nearhead-settled-{}", std::process::id()));
        let folder = DataFolder::open(&root, 1, B256::ZERO).unwrap();
        let file = folder.path().join("finalized.json");
        let writer = SettledWriter::start(folder).unwrap();
        let wait_written = |number: u64| {
            let began = Instant::now();
            let expected = format!("\"safe\":{{\"number\":{number},");
            while !fs::read_to_string(&file).is_ok_and(|text| text.contains(&expected)) {
                assert!(began.elapsed() < Duration::from_secs(20), "{number}");
                // The other core may be busy, and the writer needs this one.
                thread::park_timeout(Duration::from_millis(2));
            }
        };
        for number in [7, 8, 9] {
            writer.save(SettledBlocks {
                safe: Some((number, B256::ZERO)),
                finalized: None,
            });
            wait_written(number);
        }
        drop(writer);
        let _ = fs::remove_dir_all(root);
    }
}
