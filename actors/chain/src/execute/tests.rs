#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use alloy_consensus::{Header, Signed, TxLegacy, TxReceipt};
use alloy_eips::eip4788::BEACON_ROOTS_ADDRESS;
use alloy_evm::eth::dao_fork::{DAO_HARDFORK_ACCOUNTS, DAO_HARDFORK_BENEFICIARY};
use alloy_genesis::{Genesis, GenesisAccount};
use alloy_primitives::{Address, B256, Bytes, Signature, U256, address, hex, keccak256};
use revm::precompile::{PrecompileSpecId, Precompiles};

use super::*;
use crate::{
    block::{ANCESTORS_MAX, Block, RawBlock, Transaction},
    encode::EncodeOptions,
    import::Importer,
    trie::{AccountInfo, AccountUpdate, StateUpdate, TrieError},
};

const SENDER: Address = address!("0x1000000000000000000000000000000000000001");
const CONTRACT: Address = address!("0x2000000000000000000000000000000000000002");

/// A chain with the forks up to Homestead at its genesis, and those that `change` adds.
fn genesis(change: impl FnOnce(&mut Genesis)) -> (Importer, Arc<Block>) {
    let mut genesis = Genesis::default();
    genesis.config.chain_id = 1;
    genesis.config.homestead_block = Some(0);
    let rich = GenesisAccount {
        balance: U256::from(u64::MAX),
        ..GenesisAccount::default()
    };
    genesis.alloc.insert(SENDER, rich);
    change(&mut genesis);
    let importer = Importer::new(&genesis, EncodeOptions::default()).unwrap();
    let block = importer.genesis(&genesis.alloc).unwrap();
    (importer, block)
}

/// Block 1 with these transactions, all of them from [`SENDER`].
fn first_block(transactions: Vec<TxLegacy>) -> (RawBlock, Vec<Address>) {
    let sign = |transaction| {
        Transaction::Legacy(Signed::new_unhashed(
            transaction,
            Signature::test_signature(),
        ))
    };
    let transactions: Vec<_> = transactions.into_iter().map(sign).collect();
    let senders = vec![SENDER; transactions.len()];
    let header = Header {
        number: 1,
        timestamp: 1,
        gas_limit: 30_000_000,
        ..Header::default()
    };
    (
        RawBlock {
            header,
            body: alloy_consensus::BlockBody {
                transactions,
                ..Default::default()
            },
        },
        senders,
    )
}

/// Gas and refund of a program on a slot that holds `original`; the rows are the test cases of
/// EIP-1283.
#[test]
fn constantinople_meters_net_gas() {
    let rows = [
        ("60006000556000600055", 412, 0, 0),
        ("60006000556001600055", 20_212, 0, 0),
        ("60016000556000600055", 20_212, 19_800, 0),
        ("60016000556002600055", 20_212, 0, 0),
        ("60016000556001600055", 20_212, 0, 0),
        ("60006000556000600055", 5_212, 15_000, 1),
        ("60006000556001600055", 5_212, 4_800, 1),
        ("60006000556002600055", 5_212, 0, 1),
        ("60026000556000600055", 5_212, 15_000, 1),
        ("60026000556003600055", 5_212, 0, 1),
        ("60026000556001600055", 5_212, 4_800, 1),
        ("60026000556002600055", 5_212, 0, 1),
        ("60016000556000600055", 5_212, 15_000, 1),
        ("60016000556002600055", 5_212, 0, 1),
        ("60016000556001600055", 412, 0, 1),
        ("600160005560006000556001600055", 40_218, 19_800, 0),
        ("600060005560016000556000600055", 10_218, 19_800, 1),
    ];
    for (code, gas, refund, original) in rows {
        let run = |petersburg: u64| {
            let (importer, parent) = genesis(|genesis| {
                let config = &mut genesis.config;
                config.eip150_block = Some(0);
                (config.eip155_block, config.eip158_block) = (Some(0), Some(0));
                config.byzantium_block = Some(0);
                config.constantinople_block = Some(0);
                config.petersburg_block = Some(petersburg);
                let contract = GenesisAccount {
                    code: Some(Bytes::from(hex::decode(code).unwrap())),
                    storage: Some([(B256::ZERO, B256::with_last_byte(original))].into()),
                    ..GenesisAccount::default()
                };
                genesis.alloc.insert(CONTRACT, contract);
            });
            let call = TxLegacy {
                gas_limit: 100_000,
                to: CONTRACT.into(),
                ..TxLegacy::default()
            };
            let (block, senders) = first_block(vec![call]);
            execute(importer.spec(), &parent, &block, &senders)
                .unwrap()
                .gas_used
        };
        let spent: u64 = 21_000 + gas;
        assert_eq!(
            run(2),
            spent - refund.min(spent / 2),
            "{code} over {original}"
        );
        assert!(
            run(1) >= run(2),
            "Petersburg is cheaper: {code} over {original}"
        );
    }
}

