//! Marks the data folder of a process of a fleet: its tenants and keys are in the fleet's store, so
//! that a command that changed those of the folder would change nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const TEXT: &str = "The process of this folder is one of a fleet, which has its tenants.\n";

fn file(folder: &Path) -> PathBuf {
    folder.join("fleet.txt")
}

/// Marks a folder.
pub(super) fn set(folder: &Path) -> io::Result<()> {
    match is_set(folder)? {
        true => Ok(()),
        false => fs::write(file(folder), TEXT),
    }
}

/// Removes the mark, if there is one.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_file(file(folder)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a folder has the mark.
pub(super) fn is_set(folder: &Path) -> io::Result<bool> {
    file(folder).try_exists()
}
