#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

const GENESIS: B256 = B256::repeat_byte(0xab);
const HASH: B256 = B256::repeat_byte(1);

/// A finalized block of this number, and no safe one.
fn finalized(number: u64) -> SettledBlocks {
    SettledBlocks {
        safe: None,
        finalized: Some((number, HASH)),
    }
}

/// A folder of this process and test; dropping the value removes it.
struct Root(PathBuf);

impl Root {
    fn new(test: &str) -> Self {
        let name = format!("nearhead-data-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Opens the folder of chain 1.
    fn open(&self) -> Result<DataFolder, DataFolderError> {
        DataFolder::open(&self.0, 1, GENESIS)
    }

    /// The path of a file of chain 1.
    fn file(&self, name: &str) -> PathBuf {
        self.0.join("1-abababab").join(name)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn settled_blocks_outlive_the_process() {
    let root = Root::new("outlives");
    let mut folder = root.open().unwrap();
    assert_eq!(folder.path(), root.0.join("1-abababab"));
    let nothing = SettledBlocks::default();
    assert_eq!(folder.settled(), nothing);
    folder.save(nothing, Instant::now()).unwrap();
    folder.flush().unwrap();
    assert!(!root.file(SETTLED).exists());
    let (block, safe) = (Some((u64::MAX, HASH)), Some((3, GENESIS)));
    let both = SettledBlocks {
        safe,
        finalized: block,
    };
    let only = |safe, finalized| SettledBlocks { safe, finalized };
    let of = |name: &str, number: u64, hash| {
        format!(r#","{name}":{{"number":{number},"hash":"{hash}"}}"#)
    };
    for (kept, expected, members) in [
        (only(safe, None), only(safe, None), of("safe", 3, GENESIS)),
        (
            only(None, block),
            both,
            of("finalized", u64::MAX, HASH) + &of("safe", 3, GENESIS),
        ),
        // That nothing is known to be safe any more takes nothing out of the file.
        (
            nothing,
            both,
            of("finalized", u64::MAX, HASH) + &of("safe", 3, GENESIS),
        ),
    ] {
        folder.save(kept, Instant::now()).unwrap();
        folder.flush().unwrap();
        assert_eq!(folder.settled(), expected);
        drop(folder);
        folder = root.open().unwrap();
        assert_eq!(folder.settled(), expected);
        let text = fs::read_to_string(root.file(SETTLED)).unwrap();
        let start = format!(r#"{{"version":2,"chainId":1,"genesis":"{GENESIS}""#);
        assert_eq!(text, format!("{start}{members}}}"));
    }
    // Other chains have folders of their own.
    for (chain_id, genesis) in [(2, GENESIS), (1, HASH)] {
        let other = DataFolder::open(&root.0, chain_id, genesis).unwrap();
        assert_eq!(other.settled(), nothing);
    }
}

#[test]
fn a_write_that_is_cut_short_leaves_the_file_as_it_was() {
    let root = Root::new("atomic");
    let mut folder = root.open().unwrap();
    folder.save(finalized(7), Instant::now()).unwrap();
    drop(folder);
    fs::write(root.file(UNFINISHED), "{\"vers").unwrap();
    let mut folder = root.open().unwrap();
    assert_eq!(folder.settled(), finalized(7));
    folder.save(finalized(8), Instant::now()).unwrap();
    assert!(!root.file(UNFINISHED).exists());
}

#[test]
fn writes_are_a_second_apart() {
    let root = Root::new("paced");
    let mut folder = root.open().unwrap();
    let start = Instant::now();
    let written = || {
        let found = read(&root.file(SETTLED), 1, GENESIS).unwrap();
        found.finalized.map(|(number, _)| number)
    };
    for (millis, number, expected, due) in [
        (0, 1, 1, None),
        (1, 2, 1, Some(999)),
        (999, 3, 1, Some(1)),
        (1_000, 4, 4, None),
        (1_001, 5, 4, Some(999)),
        // The time since the write counts, not that since the block.
        (2_000, 5, 5, None),
        (4_000, 5, 5, None),
    ] {
        let now = start + Duration::from_millis(millis);
        folder.save(finalized(number), now).unwrap();
        assert_eq!(written(), Some(expected), "{millis}");
        assert_eq!(
            folder.due_in(now),
            due.map(Duration::from_millis),
            "{millis}"
        );
    }
    // The same block is not written again, and does not delay the next one.
    let now = start + Duration::from_millis(4_001);
    folder.save(finalized(6), now).unwrap();
    assert_eq!(written(), Some(6));
    // What waits is written without another block.
    folder.save(finalized(7), now).unwrap();
    folder.write_due(now).unwrap();
    assert_eq!(written(), Some(6));
    folder.write_due(now + WRITE_INTERVAL).unwrap();
    assert_eq!(written(), Some(7));
    folder.save(finalized(8), now + WRITE_INTERVAL).unwrap();
    folder.flush().unwrap();
    assert_eq!(written(), Some(8));
}

#[test]
fn a_failed_write_is_tried_again() {
    let root = Root::new("retried");
    let mut folder = root.open().unwrap();
    fs::create_dir(root.file(SETTLED)).unwrap();
    let now = Instant::now();
    assert!(folder.save(finalized(7), now).is_err());
    assert_eq!(folder.settled(), finalized(7), "in memory");
    fs::remove_dir(root.file(SETTLED)).unwrap();
    assert!(folder.save(finalized(7), now).is_ok());
    assert!(!root.file(SETTLED).exists(), "a full disk has some time");
    assert_eq!(folder.due_in(now), Some(FAILED_PAUSE));
    folder.write_due(now + FAILED_PAUSE).unwrap();
    assert!(root.file(SETTLED).exists());
}

#[test]
fn a_folder_has_one_process() {
    let root = Root::new("locked");
    let first = root.open().unwrap();
    let error = root.open().unwrap_err();
    assert!(matches!(error, DataFolderError::InUse { .. }), "{error:?}");
    assert!(error.is_misuse());
    let folder = root.0.join("1-abababab").display().to_string();
    assert_eq!(
        error.to_string(),
        format!(
            "{folder} is in use by another nearhead: give this one a --data-dir of its own, or none"
        )
    );
    // Another chain in the same root is no conflict.
    DataFolder::open(&root.0, 2, GENESIS).unwrap();
    drop(first);
    root.open().unwrap();
}

#[test]
fn a_chain_is_known_by_its_folder() {
    let root = Root::new("known");
    let given = DataRoot::Given(root.0.clone());
    assert!(!given.has_chain(1, GENESIS));
    let mut folder = root.open().unwrap();
    let mut namesake = GENESIS;
    namesake.0[31] ^= 1;
    // Without a file, nothing shows which of the two it is.
    assert!(given.has_chain(1, GENESIS) && given.has_chain(1, namesake));
    folder.save(finalized(7), Instant::now()).unwrap();
    assert!(given.has_chain(1, GENESIS));
    assert!(DataRoot::Auto(Some(root.0.clone())).has_chain(1, GENESIS));
    for (chain_id, genesis) in [(1, namesake), (1, HASH), (2, GENESIS)] {
        assert!(!given.has_chain(chain_id, genesis), "{chain_id} {genesis}");
    }
    assert!(!DataRoot::Auto(None).has_chain(1, GENESIS));
    assert!(!DataRoot::Memory.has_chain(1, GENESIS));
}

#[test]
fn a_file_that_cannot_be_understood_is_an_error_that_names_it() {
    let file = |chain_id: &str, genesis: B256, rest: &str| {
        format!(
            r#"{{"version":1,"chainId":{chain_id},"genesis":"{genesis}","finalized":{{"number":5,"hash":"{HASH}"}}{rest}}}"#
        )
    };
    let good = file("1", GENESIS, "");
    let large = format!("{good}{}", " ".repeat(FILE_BYTES_MAX as usize));
    for (text, expected, is_misuse) in [
        (good.clone(), "", false),
        (good.replace("\"version\":1", "\"version\":2"), "", false),
        (String::new(), "is damaged (EOF", false),
        (good[..40].to_owned(), "is damaged (EOF", false),
        ("[]".to_owned(), "is damaged (", false),
        (
            good.replace("\"version\":1", "\"version\":0"),
            "is damaged (format 0",
            false,
        ),
        (
            good.replace("\"version\":1", "\"version\":-1"),
            "is damaged (",
            false,
        ),
        // A newer format may have other members.
        (
            r#"{"version":3,"more":[]}"#.to_owned(),
            "has format 3",
            false,
        ),
        (
            format!(r#"{{"version":1,"chainId":1,"genesis":"{GENESIS}"}}"#),
            "is damaged (format 1 has",
            false,
        ),
        (
            file(
                "1",
                GENESIS,
                &format!(r#","safe":{{"number":6,"hash":"{HASH}"}}"#),
            ),
            "is damaged (format 1 has",
            false,
        ),
        (good.replace(":5,", ":\"5\","), "is damaged (", false),
        (
            good.replace(":5,", ":18446744073709551616,"),
            "is damaged (",
            false,
        ),
        (good.replace("0x01", "0x"), "is damaged (", false),
        (
            file("1", GENESIS, ",\"x\":1"),
            "is damaged (unknown field `x`",
            false,
        ),
        (large, "is damaged (it has more than 4096 bytes)", false),
        (
            file("2", GENESIS, ""),
            "is of chain 2 with genesis 0xabab",
            true,
        ),
        (
            file("1", HASH, ""),
            "is of chain 1 with genesis 0x0101",
            true,
        ),
    ] {
        let root = Root::new("damaged");
        drop(root.open().unwrap());
        let path = root.file(SETTLED);
        fs::write(&path, &text).unwrap();
        match root.open() {
            Ok(folder) => {
                assert_eq!(expected, "", "{text}");
                assert_eq!(folder.settled(), finalized(5));
            }
            Err(error) => {
                assert_eq!(error.is_misuse(), is_misuse, "{text}");
                let message = error.to_string();
                let expected = format!("{} {expected}", path.display());
                assert!(message.starts_with(&expected), "{text}: {message}");
                // It stays as it is, for a person to look at.
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
            }
        }
    }
}

#[test]
fn only_a_folder_that_the_operator_named_has_to_be_usable() {
    let root = Root::new("root");
    let file = root.0.join("file");
    fs::write(&file, "").unwrap();
    let (usable, unusable) = (root.0.join("a/b"), file.join("c"));
    let [given, bad_given] = [&usable, &unusable].map(|path| DataRoot::Given(path.clone()));
    let [auto, bad_auto] = [&usable, &unusable].map(|path| DataRoot::Auto(Some(path.clone())));
    for (root, is_known, expected) in [
        (&DataRoot::Memory, true, Ok(false)),
        (&DataRoot::Auto(None), true, Ok(false)),
        (&given, true, Ok(true)),
        (&given, false, Ok(true)),
        (&auto, true, Ok(true)),
        // A node for development may start again from its genesis.
        (&auto, false, Ok(false)),
        (&bad_auto, true, Ok(false)),
        (&bad_auto, false, Ok(false)),
        (&bad_given, true, Err(())),
    ] {
        let opened = root.open(1, GENESIS, is_known);
        if let Err(error) = &opened {
            assert!(
                matches!(error, DataFolderError::Unusable { .. }),
                "{error:?}"
            );
            let message = error.to_string();
            assert!(
                message.starts_with(&unusable.display().to_string()),
                "{message}"
            );
            assert!(message.ends_with("give a --data-dir that can be written, or none"));
        }
        let found = opened.map(|folder| folder.is_some()).map_err(|_| ());
        assert_eq!(found, expected, "{root:?} {is_known}");
    }
    // A folder in use is an error even if the operator did not name it.
    let _held = DataFolder::open(&usable, 1, GENESIS).unwrap();
    let error = auto.open(1, GENESIS, true).unwrap_err();
    assert!(matches!(error, DataFolderError::InUse { .. }), "{error:?}");
}
