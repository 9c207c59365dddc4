//! Which store a configuration has.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use nearhead_actors::{
    data_folder::{DataFolder, DataFolderError, DataRoot},
    disk_wait::{DISK_WAIT_MAX, in_time},
    fleet::SharedStore,
    head::Head,
    upstream::FollowedChain,
};
use nearhead_tenants::store::{MemoryStore, SqliteStore, StoreError, TenantStore};

use tokio::{task::spawn_blocking, time::sleep};

use super::{fleet_mark, fleet_store::FleetTenants};
use crate::metrics::{Metrics, RecordRefusals};

/// Pause before a fleet's store is read again that could not be read at the start.
const SHARED_PAUSE: Duration = Duration::from_millis(500);

/// A store, and the lock of its folder.
pub(crate) struct OpenedStore {
    pub(super) store: Box<dyn TenantStore>,
    /// Where it is; `None` if all is kept in memory.
    pub(crate) path: Option<PathBuf>,
    /// `None` if all is kept in memory, or if the source holds the folder.
    pub(super) folder: Option<DataFolder>,
    /// Whether other processes write to it as well.
    pub(super) is_shared: bool,
}

/// Why no store can be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] DataFolderError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    /// Whether the operator named a folder that this process may not use, although nothing is wrong
    /// with it.
    pub(crate) const fn is_misuse(&self) -> bool {
        match self {
            Self::Folder(error) => error.is_misuse(),
            Self::Store(error) => error.is_misuse(),
        }
    }
}

/// Opens the store of the chain that is served: in the folder that the source holds, or in the one
/// that `root` has for the chain. `is_known` says that the operator named the chain.
///
/// # Errors
/// The folder or the store cannot be used.
pub(crate) fn open(
    root: &DataRoot,
    followed: Option<&FollowedChain>,
    head: &Head,
    is_known: bool,
) -> Result<OpenedStore, OpenError> {
    let LocalFolder { path, folder } = LocalFolder::open(root, followed, head, is_known)?;
    let Some(path) = path else {
        return Ok(in_memory());
    };
    mark(&path, fleet_mark::remove);
    match OpenedStore::of_folder(&path) {
        Ok(opened) => Ok(OpenedStore { folder, ..opened }),
        Err(error @ StoreError::Unusable { .. }) if matches!(root, DataRoot::Auto(_)) => {
            tracing::warn!(%error, "tenants and keys are kept in memory");
            Ok(in_memory())
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the store that all processes of a fleet share. It waits until that can be read: a process
/// that does not know the keys could only refuse them. The process' own folder is marked, because
/// nobody reads tenants and keys there.
///
/// # Errors
/// The system has no thread left.
pub(crate) async fn open_shared(
    shared: SharedStore,
    refusals: RecordRefusals,
    local: LocalFolder,
) -> Result<OpenedStore, OpenError> {
    if let Some(path) = &local.path {
        mark(path, fleet_mark::set);
    }
    let mut shown = None;
    loop {
        let (shared, refusals) = (shared.clone(), refusals.clone());
        let opened = spawn_blocking(move || FleetTenants::open(&shared, refusals)).await;
        let error = match opened {
            Ok(Ok(store)) => {
                return Ok(OpenedStore {
                    store: Box::new(store),
                    path: local.path,
                    folder: local.folder,
                    is_shared: true,
                });
            }
            Ok(Err(error)) => error,
            Err(error) => StoreError::Away {
                reason: error.to_string(),
            },
        };
        if shown.as_ref() != Some(&error) {
            tracing::error!(%error, "waiting for the tenants and keys of the fleet");
        }
        shown = Some(error);
        sleep(SHARED_PAUSE).await;
    }
}

/// Opens the store that all processes of a fleet share, without a service: what it refuses is
/// counted nowhere.
///
/// # Errors
/// The store does not answer, or has what the fleet did not write.
pub fn open_fleet_store(shared: &SharedStore) -> Result<Box<dyn TenantStore>, StoreError> {
    let metrics = Metrics::new([]).map_err(|error| StoreError::Away {
        reason: error.to_string(),
    })?;
    let store = FleetTenants::open(shared, metrics.record_refusals())?;
    Ok(Box::new(store))
}

/// The folder of the chain that is served, for a store or without one.
pub(crate) struct LocalFolder {
    /// Where it is; `None` if all is kept in memory.
    path: Option<PathBuf>,
    /// `None` if all is kept in memory, or if the source holds the folder.
    folder: Option<DataFolder>,
}

impl LocalFolder {
    /// The folder that the source holds, or the one that `root` has for the chain. `is_known` says
    /// that the operator named the chain.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(crate) fn open(
        root: &DataRoot,
        followed: Option<&FollowedChain>,
        head: &Head,
        is_known: bool,
    ) -> Result<Self, OpenError> {
        if let Some(chain) = followed {
            let path = chain.data.clone();
            return Ok(Self { path, folder: None });
        }
        let folder = open_folder(root, head, is_known)?;
        let path = folder.as_ref().map(|folder| folder.path().to_owned());
        Ok(Self { path, folder })
    }
}

/// Marks a folder, or removes its mark. That matters to commands alone, so that the service goes on
/// if it cannot be done.
fn mark(path: &Path, mark: fn(&Path) -> io::Result<()>) {
    let folder = path.to_owned();
    let marked = in_time(DISK_WAIT_MAX, move || mark(&folder));
    let error = match marked {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(%error, "the data folder does not say whether its process is one of a fleet");
}

impl OpenedStore {
    /// The store in a folder that this process holds.
    pub(super) fn of_folder(path: &Path) -> Result<Self, StoreError> {
        let folder = path.to_owned();
        let store = in_time(DISK_WAIT_MAX, move || SqliteStore::open(&folder));
        let store = store.unwrap_or_else(|error| {
            Err(StoreError::Unusable {
                path: path.to_owned(),
                reason: error.to_string(),
            })
        })?;
        Ok(Self {
            store: Box::new(store),
            path: Some(path.to_owned()),
            folder: None,
            is_shared: false,
        })
    }
}

/// The folder of a chain that is made or imported, whose genesis is held.
fn open_folder(
    root: &DataRoot,
    head: &Head,
    is_known: bool,
) -> Result<Option<DataFolder>, DataFolderError> {
    let snapshot = head.load();
    let genesis = snapshot.as_ref().and_then(|held| held.genesis());
    match (&snapshot, genesis) {
        (Some(held), Some(genesis)) => root.open(held.chain_id(), genesis.hash, is_known),
        _ => Ok(None),
    }
}

fn in_memory() -> OpenedStore {
    OpenedStore {
        store: Box::new(MemoryStore::default()),
        path: None,
        folder: None,
        is_shared: false,
    }
}
