//! A mark in the data folder while a process serves: if the next one finds it, this one was killed.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nearhead_actors::disk_wait::{DISK_WAIT_MAX, in_time};

use crate::metrics::Metrics;

/// The file. It has the id of the process, and when it began to serve: the next process may have
/// the same id, in a container for instance.
const NAME: &str = "running.txt";

/// Bytes of it that are read: both numbers are shorter.
const BYTES_READ: u64 = 64;

/// Longest wait for a disk at the end of the process, which has waited for it before.
const REMOVE_MAX: Duration = Duration::from_secs(1);

/// The mark of this process, in a folder that it has locked.
#[derive(Debug)]
pub(crate) struct RunMark {
    file: PathBuf,
    own: String,
}

/// What came of a mark.
#[derive(Debug)]
struct Marked {
    /// The id of a process that has left its own.
    before: Option<String>,
    written: io::Result<()>,
}

impl RunMark {
    /// Sets the mark, and reports if the process before this one has left its own. Without a disk
    /// that can be written there is no mark: the service goes on.
    pub(crate) fn set(folder: &Path, metrics: &Metrics) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default().as_nanos();
        let mark = Self {
            file: folder.join(NAME),
            own: format!("{} {since}", process::id()),
        };
        let (file, own) = (mark.file.clone(), mark.own.clone());
        let marked = in_time(DISK_WAIT_MAX, move || set(&file, &own));
        let Marked { before, written } = marked.unwrap_or_else(|error| Marked {
            before: None,
            written: Err(error),
        });
        if let Some(pid) = before {
            metrics.found_unclean_shutdown();
            let folder = folder.display();
            tracing::warn!(
                %folder,
                pid,
                runbook = "docs/operations.md#it-did-not-shut-down",
                "the process before this one did not shut down: it was killed, it failed, or its \
                 machine did"
            );
        }
        if let Err(error) = written {
            tracing::warn!(%error, "the next start cannot say whether this process shut down");
        }
        mark
    }

    /// Removes the mark, as the last step of a shutdown.
    pub(crate) fn remove(self) {
        let removed = in_time(REMOVE_MAX, move || remove(&self.file, &self.own)).flatten();
        if let Err(error) = removed {
            tracing::warn!(%error, "the next start will say that this process did not shut down");
        }
    }
}

/// Sets this mark; says what the process before has left.
fn set(file: &Path, own: &str) -> Marked {
    match read(file) {
        Ok(before) => Marked {
            before: before.map(|mark| pid_of(&mark).unwrap_or("unknown").to_owned()),
            written: fs::write(file, format!("{own}\n")),
        },
        Err(error) => Marked {
            before: None,
            written: Err(error),
        },
    }
}

/// Removes this mark, or what a full disk has left of it. The folder is no longer locked, so that
/// the next process may have set its own.
fn remove(file: &Path, own: &str) -> io::Result<()> {
    match read(file)? {
        Some(mark) if mark == own || pid_of(&mark).is_none() => fs::remove_file(file),
        _ => Ok(()),
    }
}

/// What the file has, which may be damaged; `None` if there is none.
fn read(file: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    match File::open(file) {
        Ok(file) => file.take(BYTES_READ).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()))
}

/// The id in a mark; `None` if the mark is damaged.
fn pid_of(mark: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (pid, since) = mark.split_once(' ')?;
    (is_number(pid) && is_number(since)).then_some(pid)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_was_left_is_found_once() {
        let folder = std::env::temp_dir().join(format!("nearhead-run-mark-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(NAME);
        let before = |own: &str| {
            let marked = set(&file, own);
            marked.written.unwrap();
            marked.before
        };
        for (left, found) in [
            (&b"77 1\n"[..], "77"),
            (b"", "unknown"),
            (b"77", "unknown"),
            (b"no id\n", "unknown"),
            (&[0xff; 99], "unknown"),
        ] {
            fs::write(&file, left).unwrap();
            assert_eq!(before("1 2").as_deref(), Some(found), "{left:?}");
            remove(&file, "1 2").unwrap();
            assert_eq!(before("1 2"), None, "{left:?}");
            remove(&file, "1 2").unwrap();
        }
        // The next process may have the folder already, with the same id.
        before("1 3");
        remove(&file, "1 2").unwrap();
        assert_eq!(before("1 4").as_deref(), Some("1"));
        // What a full disk has left of a mark.
        fs::write(&file, "").unwrap();
        remove(&file, "1 4").unwrap();
        assert_eq!(before("1 4"), None);

        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(set(&file, "1 5").written.is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
