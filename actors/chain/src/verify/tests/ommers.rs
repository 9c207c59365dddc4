use super::*;

#[test]
fn each_invalid_ommer_has_its_error() {
    let chain = RawChain::new();
    let good = chain.blocks[25].body.ommers[0].clone();
    let header = |number: usize| chain.blocks[number].header.clone();
    let twice = good.clone();
    chain.check_ommers(
        "the same ommer twice",
        25,
        |ommers| ommers.push(twice),
        |ommers| VerifyError::OmmerIncluded {
            hash: ommers[0].hash_slow(),
        },
    );
    let old = chain.blocks[22].body.ommers[0].clone();
    chain.check_ommers(
        "an ommer that an ancestor includes",
        25,
        |ommers| ommers[0] = old,
        |ommers| VerifyError::OmmerIncluded {
            hash: ommers[0].hash_slow(),
        },
    );
    chain.check_ommers(
        "three ommers",
        25,
        |ommers| ommers.resize(3, good.clone()),
        |_| VerifyError::OmmerCount { max: 2, found: 3 },
    );
    chain.check_ommers(
        "an ommer after the merge",
        36,
        |ommers| ommers.push(good.clone()),
        |_| VerifyError::OmmerCount { max: 0, found: 1 },
    );
    for number in [24, 19] {
        chain.check_ommers(
            "an ancestor",
            25,
            |ommers| ommers[0] = header(number),
            |ommers| VerifyError::OmmerIsAncestor {
                hash: ommers[0].hash_slow(),
            },
        );
    }
    for number in [18, 25] {
        // The parent of block 18 is eight generations below block 25; a sibling of block 25 has the
        // same parent as that block.
        let unrelated = Header {
            beneficiary: [9; 20].into(),
            ..header(number)
        };
        chain.check_ommers(
            "an ommer without a recent parent",
            25,
            |ommers| ommers[0] = unrelated,
            |ommers| VerifyError::OmmerParent {
                hash: ommers[0].hash_slow(),
                parent: ommers[0].parent_hash,
            },
        );
    }
    let sibling = Header {
        beneficiary: [9; 20].into(),
        ..header(19)
    };
    let mut with_sibling = chain.blocks[25].clone();
    with_sibling.body.ommers[0] = sibling;
    with_sibling.header.ommers_hash = with_sibling.body.calculate_ommers_root();
    assert_eq!(
        chain.verify(25, &with_sibling),
        Ok(()),
        "the parent of block 19 is seven generations below"
    );
}

/// An ommer that block `number` may have: a sibling of the block two before it.
fn ommer_of(chain: &RawChain, number: usize) -> Header {
    Header {
        beneficiary: [9; 20].into(),
        ..chain.blocks[number - 2].header.clone()
    }
}

/// Changes the ommer of block `number`; `expected` makes the error about its header.
#[track_caller]
fn check_header(
    chain: &RawChain,
    name: &str,
    number: usize,
    change: impl FnOnce(&mut Header),
    expected: impl FnOnce(&Header) -> VerifyError,
) {
    let good = ommer_of(chain, number);
    let mut ommer = good.clone();
    change(&mut ommer);
    let hash = ommer.hash_slow();
    chain.check_ommers(
        name,
        number,
        |ommers| *ommers = vec![ommer],
        |_| VerifyError::OmmerHeader {
            hash,
            error: Box::new(expected(&good)),
        },
    );
}

#[test]
fn an_ommers_header_is_checked_like_that_of_a_block_before_the_merge() {
    let chain = RawChain::new();
    let mut unchanged = chain.blocks[33].clone();
    unchanged.body.ommers.push(ommer_of(&chain, 33));
    unchanged.header.ommers_hash = unchanged.body.calculate_ommers_root();
    assert_eq!(chain.verify(33, &unchanged), Ok(()));

    let zero = Some(B256::ZERO);
    check_header(
        &chain,
        "number",
        33,
        |ommer| ommer.number += 1,
        |_| VerifyError::Number {
            expected: 31,
            found: 32,
        },
    );
    check_header(
        &chain,
        "difficulty",
        33,
        |ommer| ommer.difficulty += U256::ONE,
        |good| VerifyError::Difficulty {
            expected: good.difficulty,
            found: good.difficulty + U256::ONE,
        },
    );
    check_header(
        &chain,
        "the time of Shanghai",
        33,
        |ommer| ommer.timestamp = 390,
        |_| VerifyError::ForkBeforeMerge {
            fork: EthereumHardfork::Shanghai,
        },
    );
    check_header(
        &chain,
        "withdrawals root",
        33,
        |ommer| ommer.withdrawals_root = zero,
        |_| VerifyError::WithdrawalsRoot {
            expected: None,
            found: zero,
        },
    );
    check_header(
        &chain,
        "blob gas used",
        33,
        |ommer| ommer.blob_gas_used = Some(0),
        |_| VerifyError::BlobGasUsed {
            expected: None,
            found: Some(0),
        },
    );
    check_header(
        &chain,
        "excess blob gas",
        33,
        |ommer| ommer.excess_blob_gas = Some(0),
        |_| VerifyError::ExcessBlobGas {
            expected: None,
            found: Some(0),
        },
    );
    check_header(
        &chain,
        "beacon root",
        33,
        |ommer| ommer.parent_beacon_block_root = zero,
        |_| VerifyError::ParentBeaconBlockRoot {
            expected: false,
            found: true,
        },
    );
    check_header(
        &chain,
        "requests hash",
        33,
        |ommer| ommer.requests_hash = zero,
        |_| VerifyError::RequestsHashPresence {
            expected: false,
            found: true,
        },
    );
    // The ommer, block 10, is one of the first ten blocks of the fork; block 12 is not.
    let mark = Bytes::from_static(b"dao-hard-fork");
    let dao = |supported| {
        RawChain::with_rules(move |genesis| {
            genesis.config.dao_fork_block = Some(2);
            genesis.config.dao_fork_support = supported;
        })
    };
    check_header(
        &dao(true),
        "mark of the DAO fork missing",
        12,
        |_| (),
        |good| VerifyError::DaoForkMissing {
            expected: mark.clone(),
            found: good.extra_data.clone(),
        },
    );
    check_header(
        &dao(false),
        "mark of the DAO fork refused",
        12,
        |ommer| ommer.extra_data = mark.clone(),
        |_| VerifyError::DaoForkMark {
            found: mark.clone(),
        },
    );
}
