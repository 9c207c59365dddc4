//! The data folder: whether it can be written, and has room.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use nearhead_actors::{
    data_folder::DataRoot,
    upstream::{NodeFacts, saved_state_bytes_max},
};
use nearhead_chain::network::Network;
use tokio::{task::spawn_blocking, time::timeout};

use super::finding::Finding;
use crate::{
    config::{Config, SourceKind},
    disk_watch::disk_use,
    memory::{MemorySource, auto_state_bytes},
    thousands::thousands,
};

/// Keys, and usage of a year.
const TENANTS_BYTES: u64 = 1 << 30;
/// The blocks of a window, and the write-ahead log.
const WINDOW_BYTES: u64 = 256 << 20;

/// The data folder.
pub(super) enum Disk {
    /// All is kept in memory.
    None,
    /// Its file system does not answer.
    Silent { path: PathBuf },
    Folder {
        path: PathBuf,
        /// Whether all is kept in memory if it cannot be written.
        is_optional: bool,
        is_writable: bool,
        /// Bytes for what nearhead writes and has written, if the file system says so.
        room: Option<u64>,
        /// Bytes that nearhead may need.
        needed: u64,
    },
}

/// What the data folder has, if its file system answers within `longest`. It may not be there yet:
/// then where it would be made.
pub(super) async fn look(
    config: &Config,
    nodes: &[(String, Result<NodeFacts, String>)],
    longest: Duration,
) -> Disk {
    let is_of_known_network = |(_, facts): &(String, Result<NodeFacts, String>)| {
        let facts = facts.as_ref().ok();
        let network = facts.and_then(|facts| Network::of_chain(facts.chain_id, facts.genesis?));
        network.is_some()
    };
    let is_known = match config.source {
        SourceKind::Dev => false,
        SourceKind::Files => true,
        SourceKind::Node => {
            let is_pinned = config.network.is_some() || config.genesis.is_some();
            is_pinned || nodes.iter().any(is_of_known_network)
        }
    };
    let folder = match config.data_dir.path() {
        Some(folder) if config.data_dir.has_folder_for(is_known) => folder.to_owned(),
        _ => return Disk::None,
    };
    let is_optional = matches!(config.data_dir, DataRoot::Auto(_));
    let path = folder.clone();
    let looked = spawn_blocking(move || {
        let there = folder.ancestors().find(|folder| folder.is_dir());
        let there = there.unwrap_or(Path::new("."));
        let free = disk_use(there).ok().map(|of| of.free);
        // What nearhead has written already is room that it needs no more.
        let room = free.map(|free| free.saturating_add(bytes_in(&folder)));
        (is_writable(there), room)
    });
    match timeout(longest, looked).await {
        Ok(Ok((is_writable, room))) => Disk::Folder {
            path,
            is_optional,
            is_writable,
            room,
            needed: needed(config),
        },
        _ => Disk::Silent { path },
    }
}

/// Bytes that nearhead may write in all (docs/operations.md, Sizing).
fn needed(config: &Config) -> u64 {
    if config.source != SourceKind::Node {
        return TENANTS_BYTES;
    }
    let state = config
        .state_bytes
        .or(auto_state_bytes(&MemorySource::find()));
    TENANTS_BYTES + WINDOW_BYTES + saved_state_bytes_max(state as u64)
}

/// Bytes of the files in a data folder: those of a chain are in a folder of their own.
fn bytes_in(folder: &Path) -> u64 {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: &fs::DirEntry| entry.metadata().map_or(0, |of| of.len());
    let of_chain = |entry: fs::DirEntry| match entry.path() {
        path if path.is_dir() => entries(&path).map(|file| bytes(&file)).sum(),
        _ => bytes(&entry),
    };
    entries(folder).map(of_chain).sum()
}

/// Whether a file can be made in a folder. It is removed at once. Permissions do not say it: root
/// has all of them on a disk that is read-only.
fn is_writable(folder: &Path) -> bool {
    let file = folder.join(format!(".nearhead-doctor-{}", process::id()));
    let Ok(mut made) = File::create_new(&file) else {
        return false;
    };
    let written = made.write_all(b"doctor");
    // What stays has six bytes.
    let _ = fs::remove_file(&file);
    written.is_ok()
}

pub(super) fn judge(disk: &Disk) -> Finding {
    let subject = "data folder";
    match disk {
        Disk::None => Finding::weak(
            subject,
            "none: keys, usage, the window and which blocks are settled are lost when the process ends".to_owned(),
            "name a folder with --data-dir; auto has one for known networks and --genesis alone",
        ),
        Disk::Silent { path } => Finding::bad(
            subject,
            format!("the file system of {} does not answer", path.display()),
            "repair it, or name another folder with --data-dir",
        ),
        Disk::Folder {
            path,
            is_optional,
            is_writable: false,
            ..
        } => {
            let found = format!("{} cannot be written", path.display());
            let change = "give it to the user that runs nearhead, or name another with --data-dir";
            match is_optional {
                true => Finding::weak(subject, format!("{found}: all is kept in memory"), change),
                false => Finding::bad(subject, found, change),
            }
        }
        Disk::Folder {
            path, room, needed, ..
        } => {
            let mib = |bytes: u64| thousands(bytes >> 20);
            let has = room.map_or_else(|| "an unknown number of".to_owned(), mib);
            let (path, needed_mib) = (path.display(), mib(*needed));
            let found = format!("{path} has {has} MiB, of which nearhead may need {needed_mib}");
            match room.is_some_and(|room| room < *needed) {
                true => Finding::weak(subject, found, "make room, or lower --state-bytes"),
                false => Finding::good(subject, found),
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn a_folder_that_cannot_be_written_or_is_too_small_is_found() {
        const NEEDED: u64 = 2 << 30;
        let folder = |is_optional, is_writable, room| Disk::Folder {
            path: "/data".into(),
            is_optional,
            is_writable,
            room: Some(room),
            needed: NEEDED,
        };
        let silent = Disk::Silent {
            path: "/data".into(),
        };
        for (disk, expected) in [
            (Disk::None, Verdict::Weak),
            (silent, Verdict::Bad),
            (folder(false, true, NEEDED), Verdict::Good),
            (folder(false, true, NEEDED - 1), Verdict::Weak),
            (folder(false, false, NEEDED), Verdict::Bad),
            (folder(true, false, NEEDED), Verdict::Weak),
        ] {
            let found = judge(&disk);
            assert_eq!(found.verdict, expected, "{found}");
            assert_eq!(found.change.is_none(), expected == Verdict::Good, "{found}");
        }
    }

    #[test]
    fn files_of_the_folder_and_its_chains_are_counted() {
        let folder = std::env::temp_dir().join(format!("nearhead-doctor-{}", process::id()));
        fs::create_dir_all(folder.join("chain")).unwrap();
        fs::write(folder.join("tenants"), [0; 5]).unwrap();
        fs::write(folder.join("chain/window"), [0; 7]).unwrap();
        let found = bytes_in(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, 12);
        assert_eq!(bytes_in(&folder), 0);
    }
}
