use super::*;

#[test]
fn each_promise_about_ommers_has_its_error() {
    let chain = Chain::new();
    let good = chain.blocks[25].body.ommers[0].clone();
    let header = |number: usize| chain.blocks[number].header.clone();
    let twice = good.clone();
    chain.check_ommers(
        "the same twice",
        25,
        |ommers| ommers.push(twice),
        |ommers| VerifyError::OmmerIncluded {
            hash: ommers[0].hash_slow(),
        },
    );
    let old = chain.blocks[22].body.ommers[0].clone();
    chain.check_ommers(
        "one of an ancestor's",
        25,
        |ommers| ommers[0] = old,
        |ommers| VerifyError::OmmerIncluded {
            hash: ommers[0].hash_slow(),
        },
    );
    chain.check_ommers(
        "three",
        25,
        |ommers| ommers.resize(3, good.clone()),
        |_| VerifyError::OmmerCount { max: 2, found: 3 },
    );
    chain.check_ommers(
        "one after the merge",
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
    for number in [17, 25] {
        // Block 17's parent is the eighth generation below block 25; block 25's parent is its own.
        let stranger = Header {
            beneficiary: [9; 20].into(),
            ..header(number)
        };
        chain.check_ommers(
            "no kin",
            25,
            |ommers| ommers[0] = stranger,
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
        chain.judge(25, &with_sibling),
        Ok(()),
        "the parent of block 19 is the seventh generation"
    );
    chain.check_ommers(
        "number",
        25,
        |ommers| ommers[0].number += 1,
        |ommers| VerifyError::OmmerHeader {
            hash: ommers[0].hash_slow(),
            why: Box::new(VerifyError::Number {
                expected: good.number,
                found: good.number + 1,
            }),
        },
    );
    chain.check_ommers(
        "difficulty",
        25,
        |ommers| ommers[0].difficulty += U256::ONE,
        |ommers| {
            let why = VerifyError::Difficulty {
                expected: good.difficulty,
                found: good.difficulty + U256::ONE,
            };
            VerifyError::OmmerHeader {
                hash: ommers[0].hash_slow(),
                why: Box::new(why),
            }
        },
    );
}
