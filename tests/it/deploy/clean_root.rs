//! A Debian of this machine's release with its essential packages alone, which tests/setup makes.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::run;
use crate::harness::{installed, scratch};

/// Unpacks these files of it, or all if there are none.
pub(super) fn unpack_clean_root<'n>(into: &Path, names: impl IntoIterator<Item = &'n String>) {
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--directory").arg(into);
    tar.arg("--file")
        .arg(installed("tests/.tools/clean-root.tar"));
    run(tar.args(names));
}

/// A root to install into. Only root may change into it.
pub(super) struct CleanRoot(pub(super) PathBuf);

impl CleanRoot {
    pub(super) fn unpack(name: &str) -> Self {
        let folder = scratch(name);
        unpack_clean_root(&folder, []);
        Self(folder)
    }

    /// A path of it on this machine.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// A command in it.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut chroot = Command::new("chroot");
        chroot.arg(&self.0).arg(program).env_clear().envs([
            ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            ("DEBIAN_FRONTEND", "noninteractive"),
        ]);
        chroot
    }

    /// What is in it, without what package managers note.
    pub(super) fn files(&self) -> Vec<String> {
        let mut find = Command::new("find");
        find.arg(&self.0).args(["-xdev", "-printf", "%P %y %m\n"]);
        let found = run(&mut find);
        let notes = ["var/lib/dpkg", "var/log/dpkg.log", "var/cache"];
        let is_kept = |line: &&str| !notes.iter().any(|note| line.starts_with(note));
        let mut files: Vec<String> = found.lines().filter(is_kept).map(str::to_owned).collect();
        files.sort();
        files
    }
}
