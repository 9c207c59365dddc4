use std::fs;

use nearhead_tenants::administration::{CreateTenant, ListTenants};

use super::*;

const MAINNET: &str = "1-d4e56740";

/// A root of this test, with the folders of these chains.
fn root(test: &str, chains: &[&str]) -> (PathBuf, DataRoot) {
    let name = format!("nearhead-offline-{}-{test}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = fs::remove_dir_all(&path);
    for chain in chains {
        fs::create_dir_all(path.join(chain)).unwrap();
    }
    (path.clone(), DataRoot::Given(path))
}

#[test]
fn a_chain_is_found_by_its_id_or_because_it_is_the_only_one() {
    for (number, (chains, chain, expected)) in [
        (&[MAINNET][..], None, Ok(MAINNET)),
        (&[MAINNET], Some(1), Ok(MAINNET)),
        (&[MAINNET, "lock", "5-xyz", "05-00000000"], None, Ok(MAINNET)),
        (&[MAINNET, "5-00000000"], Some(1), Ok(MAINNET)),
        (&[MAINNET, "5-00000000"], None, Err("has data of several chains: give --chain-id, one of 1, 5")),
        (&[MAINNET, "1-00000000"], Some(1), Err("has several chains with id 1: move all but one elsewhere")),
        (&[MAINNET], Some(5), Err("has no data of chain 5: give the --data-dir and the --chain-id that nearhead runs with")),
        (&[], None, Err("has no data of a chain: give the --data-dir and the --chain-id that nearhead runs with")),
    ]
    .into_iter()
    .enumerate()
    {
        let (path, root) = root(&format!("find-{number}"), chains);
        let opened = OfflineTenants::open(&root, chain, &[]);
        match (opened, expected) {
            (Ok(opened), Ok(expected)) => assert_eq!(opened.path(), path.join(expected)),
            (Err(error), Err(expected)) => {
                assert_eq!(error.to_string(), format!("{} {expected}", path.display()));
                assert!(error.is_misuse());
            }
            (opened, expected) => panic!("{:?} for {expected:?}", opened.map(|_| ())),
        }
        let _ = fs::remove_dir_all(path);
    }
    let opened = OfflineTenants::open(&DataRoot::Memory, None, &[]);
    assert!(matches!(opened.map(|_| ()), Err(OfflineError::NoRoot)));
}

#[test]
fn one_process_uses_a_folder() {
    let (path, root) = root("one", &[MAINNET]);
    let create = CreateTenant {
        name: "alice".parse().unwrap(),
        limits: Default::default(),
    };
    {
        let mut opened = OfflineTenants::open(&root, None, &[]).unwrap();
        opened.run(create).unwrap();
        let error = OfflineTenants::open(&root, None, &[])
            .map(|_| ())
            .unwrap_err();
        assert!(matches!(error, OfflineError::InUse { .. }) && error.is_misuse());
        assert!(error.to_string().contains("--admin-url"), "{error}");
    }
    let mut opened = OfflineTenants::open(&root, None, &[]).unwrap();
    let found = opened.run(ListTenants::default()).unwrap();
    assert_eq!(found.tenants[0].name.as_str(), "alice");
    let _ = fs::remove_dir_all(path);
}

/// Nobody would read what a command changes there.
#[test]
fn the_folder_of_a_process_of_a_fleet_is_refused() {
    let (path, root) = root("fleet", &[MAINNET]);
    let folder = path.join(MAINNET);
    fleet_mark::set(&folder).unwrap();
    fleet_mark::set(&folder).unwrap();
    let refused = OfflineTenants::open(&root, None, &[]).map(|_| ());
    let error = refused.unwrap_err();
    assert!(matches!(error, OfflineError::OfFleet { .. }) && error.is_misuse());
    for part in [folder.to_str().unwrap(), "fleet's store", "--admin-url"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(!folder.join("tenants.sqlite").exists(), "nothing is made");
    // The process left the fleet.
    fleet_mark::remove(&folder).unwrap();
    fleet_mark::remove(&folder).unwrap();
    OfflineTenants::open(&root, None, &[]).unwrap();
    let _ = fs::remove_dir_all(path);
}