#[test]
fn the_dao_fork_moves_balances_before_the_transactions_and_keeps_emptied_accounts() {
    let (held, absent) = (DAO_HARDFORK_ACCOUNTS[0], DAO_HARDFORK_ACCOUNTS[1]);
    for supported in [true, false] {
        let (importer, parent) = genesis(|genesis| {
            genesis.config.dao_fork_block = Some(1);
            genesis.config.dao_fork_support = supported;
            let account = GenesisAccount {
                balance: U256::from(5),
                ..GenesisAccount::default()
            };
            genesis.alloc.insert(held, account);
        });
        // Sent in the block of the fork, after the balances have moved, so it stays.
        let gift = TxLegacy {
            gas_limit: 21_000,
            to: held.into(),
            value: U256::from(3),
            ..TxLegacy::default()
        };
        let (block, senders) = first_block(vec![gift]);
        let state = execute(importer.spec(), &parent, &block, &senders)
            .unwrap()
            .commit();
        let balance = |address| {
            state
                .account(&address)
                .unwrap()
                .map(|account| account.balance.to::<u64>())
        };
        let expected = if supported {
            [Some(3), Some(0), Some(5)]
        } else {
            [Some(8), None, None]
        };
        assert_eq!(
            [held, absent, DAO_HARDFORK_BENEFICIARY].map(balance),
            expected,
            "supported: {supported}"
        );
    }
}

#[test]
fn a_touched_empty_account_is_created_only_before_spurious_dragon() {
    let nobody = address!("0x00000000000000000000000000000000000000aa");
    for spurious_dragon in [None, Some(0)] {
        let (importer, parent) = genesis(|genesis| {
            let config = &mut genesis.config;
            config.eip150_block = Some(0);
            (config.eip155_block, config.eip158_block) = (spurious_dragon, spurious_dragon);
        });
        let nothing = TxLegacy {
            gas_limit: 21_000,
            to: nobody.into(),
            ..TxLegacy::default()
        };
        let (block, senders) = first_block(vec![nothing]);
        let executed = execute(importer.spec(), &parent, &block, &senders).unwrap();
        // Before Byzantium a receipt has the state root after its transaction; the reward changes
        // the state after that.
        assert!(executed.receipts[0].status_or_post_state().is_post_state());
        let state = executed.commit();
        assert_eq!(
            state.account(&nobody).unwrap().is_some(),
            spurious_dragon.is_none()
        );
    }
}

#[test]
fn a_block_needs_its_parents_state_and_one_sender_per_transaction() {
    let (importer, parent) = genesis(|_| ());
    let (block, _) = first_block(vec![TxLegacy::default()]);
    let error = execute(importer.spec(), &parent, &block, &[]).unwrap_err();
    assert!(
        matches!(
            error,
            ExecuteError::Senders {
                transactions: 1,
                senders: 0
            }
        ),
        "{error}"
    );
    let mut stateless = Arc::into_inner(parent).unwrap();
    stateless.state = None;
    let error = execute(importer.spec(), &stateless, &block, &[SENDER]).unwrap_err();
    assert!(
        matches!(error, ExecuteError::NoParentState { number: 0 }),
        "{error}"
    );
}

