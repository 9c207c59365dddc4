//! Blocks that are saved and restored.

use std::sync::Arc;

use alloy_primitives::B256;
use alloy_rlp::{Header, PayloadView};
use proptest::prelude::*;

use super::{super::RestoreError, DEV, ExecutedChain, covered, served, verifier};
use crate::{block::Block, dev::CHAIN_ID, network::FeeRules, window::Window};

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
            ommers += block.json().uncle_count();
        }
    }
    assert_eq!(ommers > 0, cfg!(feature = "all-tests"));
}

/// The encoded members of a saved block.
fn members(saved: &[u8]) -> [Vec<u8>; 3] {
    let plain = zstd::bulk::decompress(saved, 1 << 26).unwrap();
    match Header::decode_raw(&mut &*plain).unwrap() {
        PayloadView::List(members) => {
            let members: Vec<_> = members.into_iter().map(<[u8]>::to_vec).collect();
            members.try_into().unwrap()
        }
        PayloadView::String(_) => panic!("a saved block is a list"),
    }
}

/// A list of these encoded members.
fn list(members: &[&[u8]]) -> Vec<u8> {
    let payload = members.concat();
    let mut list = Vec::new();
    let header = Header {
        list: true,
        payload_length: payload.len(),
    };
    header.encode(&mut list);
    list.extend(payload);
    list
}

/// Only answers need the senders: a window is filled without them.
#[test]
fn a_window_of_restored_blocks_has_no_json_yet() {
    let chain = &DEV;
    let restore = |block: &Arc<Block>| {
        let saved = block.save().unwrap();
        chain.verifier.restore(block.hash, &saved).unwrap()
    };
    let restored: Vec<_> = chain.blocks[1..].iter().map(restore).collect();
    let (head, below) = restored.split_last().unwrap();
    let (newest, older) = below.split_last().unwrap();
    let mut window = Window::new(CHAIN_ID, Arc::clone(newest));
    for block in older.iter().rev() {
        window.extend_below(Arc::clone(block)).unwrap();
    }
    window
        .advance(0, vec![Arc::clone(head)], None, None)
        .unwrap();
    window.check_invariants().unwrap();
    assert!(restored.iter().all(|block| !block.has_json()));
    let executed = Window::new(CHAIN_ID, Arc::clone(&chain.blocks[1]));
    let executed = chain.blocks[2..]
        .iter()
        .fold(executed, |mut window, block| {
            window.apply(Arc::clone(block)).unwrap();
            window
        });
    let [restored, executed] = [&window, &executed].map(|window| window.snapshot());
    assert_eq!(restored.suggested_tip(), executed.suggested_tip());
}

#[test]
fn a_saved_block_of_another_chain_is_refused() {
    let block = &DEV.blocks[3];
    let other = verifier(CHAIN_ID + 1, FeeRules::of_chain(CHAIN_ID));
    let error = other.restore(block.hash, &block.save().unwrap());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("chain"), "{error}");
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
    let [one, another] = [block, other].map(|block| members(&block.save().unwrap()));
    let saved_as = |members: &[&[u8]]| compress(&list(members));
    let none: &[u8] = &list(&[]);
    for (what, damaged) in [
        ("nothing", Vec::new()),
        ("no zstd", vec![7; 100]),
        ("the first half", saved[..saved.len() / 2].to_vec()),
        ("no list", compress(b"nearhead")),
        ("no receipts", saved_as(&[&one[0]])),
        ("too few receipts", saved_as(&[&one[0], none, none])),
        (
            "receipts of another block",
            saved_as(&[&one[0], &another[1], &one[2]]),
        ),
        (
            "transactions of another block",
            saved_as(&[&another[0], &one[1], &one[2]]),
        ),
        (
            "a receipt more than transactions",
            saved_as(&[&one[0], &list(&[&one[1], &one[1]]), &one[2]]),
        ),
        (
            "two total difficulties",
            saved_as(&[&one[0], &one[1], &list(&[&[1], &[2]])]),
        ),
        (
            "a member too many",
            saved_as(&[&one[0], &one[1], &one[2], none]),
        ),
        (
            "bytes after the end",
            compress(&[list(&[&one[0], &one[1], &one[2]]), vec![0]].concat()),
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
