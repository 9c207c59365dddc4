//! buildah, which builds images without a server.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::run;

/// buildah with a storage of its own, in a folder that is empty.
pub(super) struct Buildah(PathBuf);

impl Buildah {
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Runs a command of it; returns what it printed.
    pub(super) fn run(&self, arguments: &[&str]) -> String {
        let mut buildah = Command::new("buildah");
        for place in ["root", "runroot"] {
            buildah.arg(format!("--{place}")).arg(self.0.join(place));
        }
        buildah.args(["--storage-driver", "vfs"]).args(arguments);
        run(&mut buildah).trim().to_owned()
    }
}