/// Checks the error of block 1 if its parent's account `broken` cannot be read because its code is
/// missing.
#[track_caller]
fn check_state_error(name: &str, broken: Address, change: impl FnOnce(&mut Genesis)) {
    let (importer, parent) = genesis(change);
    let mut parent = Arc::into_inner(parent).unwrap();
    let state = parent.state.take().unwrap();
    let hash = B256::repeat_byte(7);
    let account = AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::ZERO,
            code_hash: hash,
        }),
        ..AccountUpdate::default()
    };
    let update = StateUpdate {
        accounts: [(broken, account)].into_iter().collect(),
        ..StateUpdate::default()
    };
    parent.state = Some(state.commit(state.update(&update).unwrap()));
    let call = TxLegacy {
        gas_limit: 100_000,
        to: CONTRACT.into(),
        ..TxLegacy::default()
    };
    let (mut block, senders) = first_block(vec![call]);
    block.header.parent_beacon_block_root = Some(B256::ZERO);
    block.header.excess_blob_gas = Some(0);
    let error = execute(importer.spec(), &parent, &block, &senders).unwrap_err();
    let expected = StateError::Trie(TrieError::MissingCode { hash });
    assert!(
        matches!(&error, ExecuteError::State(found) if *found == expected),
        "{name}: {error:?}"
    );
}

#[test]
fn an_error_of_the_state_is_not_blamed_on_the_block() {
    check_state_error("in a transaction", CONTRACT, |_| ());
    check_state_error("in a system call", BEACON_ROOTS_ADDRESS, |genesis| {
        let config = &mut genesis.config;
        let zero = Some(0);
        for fork in [
            &mut config.eip150_block,
            &mut config.eip155_block,
            &mut config.eip158_block,
            &mut config.byzantium_block,
            &mut config.constantinople_block,
            &mut config.petersburg_block,
            &mut config.istanbul_block,
            &mut config.berlin_block,
            &mut config.london_block,
            &mut config.shanghai_time,
            &mut config.cancun_time,
        ] {
            *fork = zero;
        }
        config.terminal_total_difficulty = Some(U256::ZERO);
    });
}

/// BLOCKHASH knows the 256 blocks before the executed one, and no others.
#[test]
fn blockhash_reaches_256_blocks() {
    const NUMBER: u64 = 300;
    let hash_of = |number: u64| keccak256(number.to_be_bytes());
    for (distance, known) in [
        (0, false),
        (1, true),
        (2, true),
        (255, true),
        (256, true),
        (257, false),
    ] {
        // Stores BLOCKHASH of NUMBER - distance in slot 0.
        let code = hex::decode(format!("61{distance:04x}430340600055"));
        let (importer, parent) = genesis(|genesis| {
            let contract = GenesisAccount {
                code: Some(code.unwrap().into()),
                ..GenesisAccount::default()
            };
            genesis.alloc.insert(CONTRACT, contract);
        });
        let mut parent = Arc::into_inner(parent).unwrap();
        parent.header.number = NUMBER - 1;
        parent.hash = hash_of(NUMBER - 1);
        let ancestors = (2..).map(|below| hash_of(NUMBER - below));
        parent.ancestors = ancestors.take(ANCESTORS_MAX).collect();
        let call = TxLegacy {
            gas_limit: 100_000,
            to: CONTRACT.into(),
            ..TxLegacy::default()
        };
        let (mut block, senders) = first_block(vec![call]);
        block.header.number = NUMBER;
        let executed = execute(importer.spec(), &parent, &block, &senders).unwrap();
        let found = executed.commit().storage(&CONTRACT, U256::ZERO).unwrap();
        let expected = if known {
            hash_of(NUMBER - distance)
        } else {
            B256::ZERO
        };
        assert_eq!(B256::from(found), expected, "{distance} blocks before");
    }
}

