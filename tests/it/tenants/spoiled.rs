//! A start on files of a store that cannot be used.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use nearhead_tenants::record::KeySettings;
use serde_json::json;

use super::prepared_store::PreparedStore;
use crate::harness::{Connection, Process, Server, check, nearhead, request, scratch};

const TENANTS: &str = "tenants.sqlite";
const USAGE: &str = "usage.sqlite";

/// Offsets of numbers in the header of a database.
const USER_VERSION: usize = 60;
const APPLICATION_ID: usize = 68;

/// How files are spoiled.
#[derive(Clone, Copy)]
enum Spoil {
    /// By a change of the file.
    File(fn(&Path)),
    /// By these modes of the folder and of the file; the latter is removed if it has none.
    Modes(u32, Option<u32>),
    /// By a disk without space.
    Full,
}

/// What is spoiled, the exit code, and what the message says after the name of the file.
type Row = (&'static str, Spoil, i32, &'static str);

const RESTORE: &str = ": restore it from a backup, or remove it to start without ";
const WRITABLE: &str = ": make it and its folder writable, or give another --data-dir";

const ROWS: [Row; 9] = [
    (
        "text",
        Spoil::File(|path| fs::write(path, "not a database. ".repeat(99)).unwrap()),
        1,
        "is damaged (file is not a database): restore it",
    ),
    (
        "cut off",
        Spoil::File(|path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        1,
        "is damaged (",
    ),
    (
        "a newer format",
        Spoil::File(|path| set(path, USER_VERSION, 99)),
        1,
        "has format 99, and this nearhead knows formats up to N: use a newer one",
    ),
    (
        "another program's",
        Spoil::File(|path| set(path, APPLICATION_ID, 7)),
        2,
        "is a database of another program: give another --data-dir",
    ),
    (
        "a folder",
        Spoil::File(|path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        1,
        "cannot be read and written (it is no file)",
    ),
    (
        "not writable",
        Spoil::Modes(0o755, Some(0o444)),
        1,
        "cannot be read and written (Permission denied (os error 13))",
    ),
    (
        "not readable",
        Spoil::Modes(0o755, Some(0o000)),
        1,
        "cannot be read and written (Permission denied (os error 13))",
    ),
    (
        "new in a folder that is not writable",
        Spoil::Modes(0o555, None),
        1,
        "cannot be read and written (Permission denied (os error 13))",
    ),
    (
        "a full disk",
        Spoil::Full,
        1,
        "cannot be read and written (disk I/O error)",
    ),
];

/// Writes a number of four bytes.
fn set(path: &Path, offset: usize, number: u32) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset..offset + 4].copy_from_slice(&number.to_be_bytes());
    fs::write(path, bytes).unwrap();
}

/// The command, whose standard output is dropped. Modes of files are not for root, and writes fail
/// as on a full disk, if that is what is spoiled; the signal of the latter would end it.
fn with_spoiled(spoil: Spoil, program: &Command) -> Command {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let prepared = match spoil {
        Spoil::Modes(..) if is_root => {
            "exec setpriv --bounding-set=-dac_override,-dac_read_search \"$0\" \"$@\" >/dev/null"
        }
        Spoil::Full => "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\" >/dev/null",
        _ => "exec \"$0\" \"$@\" >/dev/null",
    };
    let mut command = Command::new("bash");
    command
        .args(["-c", prepared])
        .arg(program.get_program())
        .args(program.get_args())
        .env_clear();
    command
}

/// A store with a key and usage; the folder of all data, and the one of the chain.
fn prepare(folder: &str) -> [PathBuf; 2] {
    let mut store = PreparedStore::default();
    for number in 0..50 {
        store.key(&format!("key-{number}"), KeySettings::default());
    }
    let root = scratch(folder);
    let of_chain = store.write(&root);
    [root, of_chain]
}

