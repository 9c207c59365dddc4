//! Blocks that are saved and restored.

use alloy_primitives::{B256, Bytes};
use proptest::prelude::*;

use super::{super::RestoreError, DEV, ExecutedChain, covered, served};

/// The chains whose blocks are saved.
fn chains() -> Vec<&'static ExecutedChain> {
    vec![
        &DEV,
        #[cfg(feature = "all-tests")]
        &super::EXECUTION_APIS,
    ]
}

#[test]
fn a_restored_block_is_served_as_the_saved_one() {
    let mut ommers = 0;
    for chain in chains() {
        // The genesis of a file has accounts that no block states.
        for block in &chain.blocks[1..] {
            let saved = block.save().unwrap();
            let restored = chain.verifier.restore(block.hash, &saved).unwrap();
            assert_eq!(served(&restored), served(block), "{}", block.number());
            assert_eq!(restored.header, block.header);
            assert_eq!(restored.total_difficulty, block.total_difficulty);
            ommers += block.json.uncle_count();
        }
    }
    assert_eq!(ommers > 0, cfg!(feature = "all-tests"));
}

#[test]
fn what_is_no_saved_block_is_refused() {
    let chain = &DEV;
    let [block, other] = [&chain.blocks[3], &chain.blocks[4]];
    let saved = block.save().unwrap();
    let restore = |hash: B256, saved: &[u8]| chain.verifier.restore(hash, saved).unwrap_err();
    assert!(matches!(
        restore(other.hash, &saved),
        RestoreError::Refuted(_)
    ));
    let compress = |plain: &[u8]| zstd::bulk::compress(plain, 1).unwrap();
    let list = |parts: &[&[u8]]| {
        let parts: Vec<Bytes> = parts
            .iter()
            .map(|part| Bytes::copy_from_slice(part))
            .collect();
        compress(&alloy_rlp::encode(parts))
    };
    let full = block.json.block(true);
    for (what, damaged) in [
        ("nothing", Vec::new()),
        ("no zstd", vec![7; 100]),
        ("the first half", saved[..saved.len() / 2].to_vec()),
        ("no list", compress(b"nearhead")),
        ("no receipts", list(&[&full])),
        (
            "receipts of another block",
            list(&[&full, &other.json.receipts()]),
        ),
        (
            "an ommer too many",
            list(&[&full, &block.json.receipts(), &full]),
        ),
        // It would take 1 GiB of memory.
        ("zeros", compress(&vec![0; 1 << 30])),
    ] {
        let error = restore(block.hash, &damaged);
        assert!(!error.to_string().is_empty(), "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A changed byte is refused, or changes nothing that is served but what no hash covers. The
    /// checksum covers that.
    #[test]
    fn a_damaged_block_is_refused(
        at in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        flip in 1..=u8::MAX,
        is_compressed in any::<bool>(),
    ) {
        let block = &DEV.blocks[1 + at.index(DEV.blocks.len() - 1)];
        let mut saved = block.save().unwrap();
        let flip_one = |bytes: &mut Vec<u8>| {
            let place = place.index(bytes.len());
            bytes[place] ^= flip;
        };
        if is_compressed {
            flip_one(&mut saved);
        } else {
            let mut plain = zstd::bulk::decompress(&saved, 1 << 26).unwrap();
            flip_one(&mut plain);
            saved = zstd::bulk::compress(&plain, 1).unwrap();
        }
        if let Ok(restored) = DEV.verifier.restore(block.hash, &saved) {
            prop_assert!(covered(&restored) == covered(block));
            prop_assert!(!is_compressed || served(&restored) == served(block));
        }
    }
}
