//! Which store a configuration has.

use std::path::{Path, PathBuf};

use nearhead_actors::{
    data_folder::{DataFolder, DataFolderError, DataRoot},
    disk_wait::{DISK_WAIT_MAX, in_time},
    head::Head,
    upstream::FollowedChain,
};
use nearhead_tenants::store::{MemoryStore, SqliteStore, StoreError, TenantStore};

/// A store, and the lock of its folder.
pub(crate) struct OpenedStore {
    pub(super) store: Box<dyn TenantStore>,
    /// Where it is; `None` if all is kept in memory.
    pub(crate) path: Option<PathBuf>,
    /// `None` if all is kept in memory, or if the source holds the folder.
    pub(super) folder: Option<DataFolder>,
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
    let (folder, path) = match followed {
        Some(chain) => (None, chain.data.clone()),
        None => {
            let folder = open_folder(root, head, is_known)?;
            let path = folder.as_ref().map(|folder| folder.path().to_owned());
            (folder, path)
        }
    };
    let Some(path) = path else {
        return Ok(in_memory());
    };
    match OpenedStore::of_folder(&path) {
        Ok(opened) => Ok(OpenedStore { folder, ..opened }),
        Err(error @ StoreError::Unusable { .. }) if matches!(root, DataRoot::Auto(_)) => {
            tracing::warn!(%error, "tenants and keys are kept in memory");
            Ok(in_memory())
        }
        Err(error) => Err(error.into()),
    }
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
    }
}