/// Each file that cannot be used ends the program, and every command on the folder: the message
/// names the file and says what to do.
#[test]
fn a_spoiled_file_is_an_error_at_the_start() {
    for name in [TENANTS, USAGE] {
        for (what, spoil, code, says) in ROWS {
            // These concern both files, and the tenants' one is opened first.
            if name == USAGE && matches!(spoil, Spoil::Modes(_, None) | Spoil::Full) {
                continue;
            }
            let [root, of_chain] = prepare("spoiled");
            let path = of_chain.join(name);
            match spoil {
                Spoil::File(spoil) => spoil(&path),
                Spoil::Modes(folder, file) => {
                    match file {
                        Some(mode) => set_mode(&path, mode),
                        None => fs::remove_file(&path).unwrap(),
                    }
                    set_mode(&of_chain, folder);
                }
                Spoil::Full => {}
            }
            let root = root.to_str().unwrap();
            let says = match name {
                TENANTS => says.replace("N:", "3:"),
                _ => says.replace("N:", "2:"),
            };
            let said = format!("nearhead: {} {says}", path.display());
            let advice = match says {
                _ if says.starts_with("is damaged") => RESTORE,
                _ if says.starts_with("cannot") => WRITABLE,
                _ => "",
            };
            let serve = [
                "--listen",
                "127.0.0.1:0",
                "--admin-listen",
                "127.0.0.1:0",
                "--block-time",
                "0s",
            ];
            for arguments in [
                &serve[..],
                &["key", "list"],
                &["key", "revoke", "key-1", "--yes"],
            ] {
                let case = format!("{name}, {what}: {arguments:?}");
                let mut program = nearhead(arguments.iter().copied());
                program.args(["--data-dir", root]);
                let mut command = with_spoiled(spoil, &program);
                let (status, text) = Process::start(&mut command).wait();
                check(&format!("{case}: {text}"), &status.code(), &Some(code));
                let last = text.lines().last().unwrap_or_default();
                assert!(last.starts_with(&said), "{case}: {text}\nnot {said}");
                assert!(last.contains(advice), "{case}: {text}");
            }
            set_mode(&of_chain, 0o755);
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Starts a program on a chain of files, which keeps its data where the environment says.
fn with_default_folder(files: &Path, home: &Path) -> Command {
    let [genesis, chain] = ["genesis.json", "chain.rlp"].map(|name| files.join(name));
    let mut command = nearhead([
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--api-key",
        "key-by-flag",
        "--source",
        "files",
    ]);
    command.arg("--genesis").arg(genesis);
    command.arg("--chain").arg(chain);
    command.env_remove("NEARHEAD_DATA_DIR");
    command.env("XDG_DATA_HOME", home);
    command
}

/// In a folder that nobody named, a file that cannot be written is no error: tenants and keys are
/// kept in memory, and the log says so. A damaged one is an error there too.
#[test]
fn a_default_folder_that_cannot_be_written_is_not_used() {
    let files = scratch("spoiled-files");
    let [genesis, chain] = ["genesis.json", "chain.rlp"].map(|name| files.join(name));
    let mut export = nearhead(["export", "--blocks", "2"]);
    export.arg("--genesis").arg(&genesis);
    export.arg("--chain").arg(&chain);
    assert!(Process::start(&mut export).wait().0.success());
    let home = scratch("spoiled-home");
    for name in [TENANTS, USAGE] {
        for (what, is_damaged) in [("a folder", false), ("text", true)] {
            let case = format!("{name}, {what}");
            let server = Server::of(&mut with_default_folder(&files, &home));
            server.process.terminate();
            assert!(server.process.wait().0.success());
            let root = home.join("nearhead");
            let of_chain = fs::read_dir(&root).unwrap().next().unwrap().unwrap().path();
            // Its end leaves nothing beside the two files, so that they can be copied.
            for log in ["tenants.sqlite-wal", "usage.sqlite-wal"] {
                check(
                    &format!("{case}, {log}"),
                    &of_chain.join(log).exists(),
                    &false,
                );
            }
            let path = of_chain.join(name);
            let Some((_, Spoil::File(spoil), ..)) = ROWS.iter().find(|row| row.0 == what) else {
                panic!("no row {what}");
            };
            spoil(&path);
            let mut command = with_default_folder(&files, &home);
            if is_damaged {
                let (status, text) = Process::start(&mut command).wait();
                check(&format!("{case}: {text}"), &status.code(), &Some(1));
                let said = format!("nearhead: {} is damaged (", path.display());
                assert!(text.contains(&said), "{case}: {text}");
            } else {
                let server = Server::of(&mut command);
                server.process.output.wait_for(&case, |text| {
                    let warned = text
                        .lines()
                        .find(|line| line.contains("are kept in memory"))?;
                    let names = warned.contains(path.to_str().unwrap());
                    assert!(names && warned.contains("WARN"), "{case}: {warned}");
                    Some(())
                });
                let mut connection = Connection::open(server.address, "/v3/key-by-flag");
                let body = request(1, "eth_chainId", &json!([])).to_string();
                check(&case, &connection.post(body).status, &200);
            }
            fs::remove_dir_all(&home).unwrap();
        }
    }
}

/// The dev chain starts anew each time, so that nothing is kept of it unless a folder is named.
#[test]
fn the_dev_chain_writes_no_file_by_default() {
    let home = scratch("dev-home");
    let mut command = nearhead(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    command.env_remove("NEARHEAD_DATA_DIR");
    for name in ["HOME", "XDG_DATA_HOME", "STATE_DIRECTORY", "TMPDIR"] {
        command.env(name, &home);
    }
    let server = Server::of(command.current_dir(&home));
    let mut connection = Connection::open(server.address, "/v3/dev");
    let body = request(1, "eth_chainId", &json!([])).to_string();
    check("dev", &connection.post(body).status, &200);
    server.process.terminate();
    let (status, text) = server.process.wait();
    assert!(status.success(), "{text}");
    check("files", &fs::read_dir(&home).unwrap().count(), &0);
}
