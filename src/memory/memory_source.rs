//! The limit of the process's memory and its use, as the kernel reports them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where the kernel reports memory: the control groups of the process, version 1 or 2, or else the
/// machine.
#[derive(Clone, Debug)]
pub(crate) struct MemorySource {
    /// The root of the file system; another one in tests.
    root: PathBuf,
    groups: Groups,
}

/// The control groups that limit memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Groups {
    /// None can be read.
    None,
    /// Version 1: the folder of the process's own group. It knows the limits of those above it.
    V1(PathBuf),
    /// Version 2: the folder of the process's own group, then those above it.
    V2(Vec<PathBuf>),
}

/// The memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MemoryUse {
    /// Bytes of anonymous memory. The page cache does not count: the kernel takes it back.
    pub(crate) anonymous: u64,
    /// Bytes that it may have; `None` if that is not known.
    pub(crate) limit: Option<u64>,
    /// Percent of the last ten seconds in which some tasks waited for memory; zero where the kernel
    /// does not count it.
    pub(crate) some_waited: f64,
    /// The same for all tasks at once.
    pub(crate) all_waited: f64,
}

impl MemorySource {
    /// The source of this process.
    pub(crate) fn find() -> Self {
        Self::find_in(Path::new("/"))
    }

    fn find_in(root: &Path) -> Self {
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        Self {
            root: root.to_owned(),
            groups: Groups::find(&root.join("sys/fs/cgroup"), &groups),
        }
    }

    /// The memory now.
    pub(crate) fn read(&self) -> MemoryUse {
        let (of_process, machine) = self.of_process();
        let (anonymous, limit) = self.groups.read().unwrap_or((of_process, machine));
        // A group may have a limit that the machine does not have.
        let limit = limit.into_iter().chain(machine).min();
        let (some_waited, all_waited) = self.pressure();
        MemoryUse {
            anonymous,
            limit,
            some_waited,
            all_waited,
        }
    }

    /// The process's own memory, of the machine's.
    fn of_process(&self) -> (u64, Option<u64>) {
        let status = self.lines("proc/self/status");
        let machine = self.lines("proc/meminfo");
        let anonymous = kilobytes(&status, "RssAnon:").unwrap_or(0);
        (anonymous, kilobytes(&machine, "MemTotal:"))
    }

    /// Percent of time that some tasks, and all of them, waited for memory.
    fn pressure(&self) -> (f64, f64) {
        let text = match &self.groups {
            Groups::V2(folders) => folders
                .first()
                .and_then(|own| fs::read_to_string(own.join("memory.pressure")).ok()),
            // Version 1 has none by group, and the machine's says nothing of a group with a limit.
            Groups::V1(_) => self.groups.read().map(|_| String::new()),
            Groups::None => None,
        };
        let text = text.unwrap_or_else(|| self.lines("proc/pressure/memory"));
        let of = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            let percent = line.split_whitespace().next()?.strip_prefix("avg10=")?;
            percent.parse().ok()
        };
        (of("some ").unwrap_or(0.0), of("full ").unwrap_or(0.0))
    }

    /// A file of the machine; empty if it cannot be read.
    fn lines(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }
}

impl Groups {
    /// The groups of a process whose `/proc/self/cgroup` is this.
    fn find(mount: &Path, text: &str) -> Self {
        // A line is a number, the controllers and the path of the group.
        let mut unified = None;
        for line in text.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let path = path.trim_start_matches('/');
            if controllers.split(',').any(|name| name == "memory") {
                let mount = mount.join("memory");
                // In a container, the path may be the one outside of it.
                let folders = [mount.join(path), mount];
                let found = folders.into_iter().find(|own| own.join(STAT).is_file());
                return found.map_or(Self::None, Self::V1);
            }
            if controllers.is_empty() {
                unified = Some(path);
            }
        }
        let Some(path) = unified else {
            return Self::None;
        };
        let own = [mount.join(path), mount.to_owned()];
        let Some(own) = own.into_iter().find(|own| own.join(STAT).is_file()) else {
            return Self::None;
        };
        let is_group = |folder: &&Path| folder.starts_with(mount) && folder.join(STAT).is_file();
        let folders = own.ancestors().take_while(is_group);
        Self::V2(folders.map(Path::to_owned).collect())
    }

    /// Anonymous memory and limit of the group that is closest to its limit; `None` if none has
    /// one.
    fn read(&self) -> Option<(u64, Option<u64>)> {
        match self {
            Self::None => None,
            Self::V1(own) => {
                let stat = fs::read_to_string(own.join(STAT)).ok()?;
                let limit = number(&stat, "hierarchical_memory_limit ")?;
                let anonymous = number(&stat, "total_rss ")?;
                (limit < UNLIMITED).then_some((anonymous, Some(limit)))
            }
            Self::V2(folders) => {
                let limited = folders.iter().filter_map(|folder| {
                    let limit = fs::read_to_string(folder.join("memory.max")).ok()?;
                    let limit: u64 = limit.trim().parse().ok()?;
                    let stat = fs::read_to_string(folder.join(STAT)).ok()?;
                    Some((number(&stat, "anon ")?, limit.max(1)))
                });
                let (anonymous, limit) = limited.max_by(|(one, limit), (other, other_limit)| {
                    let ratio = u128::from(*one) * u128::from(*other_limit);
                    ratio.cmp(&(u128::from(*other) * u128::from(*limit)))
                })?;
                Some((anonymous, Some(limit)))
            }
        }
    }
}

