//! Which store a configuration has.

use nearhead_actors::data_folder::{DataFolder, DataFolderError};
use nearhead_tenants::store::{MemoryStore, StoreError, TenantStore};

/// A store, and the lock of its folder.
pub(crate) struct OpenedStore {
    pub(super) store: Box<dyn TenantStore>,
    /// `None` if all is kept in memory, or if the source holds the folder.
    pub(super) _folder: Option<DataFolder>,
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

/// The store of a service that keeps everything in memory.
pub(crate) fn open() -> OpenedStore {
    OpenedStore {
        store: Box::new(MemoryStore::default()),
        _folder: None,
    }
}
