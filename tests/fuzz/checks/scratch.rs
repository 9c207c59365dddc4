use std::{
    fs,
    path::{Path, PathBuf},
};

/// What begins a file of SQLite.
pub(super) const SQLITE: &[u8] = b"SQLite format 3\0";

/// A folder in memory, if the system has some. Dropping the value removes it.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new(target: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let this = Self(folder.join(format!("nearhead-fuzz-{target}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&this.0);
        fs::create_dir(&this.0).unwrap();
        this
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