/// What a group's memory is counted in.
const STAT: &str = "memory.stat";

/// A limit of version 1 from which on there is none: the kernel's is the largest multiple of a
/// page.
const UNLIMITED: u64 = 1 << 62;

/// The number behind a name at the start of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// The same in kilobytes, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const MACHINE: [(&str, &str); 3] = [
        ("proc/meminfo", "MemTotal:    1000 kB\nMemFree: 7 kB\n"),
        (
            "proc/self/status",
            "Name: x\nVmRSS: 90 kB\nRssAnon:\t  50 kB\n",
        ),
        (
            "proc/pressure/memory",
            "some avg10=12.50 avg60=0.00 avg300=0.00 total=9\nfull avg10=3.25 avg60=0.00 avg300=0.00 total=4\n",
        ),
    ];

    /// What a machine with these files reports.
    fn check(files: &[(&str, &str)], expected: (u64, Option<u64>, f64, f64)) {
        let name = format!("nearhead-memory-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&root);
        for (path, text) in MACHINE.iter().chain(files) {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = MemorySource::find_in(&root).read();
        fs::remove_dir_all(&root).unwrap();
        let found = (
            found.anonymous,
            found.limit,
            found.some_waited,
            found.all_waited,
        );
        assert_eq!(found, expected, "{files:?}");
    }

    #[test]
    fn memory_is_that_of_the_group_that_is_closest_to_its_limit() {
        let of_machine = (51_200, Some(1_024_000), 12.5, 3.25);
        let v1 = (
            "proc/self/cgroup",
            "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n",
        );
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        check(&[], of_machine);
        check(&[v1], of_machine);
        check(&[("proc/self/cgroup", "nonsense\n::\n")], of_machine);
        let stat = "rss 1\nhierarchical_memory_limit 900\ntotal_rss 300\ntotal_cache 5000\n";
        check(
            &[v1, ("sys/fs/cgroup/memory/a/b/memory.stat", stat)],
            (300, Some(900), 0.0, 0.0),
        );
        // In a container with a name space of its own.
        check(
            &[v1, ("sys/fs/cgroup/memory/memory.stat", stat)],
            (300, Some(900), 0.0, 0.0),
        );
        let beyond = "hierarchical_memory_limit 2000000\ntotal_rss 300\n";
        let beyond = ("sys/fs/cgroup/memory/a/b/memory.stat", beyond);
        check(&[v1, beyond], (300, Some(1_024_000), 0.0, 0.0));
        let unlimited = "hierarchical_memory_limit 9223372036854771712\ntotal_rss 300\n";
        let unlimited = ("sys/fs/cgroup/memory/a/b/memory.stat", unlimited);
        check(&[v1, unlimited], of_machine);

        let own = ("sys/fs/cgroup/a/b/memory.stat", "anon 400\nfile 9000\n");
        check(&[v2, own], of_machine);
        check(
            &[v2, own, ("sys/fs/cgroup/a/b/memory.max", "max\n")],
            of_machine,
        );
        let limited = ("sys/fs/cgroup/a/b/memory.max", "1000\n");
        check(&[v2, own, limited], (400, Some(1_000), 12.5, 3.25));
        let above = ("sys/fs/cgroup/a/memory.stat", "anon 900\n");
        let closer = [
            v2,
            own,
            limited,
            above,
            ("sys/fs/cgroup/a/memory.max", "1800\n"),
        ];
        check(&closer, (900, Some(1_800), 12.5, 3.25));
        let farther = [
            v2,
            own,
            limited,
            above,
            ("sys/fs/cgroup/a/memory.max", "3000\n"),
        ];
        check(&farther, (400, Some(1_000), 12.5, 3.25));
        let pressure = (
            "sys/fs/cgroup/a/b/memory.pressure",
            "some avg10=1.00 avg60=2\n",
        );
        check(&[v2, own, limited, pressure], (400, Some(1_000), 1.0, 0.0));
    }

    #[test]
    fn this_process_has_memory() {
        let found = MemorySource::find().read();
        assert!(found.anonymous > 0, "{found:?}");
        assert!(
            found.limit.is_some_and(|limit| limit >= found.anonymous),
            "{found:?}"
        );
    }
}
