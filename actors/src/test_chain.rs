//! The chain of execution-apis, imported, for tests.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::PathBuf, sync::Arc, thread, time::Duration};

use nearhead_chain::{
    block::Block,
    chain_file::{ChainReader, read_genesis},
    encode::EncodeOptions,
    import::Importer,
};

/// A file of execution-apis.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../shared/execution-apis"
    ))
    .join(name)
}

/// The genesis and the first blocks of the chain.
pub(crate) fn blocks(count: usize) -> Vec<Arc<Block>> {
    let genesis = read_genesis(&fs::read(path("genesis.json")).unwrap()).unwrap();
    let importer = Importer::new(&genesis, EncodeOptions::default()).unwrap();
    let mut blocks = vec![importer.genesis(&genesis.alloc).unwrap()];
    let chain = fs::read(path("chain.rlp")).unwrap();
    for raw in ChainReader::new(chain.as_slice()).unwrap().take(count) {
        let block = importer.import(raw.unwrap(), &blocks[blocks.len() - 1]);
        blocks.push(block.unwrap());
    }
    blocks
}

/// Looks at `state` until it holds; fails after a minute.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut state: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if state() {
            return;
        }
        // A pause between two looks; nothing is assumed of its length.
        thread::park_timeout(Duration::from_millis(1));
    }
    panic!("waited in vain for: {what}");
}
