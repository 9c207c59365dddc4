#![expect(clippy::unwrap_used, reason = "tests")]

#[cfg(feature = "all-tests")]
use std::io::Write;
use std::{cell::Cell, convert::Infallible, fs, path::PathBuf, sync::Arc, thread, time::Instant};

use actix::Arbiter;
use crossbeam::channel::{self, Receiver, Sender};
use nearhead_chain::{
    block::Block,
    dev::{DevConfig, Profile},
    encode::EncodeOptions,
    window::{BlockNumberOrTag, BlockTag, Snapshot, WINDOW_BLOCKS},
};

use super::*;
#[cfg(feature = "all-tests")]
use crate::test_chain;
use crate::{head::Head, test_wait::wait_until};

/// A file in a folder of this process and test; dropping the value removes both.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let folder = format!("nearhead-source-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(folder) = self.0.parent() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// A link for a source, with the ends that the test holds: the events, and the stop signal.
fn link(head: &Head) -> (SourceLink, Receiver<SourceEvent>, Sender<Infallible>) {
    // Room for all events of a small chain: a test reads them when the source has ended.
    let (sender, events) = channel::bounded(1_024);
    let (stop, stopped) = channel::bounded(0);
    let link = SourceLink {
        arbiter: Arbiter::new().handle(),
        head: head.clone(),
        events: sender,
        stop: stopped,
    };
    (link, events, stop)
}

fn files(genesis: PathBuf, chain: PathBuf) -> FilesSource {
    FilesSource {
        genesis,
        chain,
        options: EncodeOptions::default(),
    }
}

/// Imports a chain file: its outcome, the snapshot readable then, and the last progress reported.
#[cfg(feature = "all-tests")]
fn import(chain: PathBuf) -> (Result<(), SourceError>, Arc<Snapshot>, Option<Progress>) {
    let source = files(test_chain::path("genesis.json"), chain);
    let head = Head::default();
    let (link, events, _stop) = link(&head);
    // On a thread of its own, as in the service.
    let outcome = thread::spawn(move || source.run(link)).join().unwrap();
    let events: Vec<_> = events.try_iter().collect();
    let last = events.iter().rev().find_map(|event| match event {
        SourceEvent::Progress(progress) => Some(*progress),
        _ => None,
    });
    let is_readable = matches!(events.last(), Some(SourceEvent::Readable(_)));
    assert_eq!(
        is_readable,
        outcome.is_ok(),
        "readable at the end, or never"
    );
    wait_until("a snapshot", || head.load().is_some());
    (outcome, head.load().unwrap(), last)
}

fn hash_at(snapshot: &Snapshot, tag: BlockTag) -> Option<alloy_primitives::B256> {
    snapshot
        .resolve(BlockNumberOrTag::Tag(tag))
        .ok()
        .map(|block| block.hash)
}

