//! How full the file system of the data folder is.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use actix_web::rt;
use rustix::{fs::statvfs, io};

use crate::{connections::every, metrics::Metrics};

/// How often it is looked at. A disk fills up in minutes.
const PERIOD: Duration = Duration::from_secs(10);

/// Watches the file system of a folder, from the thread that starts it, until it is dropped.
#[derive(Debug)]
pub(crate) struct DiskWatch {
    folder: PathBuf,
    metrics: Metrics,
    /// Whether an answer of the file system is awaited. One that hangs is not asked again.
    is_asked: Rc<Cell<bool>>,
}

/// The bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskUse {
    /// What the process may still write.
    pub(crate) free: u64,
    pub(crate) size: u64,
}

impl DiskWatch {
    /// Starts the watch.
    pub(crate) fn start(folder: &Path, metrics: &Metrics) -> Rc<Self> {
        let this = Rc::new(Self {
            folder: folder.to_owned(),
            metrics: metrics.clone(),
            is_asked: Rc::default(),
        });
        every(PERIOD, Rc::downgrade(&this), Self::tick);
        this
    }

    fn tick(&self) {
        if self.is_asked.replace(true) {
            return;
        }
        let (folder, metrics) = (self.folder.clone(), self.metrics.clone());
        let is_asked = Rc::clone(&self.is_asked);
        rt::spawn(async move {
            // Not on this thread: a file system of another machine may not answer.
            match rt::task::spawn_blocking(move || disk_use(&folder)).await {
                Ok(Ok(DiskUse { free, size })) => metrics.disk(free, size),
                Ok(Err(error)) => tracing::warn!(%error, "the data folder's disk has no figures"),
                Err(error) => tracing::error!(%error, "the data folder's disk was not looked at"),
            }
            is_asked.set(false);
        });
    }
}

/// Asks the file system of a folder, which may take long.
pub(crate) fn disk_use(folder: &Path) -> io::Result<DiskUse> {
    let figures = statvfs(folder)?;
    Ok(DiskUse {
        free: figures.f_frsize.saturating_mul(figures.f_bavail),
        size: figures.f_frsize.saturating_mul(figures.f_blocks),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_room_for_less_than_its_size() {
        let DiskUse { free, size } = disk_use(Path::new(".")).unwrap();
        assert!(0 < size && free <= size, "{free} {size}");
        assert!(disk_use(Path::new("/this/is/nowhere")).is_err());
    }
}
