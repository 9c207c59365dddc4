//! The test chain of execution-apis.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use alloy_consensus::Header;
use alloy_genesis::Genesis;
use alloy_primitives::{B256, b256};

use crate::{
    block::RawBlock,
    chain_file::{self, ChainReader},
};

/// Hash of the chain's last block, block 54.
pub(crate) const HEAD: B256 =
    b256!("0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7");

/// A file or folder of execution-apis, which `tests/setup vectors` installs.
pub(crate) fn path(name: &str) -> PathBuf {
    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/.tools/vectors"
    ));
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is missing: run tests/setup vectors",
        path.display()
    );
    path
}

/// The content of a file of execution-apis.
pub(crate) fn file(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap()
}

/// genesis.json.
pub(crate) fn genesis() -> Genesis {
    chain_file::read_genesis(&file("genesis.json")).unwrap()
}

/// Blocks 1 to 54.
pub(crate) fn blocks() -> Vec<RawBlock> {
    ChainReader::new(file("chain.rlp").as_slice())
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// The genesis header, with the state root that alloy_trie computes from the accounts.
pub(crate) fn genesis_header(genesis: &Genesis) -> Header {
    let state_root = alloy_trie::root::state_root_ref_unhashed(&genesis.alloc);
    Header {
        state_root,
        difficulty: genesis.difficulty,
        gas_limit: genesis.gas_limit,
        timestamp: genesis.timestamp,
        extra_data: genesis.extra_data.clone(),
        ..Header::default()
    }
}
