//! How full the file system of the data folder is, and whether it answers.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use actix_web::rt;
use nearhead_actors::upstream::StateSource;
use rustix::{fs::statvfs, io};
use tokio::sync::oneshot;

use crate::{connections::every, metrics::Metrics, tenants::StoreState};

/// How often it is looked at: a disk that hangs is shown within 15 s, and one fills up in minutes.
const PERIOD: Duration = Duration::from_secs(5);

/// Watches the file system of a folder, from the thread that starts it, until it is dropped.
pub(crate) struct DiskWatch {
    folder: PathBuf,
    metrics: Metrics,
    /// The store of tenants, which is in the folder.
    store: StoreState,
    /// What has the saved window, if there is one in the folder.
    state: Option<StateSource>,
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
    pub(crate) fn start(
        folder: &Path,
        metrics: &Metrics,
        store: &StoreState,
        state: Option<&StateSource>,
    ) -> Rc<Self> {
        let this = Rc::new(Self {
            folder: folder.to_owned(),
            metrics: metrics.clone(),
            store: store.clone(),
            state: state.cloned(),
            is_asked: Rc::default(),
        });
        every(PERIOD, Rc::downgrade(&this), Self::tick);
        this
    }

    fn tick(&self) {
        let now = Instant::now();
        self.store.watch(now, &self.metrics);
        if let Some(state) = &self.state {
            state.saved().watch(now);
        }
        self.ask();
    }

    fn ask(&self) {
        if self.is_asked.replace(true) {
            return;
        }
        let (folder, metrics) = (self.folder.clone(), self.metrics.clone());
        let is_asked = Rc::clone(&self.is_asked);
        let (answer, answered) = oneshot::channel();
        // A thread that nobody joins: a file system of another machine may not answer, and the
        // threads of this runtime are waited for at the end.
        let asking = thread::Builder::new().name("disk-use".to_owned());
        let asked = asking.spawn(move || answer.send(disk_use(&folder)));
        if let Err(error) = asked {
            tracing::warn!(%error, "the data folder's disk is not looked at");
            is_asked.set(false);
            return;
        }
        rt::spawn(async move {
            match answered.await {
                Ok(Ok(DiskUse { free, size })) => metrics.disk(free, size),
                Ok(Err(error)) => tracing::warn!(%error, "the data folder's disk has no figures"),
                Err(_) => tracing::error!("the thread that asks the data folder's disk panicked"),
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