#[actix::test]
#[cfg(feature = "all-tests")]
async fn a_file_is_imported_and_settled() {
    let bytes = fs::read(test_chain::path("chain.rlp")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let gzip = TempFile::new("chain.rlp.gz", &gzip.finish().unwrap());
    for chain in [test_chain::path("chain.rlp"), gzip.0.clone()] {
        let length = fs::metadata(&chain).unwrap().len();
        let (outcome, snapshot, progress) = import(chain);
        outcome.unwrap();
        assert_eq!(snapshot.head().number(), 54);
        for tag in [BlockTag::Safe, BlockTag::Finalized] {
            assert_eq!(hash_at(&snapshot, tag), Some(snapshot.head().hash));
        }
        let expected = Progress::Import {
            blocks: 54,
            bytes: length,
            bytes_total: length,
        };
        assert_eq!(progress, Some(expected));
    }
}

/// A pipe has no length: progress reports the bytes read, and no total.
#[actix::test]
#[cfg(feature = "all-tests")]
async fn a_chain_can_come_through_a_pipe() {
    let bytes = fs::read(test_chain::path("chain.rlp")).unwrap();
    let pipe = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tmp"))
        .join(format!("chain-{}.fifo", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let writer = thread::spawn({
        let (pipe, bytes) = (pipe.clone(), bytes.clone());
        move || fs::write(pipe, bytes).unwrap()
    });
    let (outcome, snapshot, progress) = import(pipe.clone());
    writer.join().unwrap();
    fs::remove_file(pipe).unwrap();
    outcome.unwrap();
    assert_eq!(snapshot.head().number(), 54);
    let expected = Progress::Import {
        blocks: 54,
        bytes: bytes.len() as u64,
        bytes_total: 0,
    };
    assert_eq!(progress, Some(expected));
}

#[actix::test]
#[cfg(feature = "all-tests")]
async fn a_bad_block_is_named_and_nothing_after_it_is_handed_over() {
    let good = fs::read(test_chain::path("chain.rlp")).unwrap();
    let blocks = test_chain::blocks(54);
    // The state root of block 40, wherever it stands in the file, with one bit changed.
    let root = blocks[40].header.state_root;
    let at = good
        .windows(32)
        .position(|bytes| bytes == root.as_slice())
        .unwrap();
    let mut bad = good.clone();
    bad[at + 31] ^= 1;
    let cases = [
        ("root.rlp", bad, "block 40", 32),
        (
            "cut.rlp",
            good[..good.len() - 1].to_vec(),
            "block 54 cannot be read",
            32,
        ),
        ("noise.rlp", b"noise".to_vec(), "block 1 cannot be read", 0),
    ];
    for (name, bytes, expected, head) in cases {
        let file = TempFile::new(name, &bytes);
        let (outcome, snapshot, _) = import(file.0.clone());
        let message = outcome.unwrap_err().to_string();
        assert!(
            message.contains(name) && message.contains(expected),
            "{message}"
        );
        assert_eq!(
            snapshot.head().number(),
            head,
            "{name}: the whole batches before the bad block, and nothing after it"
        );
    }
}

#[actix::test]
async fn a_file_that_cannot_be_opened_is_named() {
    let open = |genesis: PathBuf| {
        let (link, ..) = link(&Head::default());
        files(genesis, PathBuf::new()).run(link)
    };
    let missing = open(PathBuf::from("/no/such/genesis.json")).unwrap_err();
    assert!(
        missing.to_string().starts_with("/no/such/genesis.json: "),
        "{missing}"
    );
    let noise = TempFile::new("noise.json", b"{\"config\": 1}");
    let noise = open(noise.0.clone()).unwrap_err();
    assert!(
        noise
            .to_string()
            .contains("noise.json: block 0 cannot be read: "),
        "{noise}"
    );
}

const fn config(reorg_every: Option<u64>, reorg_depth: u64) -> DevConfig {
    DevConfig {
        seed: 7,
        profile: Profile::Small,
        block_time_seconds: 1,
        reorg_every,
        reorg_depth,
    }
}

/// A dev source whose ticks the test sends.
struct Dev {
    head: Head,
    ticks: Sender<Instant>,
    steps: Cell<u64>,
    stop: Sender<Infallible>,
    thread: thread::JoinHandle<Result<(), SourceError>>,
}

impl Dev {
    fn start(reorg_every: Option<u64>, reorg_depth: u64) -> Self {
        let (ticks, ticked) = channel::bounded(0);
        let source = DevSource {
            config: config(reorg_every, reorg_depth),
            options: EncodeOptions::default(),
            ticks: ticked,
        };
        let head = Head::default();
        let (link, _, stop) = link(&head);
        let thread = thread::spawn(move || source.run(link));
        Self {
            head,
            ticks,
            steps: Cell::new(0),
            stop,
            thread,
        }
    }

    /// Makes one step, once the window is full, and returns the snapshot after it.
    fn step(&self) -> Arc<Snapshot> {
        self.ticks.send(Instant::now()).unwrap();
        self.steps.set(self.steps.get() + 1);
        let number = WINDOW_BLOCKS as u64 - 1 + self.steps.get();
        let reached = || self.head.load().filter(|at| at.head().number() == number);
        wait_until("a block", || reached().is_some());
        reached().unwrap()
    }
}

#[actix::test]
async fn the_dev_chain_fills_the_window_then_makes_one_block_per_tick() {
    let dev = Dev::start(None, 1);
    let before = dev.step();
    let snapshot = dev.step();
    assert_eq!((snapshot.head().number(), snapshot.oldest()), (129, 2));
    assert!(snapshot.is_canonical(before.head()));
    assert_eq!(
        hash_at(&snapshot, BlockTag::Safe),
        snapshot.head().ancestors.get(31).copied()
    );
    assert_eq!(
        hash_at(&snapshot, BlockTag::Finalized),
        snapshot.head().ancestors.get(63).copied()
    );
    drop(dev.stop);
    dev.thread.join().unwrap().unwrap();
}

/// The safe and the finalized block of a snapshot.
fn settled(snapshot: &Snapshot) -> [Arc<Block>; 2] {
    [BlockTag::Safe, BlockTag::Finalized]
        .map(|tag| Arc::clone(snapshot.resolve(BlockNumberOrTag::Tag(tag)).unwrap()))
}

/// Settled blocks are never replaced, and safe and finalized never go back, even if reorgs are
/// deeper than 64 blocks.
#[actix::test]
async fn a_settled_block_is_never_replaced() {
    for depth in [1, 70] {
        let dev = Dev::start(Some(5), depth);
        dev.step();
        let mut reorgs = 0;
        let mut before = dev.step();
        for _ in 0..12 {
            let snapshot = dev.step();
            let reverted = before.canonical().iter().skip(1);
            let reverted = reverted
                .filter(|block| !snapshot.is_canonical(block))
                .count();
            reorgs += usize::from(reverted > 0);
            assert!(reverted == 0 || reverted == usize::try_from(depth).unwrap());
            for (old, new) in settled(&before).iter().zip(settled(&snapshot)) {
                assert!(
                    snapshot.is_canonical(old),
                    "reorgs of {depth}: settled block {} was replaced",
                    old.number()
                );
                assert!(new.number() >= old.number(), "a settled block went back");
            }
            before = snapshot;
        }
        assert_eq!(reorgs, 2, "one after every five blocks");
        drop(dev.stop);
        dev.thread.join().unwrap().unwrap();
    }
}

#[actix::test]
async fn a_stopped_source_makes_no_block() {
    let head = Head::default();
    let (link, _, stop) = link(&head);
    drop(stop);
    let source = DevSource {
        config: config(None, 1),
        options: EncodeOptions::default(),
        ticks: channel::never(),
    };
    let outcome = thread::spawn(move || source.run(link)).join().unwrap();
    assert!(matches!(outcome, Err(SourceError::Stopped)), "{outcome:?}");
    wait_until("a snapshot", || head.load().is_some());
    assert_eq!(head.load().unwrap().head().number(), 0);
}
