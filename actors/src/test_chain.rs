//! The chain of execution-apis, imported for tests, and actors that read it.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::PathBuf, sync::Arc};

use nearhead_chain::{
    block::Block,
    chain_file::{ChainReader, read_genesis},
    encode::EncodeOptions,
    import::Importer,
    window::{Snapshot, Window},
};

use crate::read::{ReadResources, Worker, pool::Occupied};

/// A file of execution-apis, which `tests/setup vectors` installs.
pub(crate) fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/.tools/vectors"
    ));
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is missing: run tests/setup vectors",
        path.display()
    );
    path
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

/// One worker and a pool of one thread of each class over the whole chain.
pub(crate) struct Chain {
    pub(crate) resources: ReadResources,
    pub(crate) worker: Worker,
    pub(crate) snapshot: Arc<Snapshot>,
}

impl Chain {
    pub(crate) fn start() -> Self {
        let mut blocks = blocks(54).into_iter();
        let mut window = Window::new(1, blocks.next().unwrap());
        for block in blocks {
            window.apply(block).unwrap();
        }
        let resources = ReadResources::start(1, 1 << 20, None).unwrap();
        Self {
            worker: Worker::start(&resources),
            resources,
            snapshot: window.snapshot(),
        }
    }

    /// Keeps all threads of the pool busy until they are released.
    pub(crate) fn occupy(&self) -> Occupied {
        let classes = self.resources.pool.classes();
        Occupied::new(classes.map(|class| &class.threads))
    }
}
