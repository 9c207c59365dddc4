use super::*;

/// Compares with the formulas of the EIPs, in signed arithmetic.
#[test]
fn difficulty_is_that_of_the_eips() {
    /// `None` if the bomb overflows this arithmetic.
    fn expected(fork: &str, delay: i128, parent: &Header, timestamp: u64) -> Option<i128> {
        let difficulty: i128 = parent.difficulty.try_into().unwrap();
        let elapsed = i128::from(timestamp - parent.timestamp);
        let sigma = match fork {
            "frontier" => {
                if elapsed < 13 {
                    1
                } else {
                    -1
                }
            }
            "homestead" => (1 - elapsed / 10).max(-99),
            _ => ((if parent.ommers_hash == EMPTY_OMMER_ROOT_HASH {
                1
            } else {
                2
            }) - elapsed / 9)
                .max(-99),
        };
        let number = i128::from(parent.number) + 1;
        let epsilon = (number - delay).max(0) / 100_000 - 2;
        let bomb = if epsilon < 0 {
            0
        } else {
            1_i128
                .checked_shl(epsilon.try_into().unwrap())
                .filter(|bomb| *bomb > 0)?
        };
        Some((difficulty + difficulty / 2048 * sigma).max(131_072) + bomb)
    }
    let forks = [
        ("frontier", 0),
        ("homestead", 0),
        ("byzantium", 3_000_000),
        ("constantinople", 5_000_000),
        ("muir", 9_000_000),
        ("london", 9_700_000),
        ("arrow", 10_700_000),
        ("gray", 11_400_000),
    ];
    for (last, (fork, delay)) in forks.iter().enumerate() {
        let from = |index: usize| (index <= last).then_some(0);
        let mut genesis = Genesis::default();
        genesis.config.chain_id = 1;
        genesis.config.homestead_block = from(1);
        for block in [
            &mut genesis.config.eip150_block,
            &mut genesis.config.byzantium_block,
        ] {
            *block = from(2);
        }
        genesis.config.eip155_block = from(2);
        genesis.config.eip158_block = from(2);
        genesis.config.constantinople_block = from(3);
        genesis.config.istanbul_block = from(4);
        genesis.config.muir_glacier_block = from(4);
        genesis.config.berlin_block = from(5);
        genesis.config.london_block = from(5);
        genesis.config.arrow_glacier_block = from(6);
        genesis.config.gray_glacier_block = from(7);
        let spec = ChainSpec::from_genesis(&genesis).unwrap();
        for number in [
            0, 1, 199_998, 199_999, 200_000, 3_199_999, 4_370_000, 7_280_000, 12_000_000,
            15_000_000, 17_000_000,
        ] {
            for elapsed in [1, 8, 9, 12, 13, 17, 18, 19, 20, 899, 900, 909, 5_000] {
                for difficulty in [131_072_u64, 140_000, 17_179_869_184, u64::MAX] {
                    for ommers_hash in [EMPTY_OMMER_ROOT_HASH, B256::ZERO] {
                        let difficulty = U256::from(difficulty);
                        let parent = Header {
                            number,
                            difficulty,
                            ommers_hash,
                            timestamp: 100,
                            ..Header::default()
                        };
                        let rules = spec.rules(number + 1, 100 + elapsed, false);
                        let found = super::difficulty(&rules, &parent, 100 + elapsed);
                        let Some(expected) = expected(fork, *delay, &parent, 100 + elapsed) else {
                            continue;
                        };
                        assert_eq!(
                            found,
                            U256::from(expected),
                            "{fork} after {number}, {elapsed} s, {difficulty}"
                        );
                    }
                }
            }
        }
    }
}