/// Calls several precompiles once each, with test vectors of EIPs or identities of the groups.
#[test]
fn precompiles_exist_from_their_fork_on() {
    const G1: [u8; 128] = hex!(
        "0000000000000000000000000000000017f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb"
        "0000000000000000000000000000000008b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1"
    );
    /// y of the negated generator.
    const MINUS_G1_Y: [u8; 64] = hex!(
        "00000000000000000000000000000000114d1d6855d545a8aa7d76c8cf2e21f267816aef1db507c96655b9d5caac42364e6f38ba0ecb751bad54dcd6b939c2ca"
    );
    const G2: [u8; 256] = hex!(
        "00000000000000000000000000000000024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8"
        "0000000000000000000000000000000013e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e"
        "000000000000000000000000000000000ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801"
        "000000000000000000000000000000000606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79be"
    );
    let minus_g1 = [&G1[..64], &MINUS_G1_Y].concat();
    let word = |value: u8| B256::with_last_byte(value).to_vec();
    let kzg = hex!(
        "01e798154708fe7789429634053cbf9f99b619f9f084048927333fce637f549b564c0a11a0f704f4fc3e8acfe0f8245f0ad1347b378fbf96e206da11a5d36306"
        "24d25032e67a7e6a4910df5834b8fe70e6bcfeeac0352434196bdf4b2485d5a18f59a8d2a1a625a17f3fea0fe5eb8c896db3764f3185481bc22f91b4aaffcca2"
        "5f26936857bc3a7c2539ea8ec3a952b7873033e038326e87ed3e1276fd140253fa08e9fc25fb2d9a98527fc22a2c9612fbeafdad446cbc7bcdbdcd780af2c16a"
    );
    let kzg_output = hex!(
        "0000000000000000000000000000000000000000000000000000000000001000"
        "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001"
    );
    let p256 = hex!(
        "4cee90eb86eaa050036147a12d49004b6b9c72bd725d39d4785011fe190f0b4da73bd4903f0ce3b639bbbf6e8e80d16931ff4bcf5993d58468e8fb19086e8cac"
        "36dbcd03009df8c59286b162af3bd7fcc0450c9aa81be5d10d312af6c66b1d604aebd3099c618202fcfe16ae7770b0c49ab5eadf74b754204a3bb6060e44eff3"
        "7618b065f9832de4ca6ca971a7a1adc826d0f7c00181a5fb2ddf79ae00b4e10e"
    );
    use PrecompileSpecId as Since;
    type Row = (&'static str, u16, Since, Vec<u8>, Vec<u8>);
    let rows: [Row; 7] = [
        // 3^5 mod 7.
        (
            "modexp",
            0x05,
            Since::BYZANTIUM,
            [word(1), word(1), word(1), vec![3, 5, 7]].concat(),
            vec![5],
        ),
        (
            "point evaluation",
            0x0a,
            Since::CANCUN,
            kzg.to_vec(),
            kzg_output.to_vec(),
        ),
        (
            "G1 add",
            0x0b,
            Since::PRAGUE,
            [&G1, &minus_g1[..]].concat(),
            vec![0; 128],
        ),
        (
            "G1 multiply",
            0x0c,
            Since::PRAGUE,
            [&G1, &word(1)[..]].concat(),
            G1.to_vec(),
        ),
        (
            "G2 multiply",
            0x0e,
            Since::PRAGUE,
            [&G2, &word(1)[..]].concat(),
            G2.to_vec(),
        ),
        (
            "pairing",
            0x0f,
            Since::PRAGUE,
            [&G1[..], &G2, &minus_g1, &G2].concat(),
            word(1),
        ),
        ("P256 verify", 0x100, Since::OSAKA, p256.to_vec(), word(1)),
    ];
    let forks = [
        Since::HOMESTEAD,
        Since::BYZANTIUM,
        Since::BERLIN,
        Since::CANCUN,
        Since::PRAGUE,
        Since::OSAKA,
    ];
    for (name, number, since, input, output) in rows {
        let mut address = Address::ZERO;
        address[18..].copy_from_slice(&number.to_be_bytes());
        for fork in forks {
            let precompile = Precompiles::new(fork).get(&address);
            assert_eq!(precompile.is_some(), fork >= since, "{name} in {fork:?}");
        }
        let result = Precompiles::osaka()
            .get(&address)
            .unwrap()
            .execute(&input, 1_000_000, 0)
            .unwrap();
        assert_eq!(result.bytes, output, "{name}");
    }
}
