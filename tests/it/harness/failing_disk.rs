//! A disk that gives errors, or does not answer: strace changes what a process gets from the system
//! calls on some files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Process, after, run_by};

/// What reads and writes a file.
const ON_CONTENT: &str = "read,write,pread64,pwrite64,fsync,fdatasync,ftruncate";

/// Those that write.
const ON_WRITES: &str = "write,pwrite64,fsync,fdatasync,ftruncate";

/// What else asks the file system for something.
const ON_NAMES: &str = "openat,rename,unlink,statfs";

/// Longer than all that a test may wait for. A thread in such a call goes on when the disk is
/// mended, as a thread that waits in the kernel does.
const FOREVER: &str = "3600s";

/// Files of a chain's folder that are read and written, without the log and the index of each
/// database.
const FILES: [&str; 5] = [
    "window.sqlite",
    "tenants.sqlite",
    "usage.sqlite",
    "finalized.json",
    "finalized.json.tmp",
];

/// What a disk does.
#[derive(Clone, Copy)]
pub(crate) enum DiskFault {
    /// Each read and each write fails.
    Errors,
    /// Each write fails, because the file system has become read-only.
    ReadOnly,
    /// Of the calls of a kind in each thread, the one with the number `first` fails, and then every
    /// `every`-th.
    SomeErrors { first: u64, every: u64 },
    /// The same of writes, which find no room.
    SomeWithoutRoom { first: u64, every: u64 },
    /// The same of writes, which report 512 bytes and write none.
    LostWrites { first: u64, every: u64 },
    /// No call returns.
    Hangs,
}

impl DiskFault {
    /// The calls, and what becomes of them.
    fn injection(self) -> String {
        match self {
            Self::Errors => format!("{ON_CONTENT}:error=EIO"),
            Self::ReadOnly => format!("{ON_WRITES}:error=EROFS"),
            Self::SomeErrors { first, every } => {
                format!("{ON_CONTENT}:error=EIO:when={first}+{every}")
            }
            Self::SomeWithoutRoom { first, every } => {
                format!("{ON_WRITES}:error=ENOSPC:when={first}+{every}")
            }
            Self::LostWrites { first, every } => {
                format!("pwrite64:retval=512:when={first}+{every}")
            }
            Self::Hangs => format!("{ON_CONTENT},{ON_NAMES}:delay_enter={FOREVER}"),
        }
    }

    /// strace, which does this to the calls on these files.
    fn strace(self, files: &[PathBuf]) -> Command {
        let mut strace = Command::new("strace");
        // Threads that start later are traced too, what they do is written nowhere, and a signal
        // ends the trace.
        strace.args(["-f", "-I", "1", "-o", "/dev/null"]);
        for file in files {
            strace.arg("-P").arg(file);
        }
        let injection = self.injection();
        let (calls, _) = injection.split_once(':').unwrap();
        strace.args(["-e", &format!("trace={calls}")]);
        strace.args(["-e", &format!("inject={injection}")]);
        strace
    }
}

/// A running process whose disk has a fault. Dropping it mends the disk.
pub(crate) struct FailingDisk(Process);

impl FailingDisk {
    /// Returns when every thread of the process has the fault.
    pub(crate) fn of(process: &Process, files: &[PathBuf], fault: DiskFault) -> Self {
        let mut strace = fault.strace(files);
        let tracer = Process::start(strace.args(["-p", &process.id().to_string()]));
        let is_attached = |text: &str| text.contains("attached").then_some(());
        tracer.output.wait_for("attached", is_attached);
        Self(tracer)
    }

    /// Mends the disk. Calls that hang go on.
    pub(crate) fn mend(self) {
        self.0.terminate();
        self.0.wait();
    }
}

/// The same command, with a process that has the fault from its beginning. It keeps the process id
/// of the command.
pub(crate) fn with_failing_disk(command: &Command, files: &[PathBuf], fault: DiskFault) -> Command {
    let mut strace = fault.strace(files);
    // The tracer is a grandchild.
    strace.arg("-D");
    run_by(strace, command)
}

/// Mends the disk of a process that was started by [`with_failing_disk`].
pub(crate) fn mend(process: &Process) {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    let tracer: u32 = tracer.unwrap().trim().parse().unwrap();
    // kill takes 0 for the process group of the tests.
    assert_ne!(tracer, 0, "nothing traces the process any more");
    let end = format!("kill -TERM {tracer}");
    let ended = Command::new("bash").args(["-c", &end]).status();
    assert!(ended.unwrap().success(), "{end}");
}

/// The same command with SIGXFSZ ignored: a write beyond the limit fails instead of killing it.
pub(crate) fn outliving_short_writes(command: &Command) -> Command {
    after("trap '' XFSZ", command, &[])
}

/// Lets no file of a process that was started by [`outliving_short_writes`] have more bytes. The
/// system writes a part of what crosses that size, and refuses the rest.
pub(crate) fn cut_writes_at(process: &Process, bytes: u64) {
    let id = process.id().to_string();
    let limit = format!("--fsize={bytes}:");
    let status = Command::new("prlimit")
        .args(["--pid", &id, &limit])
        .status();
    assert!(status.unwrap().success(), "prlimit {limit}");
}

/// The files of the only chain in this data folder, with the folder itself, whose names are synced.
pub(crate) fn files_of(data: &Path) -> Vec<PathBuf> {
    let chain = chain_of(data);
    let files = FILES.iter().flat_map(|name| database(&chain, name));
    [chain.clone()].into_iter().chain(files).collect()
}

/// The file with the window, its log and its index.
pub(crate) fn window_of(data: &Path) -> Vec<PathBuf> {
    database(&chain_of(data), FILES[0]).to_vec()
}

/// The files with tenants and usage.
pub(crate) fn tenants_of(data: &Path) -> Vec<PathBuf> {
    let chain = chain_of(data);
    let files = FILES[1..3].iter();
    files.flat_map(|name| database(&chain, name)).collect()
}

fn database(chain: &Path, name: &str) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| chain.join(format!("{name}{suffix}")))
}

fn chain_of(data: &Path) -> PathBuf {
    let entries = fs::read_dir(data).unwrap();
    let chains: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let [chain] = <[PathBuf; 1]>::try_from(chains).unwrap();
    chain
}
