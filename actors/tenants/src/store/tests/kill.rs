use std::{
    io::{BufRead, BufReader, Write as _, stdout},
    process::{ChildStdout, Stdio},
};

use super::{
    steps::{Model, key_of},
    *,
};
use crate::{
    audit::AuditQuery,
    store::checks::usage::all_usage,
    usage::{GroupBy, Resolution, Used},
};

/// Steps that were committed: each leaves one entry in the audit.
fn steps(store: &mut SqliteStore) -> u64 {
    let query = AuditQuery {
        entries_max: 1,
        ..AuditQuery::default()
    };
    let page = store.audit(&query).unwrap();
    page.entries.first().map_or(0, |(number, _)| number.0)
}

/// Requests of all usage, which are the same by each resolution.
fn requests(store: &mut SqliteStore) -> u64 {
    let sums = Resolution::ALL.map(|resolution| {
        let query = all_usage(resolution, GroupBy::default(), 1);
        let rows = store.usage(&query).unwrap().rows;
        rows.first().map_or(0, |row| row.used.requests)
    });
    assert_eq!(sums, [sums[0]; 3]);
    sums[0]
}

/// Not a test by itself: what the child of the next one does. It writes until it is killed.
#[test]
fn writer() {
    let Some(folder) = folder_of_child() else {
        return;
    };
    let mut store = SqliteStore::open(&folder).unwrap();
    let loaded = store.load().unwrap();
    let mut model = Model {
        directory: loaded.directory,
        accounts: loaded.accounts,
    };
    for number in steps(&mut store) + 1.. {
        let step = model.step(number);
        store.commit(&step.commit()).unwrap();
        model.make(&step);
        let used = UsageCell {
            minute: step.entry.at,
            key: key_of(number),
            owner: None,
            method: "eth_call".into(),
            outcome: "ok".into(),
            last: step.entry.at,
            used: Used {
                requests: 1,
                ..Used::default()
            },
        };
        store.add_usage(&[used]).unwrap();
        writeln!(stdout(), "\nwritten {number}").unwrap();
    }
}

/// Reads what the child says until it has written another `steps`; the last one that it has.
fn read_written(child: &mut BufReader<ChildStdout>, steps: u64) -> u64 {
    let mut last = None;
    let mut count = 0;
    let mut line = String::new();
    while count < steps {
        line.clear();
        assert_ne!(
            child.read_line(&mut line).unwrap(),
            0,
            "the child ended after {last:?}"
        );
        if let Some(number) = line.strip_prefix("written ") {
            last = Some(number.trim().parse().unwrap());
            count += 1;
        }
    }
    last.unwrap()
}

/// Whenever the process is killed, the store opens and has every step that it said was written, and
/// nothing else: no key is lost, and no revoked one comes back. Of usage, each kill loses at most
/// the flush that was being written.
#[test]
fn nothing_is_lost_by_force() {
    let folder = Folder::new("kill");
    let mut random = Random(17);
    let mut model = Model::default();
    let mut made = 0;
    for kills in 1..=rounds(10, 100) {
        let mut command = child("kill::writer", &folder.0);
        let mut writer = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(writer.stdout.take().unwrap());
        let written = read_written(&mut output, 1 + random.below(40));
        writer.kill().unwrap();
        writer.wait().unwrap();

        let mut store = folder.open().unwrap();
        let committed = steps(&mut store);
        assert!(
            committed >= written,
            "step {written} was written, not {committed}"
        );
        while made < committed {
            made += 1;
            let step = model.step(made);
            model.make(&step);
        }
        let loaded = store.load().unwrap();
        assert_eq!(
            loaded.directory, model.directory,
            "after {kills} kills, {made} steps"
        );
        assert_eq!(
            loaded.accounts, model.accounts,
            "after {kills} kills, {made} steps"
        );
        let requests = requests(&mut store);
        assert!(
            requests <= made && requests + kills >= made,
            "{requests} of {made}, {kills}"
        );
    }
    let revoked = model.directory.keys().filter(|key| key.revoked.is_some());
    assert!(revoked.count() > 0);
}
