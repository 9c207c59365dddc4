use std::{
    os::unix::{fs::MetadataExt as _, fs::PermissionsExt as _, process::CommandExt as _},
    process::Command,
};

use rusqlite::Connection;

use super::{steps::Model, *};
use crate::{
    audit::AuditQuery,
    id::TenantId,
    store::checks::usage::all_usage,
    usage::{GroupBy, KeyOwner, Resolution, UsageOf, Used},
};

/// A store of some hundred records; what is in it.
fn filled(folder: &Folder) -> Loaded {
    let mut store = folder.open().unwrap();
    let mut model = Model::default();
    for number in 0..300 {
        let step = model.step(number);
        store.commit(&step.commit()).unwrap();
        model.make(&step);
    }
    let cell = |number: u64| UsageCell {
        minute: UnixMillis(number * 30_000),
        key: KeyId::of_configured(&(number % 50).to_string()),
        owner: None,
        method: "eth_call".into(),
        outcome: "ok".into(),
        last: UnixMillis(number * 30_000),
        used: Used::from_numbers([number; Used::NUMBERS]),
    };
    store
        .add_usage(&(0..500).map(cell).collect::<Vec<_>>())
        .unwrap();
    let loaded = store.load().unwrap();
    assert_eq!(loaded.directory, model.directory);
    loaded
}

/// Everything that can be read.
fn read_all(store: &mut SqliteStore) -> Result<Loaded, StoreError> {
    let loaded = store.load()?;
    let entries_max = 1_000;
    // What is read at run time may fail, and may not end the process.
    let _ = store.audit(&AuditQuery {
        entries_max,
        ..AuditQuery::default()
    });
    for resolution in Resolution::ALL {
        let _ = store.usage(&all_usage(
            resolution,
            GroupBy {
                time: true,
                key: true,
                method: true,
                outcome: true,
            },
            10_000,
        ));
    }
    let _ = store.expire(UnixMillis(u64::MAX));
    Ok(loaded)
}

