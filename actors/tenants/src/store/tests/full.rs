use std::process::{Command, Stdio};

use super::{steps::Model, *};
use crate::{store::checks::usage::cell, usage::Used};

fn cells(numbers: std::ops::Range<u64>, minute: u64) -> Vec<UsageCell> {
    let full = |number: u64| UsageCell {
        used: Used::from_numbers([1 << 30; Used::NUMBERS]),
        ..cell(minute, number)
    };
    numbers.map(full).collect()
}

/// Steps until the store has no space; the step that failed.
fn fill(store: &mut SqliteStore, model: &mut Model, first: u64) -> (u64, StoreError) {
    for number in first..first + 10_000 {
        let step = model.step(number);
        match store.commit(&step.commit()) {
            Ok(()) => model.make(&step),
            Err(error) => return (number, error),
        }
    }
    panic!("there was space for 10,000 steps");
}

/// Without space, a write fails as a whole, reads go on, and with space everything goes on.
#[test]
fn a_full_disk_is_survived() {
    let folder = Folder::new("full");
    let mut store = folder.open().unwrap();
    let mut model = Model::default();
    store.fill_disk(true);
    let (number, error) = fill(&mut store, &mut model, 1);
    let path = folder.file(RECORDS);
    assert_eq!(error, StoreError::Full { path: path.clone() });
    let said = format!(
        "{} has no space to grow: free some on its disk",
        path.display()
    );
    assert_eq!(error.to_string(), said);
    assert!(!error.is_misuse());
    let error = store.add_usage(&cells(0..1_000, 0)).unwrap_err();
    assert_eq!(
        error,
        StoreError::Full {
            path: folder.file(USAGE)
        }
    );
    assert_eq!(store.load().unwrap().directory, model.directory);
    assert!(
        store.load().unwrap().last_used.is_empty(),
        "all of it or nothing"
    );

    store.fill_disk(false);
    for number in number..number + 20 {
        let step = model.step(number);
        store.commit(&step.commit()).unwrap();
        model.make(&step);
    }
    store.add_usage(&cells(0..1_000, 0)).unwrap();
    drop(store);
    let loaded = folder.open().unwrap().load().unwrap();
    assert_eq!(loaded.directory, model.directory);
    assert_eq!(loaded.accounts, model.accounts);
    assert_eq!(loaded.last_used.len(), 1_000);
}

/// Usage has a bound of its own: the oldest minutes go first, and keys have space all the same.
#[test]
fn usage_is_bounded() {
    const BYTES_MAX: u64 = 1 << 20;
    let folder = Folder::new("bounded");
    let mut store = SqliteStore::open_bounded(&folder.0, BYTES_MAX).unwrap();
    let mut refused = 0;
    let mut last = 0;
    for minute in 0..100 {
        last = minute * 60_000;
        let batch = cells(0..200, last);
        while let Err(error) = store.add_usage(&batch) {
            assert_eq!(
                error,
                StoreError::Full {
                    path: folder.file(USAGE)
                }
            );
            refused += 1;
            assert!(refused < 100, "usage is refused for good");
            store.expire(UnixMillis(last)).unwrap();
        }
    }
    assert!(refused > 0);
    let bytes = fs::metadata(folder.file(USAGE)).unwrap().len();
    assert!(bytes < BYTES_MAX * 5 / 4, "{bytes} bytes");
    while store.expire(UnixMillis(last)).unwrap() {}
    store.add_usage(&cells(0..200, last)).unwrap();
    let mut model = Model::default();
    for number in 0..20 {
        let step = model.step(number);
        store.commit(&step.commit()).unwrap();
        model.make(&step);
    }
}

/// Not a test by itself: what the child of the next one does, whose files may not grow.
#[test]
fn writer_of_small_files() {
    let Some(folder) = folder_of_child() else {
        return;
    };
    let mut store = SqliteStore::open(&folder).unwrap();
    let mut model = Model::default();
    let (_, error) = fill(&mut store, &mut model, 1);
    let StoreError::Unusable { path, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(path.ends_with(RECORDS));
    assert_eq!(store.load().unwrap().directory, model.directory);
    assert_eq!(store.load().unwrap().accounts, model.accounts);
    println!("\nrefused: {error}");
}

/// A write that the system refuses is an error, not the end, and what was written before is there.
#[test]
fn errors_of_the_disk_are_survived() {
    let folder = Folder::new("limit");
    // Makes the files, so that the limit meets a commit.
    drop(folder.open().unwrap());
    let [test, rest @ ..] = arguments("full::writer_of_small_files");
    // The signal would end the process. The limit is 100 or 200 KiB, by the shell's unit.
    let script = r#"trap "" XFSZ; ulimit -f 200; exec "$@""#;
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .args(rest)
        .env(FOLDER_OF_CHILD, &folder.0)
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let said = text
        .lines()
        .find_map(|line| line.strip_prefix("refused: "))
        .unwrap();
    let path = folder.file(RECORDS).display().to_string();
    assert!(said.starts_with(&path), "{said}");
    assert!(
        said.contains("disk I/O error") && said.contains("writable"),
        "{said}"
    );
    let loaded = folder.open().unwrap().load().unwrap();
    assert!(loaded.directory.keys().len() > 0);
}