/// Wherever bytes of the tenants' file change, the store has every record or says that the file is
/// no good; nothing panics.
#[test]
fn damaged_records_are_noticed() {
    let folder = Folder::new("damaged");
    let whole = filled(&folder);
    let [records, usage] = [RECORDS, USAGE].map(|name| fs::read(folder.file(name)).unwrap());
    let mut noticed = 0;
    let all = rounds(150, 10_000);
    for seed in 0..all {
        let mut random = Random(seed);
        let mut damaged = records.clone();
        // The first page is small, and has what SQLite trusts.
        let end = if seed % 4 == 0 {
            100
        } else {
            damaged.len() as u64
        };
        for _ in 0..=random.below(3) {
            damaged[random.below(end) as usize] ^= 1 + random.below(255) as u8;
        }
        if seed % 10 == 9 {
            damaged.truncate(1 + random.below(records.len() as u64 - 1) as usize);
        }
        fs::write(folder.file(RECORDS), &damaged).unwrap();
        fs::write(folder.file(USAGE), &usage).unwrap();
        match folder.open().and_then(|mut store| read_all(&mut store)) {
            Ok(loaded) => {
                assert_eq!(loaded.directory, whole.directory, "seed {seed}");
                assert_eq!(loaded.accounts, whole.accounts, "seed {seed}");
            }
            Err(
                StoreError::Damaged { path, .. }
                | StoreError::OtherProgram { path }
                | StoreError::Newer { path, .. }
                | StoreError::Unusable { path, .. },
            ) => {
                assert_eq!(path, folder.file(RECORDS));
                noticed += 1;
            }
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
        for name in [RECORDS, USAGE] {
            let _ = fs::remove_file(folder.file(&format!("{name}-wal")));
            let _ = fs::remove_file(folder.file(&format!("{name}-journal")));
        }
    }
    assert!(noticed > all / 3, "{noticed} of {all}");
}

/// Damaged usage harms no key: the store has all of them, or says which file is no good.
#[test]
fn damaged_usage_harms_no_key() {
    let folder = Folder::new("damaged-usage");
    let whole = filled(&folder);
    let usage = fs::read(folder.file(USAGE)).unwrap();
    for seed in 0..rounds(100, 5_000) {
        let mut random = Random(seed);
        let mut damaged = usage.clone();
        let end = if seed % 4 == 0 {
            100
        } else {
            damaged.len() as u64
        };
        for _ in 0..=random.below(3) {
            damaged[random.below(end) as usize] ^= 1 + random.below(255) as u8;
        }
        fs::write(folder.file(USAGE), &damaged).unwrap();
        match folder.open().and_then(|mut store| read_all(&mut store)) {
            Ok(loaded) => assert_eq!(loaded.directory, whole.directory, "seed {seed}"),
            Err(error) => {
                let text = error.to_string();
                let path = folder.file(USAGE).display().to_string();
                assert!(text.starts_with(&path), "seed {seed}: {text}");
                assert!(
                    !matches!(error, StoreError::Failed { .. }),
                    "seed {seed}: {text}"
                );
            }
        }
        let _ = fs::remove_file(folder.file(&format!("{USAGE}-wal")));
        let _ = fs::remove_file(folder.file(&format!("{USAGE}-journal")));
    }
}

/// A damaged log is an end of the log: the store is as it was after one of the steps.
#[test]
fn a_damaged_log_is_a_shorter_log() {
    let folder = Folder::new("log");
    let mut store = folder.open().unwrap();
    let mut model = Model::default();
    let mut states = vec![model.clone()];
    for number in 0..30 {
        let step = model.step(number);
        store.commit(&step.commit()).unwrap();
        model.make(&step);
        states.push(model.clone());
    }
    let log_name = format!("{RECORDS}-wal");
    let [records, log] = [RECORDS, &log_name].map(|name| fs::read(folder.file(name)).unwrap());
    drop(store);
    let mut shorter = 0;
    for seed in 0..rounds(40, 2_000) {
        let mut random = Random(seed);
        let mut damaged = log.clone();
        let at = random.below(log.len() as u64) as usize;
        damaged[at] ^= 1 + random.below(255) as u8;
        fs::write(folder.file(RECORDS), &records).unwrap();
        fs::write(folder.file(&log_name), &damaged).unwrap();
        match folder.open().and_then(|mut store| read_all(&mut store)) {
            Ok(loaded) => {
                let Loaded {
                    directory,
                    accounts,
                    ..
                } = loaded;
                let found = Model {
                    directory,
                    accounts,
                };
                assert!(states.contains(&found), "seed {seed}");
                shorter += u64::from(found != model);
            }
            Err(StoreError::Damaged { .. }) => {}
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
    }
    assert!(shorter > 0);
}

/// A file that cannot be used is an error at the start, which names it and says what to do.
#[test]
fn other_files_are_refused() {
    type Spoil = fn(&Path);
    let run = |path: &Path, sql: &str| {
        Connection::open(path).unwrap().execute_batch(sql).unwrap();
    };
    for name in [RECORDS, USAGE] {
        let cases: &[(Spoil, &str, bool)] = &[
            (
                |path| {
                    fs::write(
                        path,
                        "not a database, but a text of more than 100 bytes. ".repeat(9),
                    )
                    .unwrap()
                },
                "is damaged (file is not a database): restore it from a backup, or remove it to start \
                 without",
                false,
            ),
            (
                |path| fs::write(path, [0; 4_096]).unwrap(),
                "is damaged (file is not a database)",
                false,
            ),
            (
                |path| {
                    fs::remove_file(path).unwrap();
                    fs::create_dir(path).unwrap();
                },
                "cannot be read and written (it is no file)",
                false,
            ),
        ];
        let sql_cases = [
            (
                "PRAGMA user_version = 7",
                "has format 7, and this nearhead knows formats up to",
                false,
            ),
            (
                "PRAGMA user_version = 0",
                "is damaged (format 0 does not exist)",
                false,
            ),
            (
                "PRAGMA user_version = -1",
                "is damaged (format -1 does not exist)",
                false,
            ),
            (
                "PRAGMA application_id = 7",
                "is a database of another program: give another --data-dir",
                true,
            ),
            (
                "PRAGMA application_id = 0",
                "is a database of another program",
                true,
            ),
            (
                "DROP TABLE key",
                "is damaged (its tables are not those of its format)",
                false,
            ),
            (
                "CREATE TABLE more (a)",
                "is damaged (its tables are not those of its format)",
                false,
            ),
        ];
        let check = |folder: &Folder, expected: &str, is_misuse: bool| {
            let error = folder.open().unwrap_err();
            let path = folder.file(name).display().to_string();
            let text = error.to_string();
            assert!(text.starts_with(&format!("{path} {expected}")), "{text}");
            assert_eq!(error.is_misuse(), is_misuse, "{text}");
        };
        for (spoil, expected, is_misuse) in cases {
            let folder = Folder::new("refused");
            drop(folder.open().unwrap());
            spoil(&folder.file(name));
            check(&folder, expected, *is_misuse);
        }
        for (sql, expected, is_misuse) in sql_cases {
            let folder = Folder::new("refused");
            drop(folder.open().unwrap());
            run(&folder.file(name), sql);
            check(&folder, expected, is_misuse);
        }
    }
}

/// A record that was changed by hand, taken out or put back is noticed.
#[test]
fn altered_records_are_noticed() {
    for (sql, expected) in [
        (
            "UPDATE key SET record = replace(record, 'revoked', 'created')",
            "a record of table key was altered",
        ),
        (
            "UPDATE key SET owner = (SELECT id FROM tenant LIMIT 1)",
            "a record of table key was altered",
        ),
        (
            "DELETE FROM key WHERE record LIKE '%revoked%'",
            "records are missing, or old",
        ),
        ("DELETE FROM state", "Query returned no rows"),
    ] {
        let folder = Folder::new("altered");
        filled(&folder);
        let connection = Connection::open(folder.file(RECORDS)).unwrap();
        connection.execute_batch(sql).unwrap();
        drop(connection);
        let error = folder.open().unwrap().load().unwrap_err();
        let StoreError::Damaged {
            reason, content, ..
        } = &error
        else {
            panic!("{sql}: {error:?}");
        };
        assert_eq!(reason, expected, "{sql}");
        assert_eq!(*content, "its tenants, keys and administrators");
    }
}

#[test]
fn a_file_in_use_is_refused() {
    let folder = Folder::new("in-use");
    let store = folder.open().unwrap();
    let error = folder.open().unwrap_err();
    assert_eq!(
        error,
        StoreError::InUse {
            path: folder.file(RECORDS)
        }
    );
    assert!(error.is_misuse());
    drop(store);
    folder.open().unwrap();
}

/// A start that was ended by force leaves an empty file.
#[test]
fn an_empty_file_is_a_new_one() {
    let folder = Folder::new("empty");
    for name in [RECORDS, USAGE] {
        fs::write(folder.file(name), "").unwrap();
    }
    let mut store = folder.open().unwrap();
    assert_eq!(store.load().unwrap(), Loaded::default());
}

/// Nobody else may read digests.
#[test]
fn files_are_private() {
    let folder = Folder::new("private");
    let _store = filled(&folder);
    for name in [RECORDS, USAGE] {
        let mode = fs::metadata(folder.file(name)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Not a test by itself: what the child of the next one does.
#[test]
fn opener() {
    if let Some(folder) = folder_of_child() {
        match SqliteStore::open(&folder) {
            Ok(_) => println!("\nopened"),
            Err(error) => println!("\nrefused: {error}"),
        }
    }
}

/// What cannot be written is refused at the start, not at the first write.
#[test]
fn a_store_that_cannot_be_written_is_refused() {
    let home = Folder::new("read-only");
    fs::set_permissions(&home.0, fs::Permissions::from_mode(0o755)).unwrap();
    // The system lets root write everything, so that root has the child run as nobody.
    let is_root = fs::metadata(&home.0).unwrap().uid() == 0;
    let program = home.file("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let open = |folder: &Path| {
        let mut command = Command::new(&program);
        command
            .args(arguments("start::opener"))
            .env(FOLDER_OF_CHILD, folder);
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        let said = text
            .lines()
            .find(|line| *line == "opened" || line.starts_with("refused: "));
        said.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    // Modes of the folder and of its files, if there are any; what is said.
    for (case, folder_mode, file_mode, expected) in [
        ("all", 0o777, Some(0o666), "opened"),
        ("new", 0o777, None, "opened"),
        ("new-in-read-only", 0o555, None, "Permission denied"),
        (
            "no-log",
            0o555,
            Some(0o666),
            "attempt to write a readonly database",
        ),
        ("no-write", 0o777, Some(0o444), "Permission denied"),
        ("no-read", 0o777, Some(0o000), "Permission denied"),
    ] {
        let folder = home.file(case);
        fs::create_dir(&folder).unwrap();
        if let Some(mode) = file_mode {
            drop(SqliteStore::open(&folder).unwrap());
            for name in [RECORDS, USAGE] {
                fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(folder_mode)).unwrap();
        let said = open(&folder);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        if expected == "opened" {
            assert_eq!(said, expected, "{case}");
            continue;
        }
        let path = folder.join(RECORDS).display().to_string();
        let begin = format!("refused: {path} cannot be read and written ({expected}");
        assert!(said.starts_with(&begin), "{case}: {said}");
        assert!(said.ends_with("make it and its folder writable, or give another --data-dir"));
    }
}

/// A store of an older format has the same in the newest one.
#[test]
fn older_records_are_brought_up_to_date() {
    let folder = Folder::new("older");
    let mut store = folder.open().unwrap();
    let mut model = Model::default();
    for number in 0..20 {
        let step = model.step(number);
        store.commit(&step.commit()).unwrap();
        model.make(&step);
    }
    let query = AuditQuery {
        entries_max: 100,
        ..AuditQuery::default()
    };
    let entries = store.audit(&query).unwrap();
    drop(store);
    let raw = Connection::open(folder.file(RECORDS)).unwrap();
    let older = "DROP INDEX audit_login; DROP INDEX audit_refusal; DROP INDEX audit_change;
                 PRAGMA user_version = 1";
    raw.execute_batch(older).unwrap();
    drop(raw);
    let mut store = folder.open().unwrap();
    assert_eq!(store.load().unwrap().directory, model.directory);
    assert_eq!(store.audit(&query).unwrap(), entries);
    assert!(!store.expire(UnixMillis(0)).unwrap());
}

/// Makes `usage.sqlite` what the first format would have of it.
fn lower_usage(folder: &Folder) {
    let path = folder.file(USAGE);
    let newest = folder.file("newest");
    fs::rename(&path, &newest).unwrap();
    let first = Connection::open(&path).unwrap();
    let application_id = {
        let newest = Connection::open(&newest).unwrap();
        newest.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0))
    };
    first
        .execute_batch(include_str!("../sqlite/usage_1.sql"))
        .unwrap();
    first
        .pragma_update(None, "application_id", application_id.unwrap())
        .unwrap();
    first.pragma_update(None, "user_version", 1).unwrap();
    first
        .execute("ATTACH ?1 AS newest", [newest.to_str().unwrap()])
        .unwrap();
    let columns = "number, id, tenant, last_used";
    first
        .execute_batch(&format!(
            "INSERT INTO key ({columns}) SELECT {columns} FROM newest.key;
             INSERT INTO label SELECT * FROM newest.label;
             INSERT INTO minute SELECT * FROM newest.minute;
             INSERT INTO hour SELECT * FROM newest.hour;
             INSERT INTO day SELECT * FROM newest.day;"
        ))
        .unwrap();
}

/// Usage of an older format is the same in the newest one, and what comes later counts for chains.
#[test]
fn older_usage_is_brought_up_to_date() {
    let folder = Folder::new("older-usage");
    let [first, second, other] = ["first", "second", "other"].map(KeyId::of_configured);
    let tenant = TenantId::of_configured("tenant");
    let cell = |key: KeyId, chain: Option<KeyId>, requests: u64| UsageCell {
        minute: UnixMillis(600_000),
        key,
        owner: Some(KeyOwner { tenant, chain }),
        method: "eth_call".into(),
        outcome: "ok".into(),
        last: UnixMillis(600_000 + requests),
        used: Used {
            requests,
            ..Used::default()
        },
    };
    let mut store = folder.open().unwrap();
    store
        .add_usage(&[
            cell(first, None, 1),
            cell(second, None, 2),
            cell(other, None, 4),
        ])
        .unwrap();
    let answers = |store: &mut SqliteStore, of: UsageOf| {
        Resolution::ALL.map(|resolution| {
            let query = UsageQuery {
                of: of.clone(),
                resolution,
                from: UnixMillis(0),
                to: UnixMillis(u64::MAX),
                by: GroupBy {
                    time: true,
                    key: true,
                    method: true,
                    outcome: true,
                },
                rows_max: 100,
            };
            store.usage(&query).unwrap()
        })
    };
    let before = answers(&mut store, UsageOf::All);
    let last_used = store.load().unwrap().last_used;
    drop(store);
    lower_usage(&folder);

    let mut store = folder.open().unwrap();
    assert_eq!(answers(&mut store, UsageOf::All), before);
    assert_eq!(answers(&mut store, UsageOf::Tenant(tenant)), before);
    assert_eq!(store.load().unwrap().last_used, last_used);
    // That the second key took the place of the first one is known when it is used again.
    store.add_usage(&[cell(second, Some(first), 8)]).unwrap();
    let of_chain = |store: &mut SqliteStore| {
        answers(store, UsageOf::Chains(vec![first])).map(|answer| {
            let requests = answer.rows.iter().map(|row| row.used.requests);
            requests.sum::<u64>()
        })
    };
    assert_eq!(of_chain(&mut store), [11; 3]);
    drop(store);
    let mut store = folder.open().unwrap();
    assert_eq!(of_chain(&mut store), [11; 3]);
}
