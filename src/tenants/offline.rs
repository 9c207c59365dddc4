//! The tenants of a data folder that no service uses, for commands.

use std::{path::PathBuf, time::SystemTime};

use nearhead_actors::data_folder::{DataFolderError, DataRoot, LockedFolder};
use nearhead_tenants::{
    administration::{
        AdminError, Administration, AdministrationSetup, Identity, Operation, Requester,
    },
    store::{SqliteStore, StoreError},
};

use super::fleet_mark;
use crate::{
    access::ConfiguredKey,
    rpc::{self, Forwarding},
};

/// The tenants of a data folder, which no other process can use until this is dropped.
pub struct OfflineTenants {
    administration: Administration,
    path: PathBuf,
    // Dropped after the store is closed.
    _folder: LockedFolder,
}

/// Why the tenants of a data folder cannot be used without a service.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// A running service holds it.
    #[error(
        "{} is in use by a running nearhead: give its --admin-url instead of --data-dir", path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Its process is one of a fleet, whose tenants are elsewhere.
    #[error(
        "{} belongs to a process of a fleet, whose tenants and keys are in the fleet's store: give \
         the --admin-url of a running process of the fleet instead of --data-dir; or start the \
         process once without --fleet, if it is to leave the fleet", path.display()
    )]
    OfFleet {
        /// The folder.
        path: PathBuf,
    },
    /// There is no folder.
    #[error(
        "no folder for data is known, because none of STATE_DIRECTORY, XDG_DATA_HOME and HOME is \
         set or --data-dir is none: give --data-dir FOLDER, or the --admin-url of a running nearhead"
    )]
    NoRoot,
    /// There is no data of this chain, or of any.
    #[error(
        "{} has no data of {}: give the --data-dir and the --chain-id that nearhead runs with", root.display(),
        chain.map_or_else(|| "a chain".to_owned(), |chain| format!("chain {chain}"))
    )]
    NoChain {
        /// The folder in which each chain has one.
        root: PathBuf,
        /// The chain that was asked for.
        chain: Option<u64>,
    },
    /// There is data of several chains.
    #[error("{} has data of several chains: give --chain-id, one of {}", root.display(), list(chains))]
    SeveralChains {
        /// The folder in which each chain has one.
        root: PathBuf,
        /// The ids of the chains.
        chains: Vec<u64>,
    },
    /// There are several chains with the same id.
    #[error("{} has several chains with id {chain}: move all but one elsewhere", root.display())]
    SameChainId {
        /// The folder in which each chain has one.
        root: PathBuf,
        /// The id of the chains.
        chain: u64,
    },
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(DataFolderError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn list(chains: &[u64]) -> String {
    let chains: Vec<_> = chains.iter().map(u64::to_string).collect();
    chains.join(", ")
}

impl OfflineError {
    /// Whether the command has to be given in another way.
    #[must_use]
    pub const fn is_misuse(&self) -> bool {
        match self {
            Self::InUse { .. }
            | Self::OfFleet { .. }
            | Self::NoRoot
            | Self::NoChain { .. }
            | Self::SeveralChains { .. }
            | Self::SameChainId { .. } => true,
            Self::Folder(error) => error.is_misuse(),
            Self::Store(error) => error.is_misuse(),
        }
    }
}

impl OfflineTenants {
    /// Opens the store of a chain: of the one with this id, or of the only one that `root` has.
    /// Nothing is made but the store itself.
    ///
    /// # Errors
    /// The folder or the store cannot be used.
    pub fn open(
        root: &DataRoot,
        chain: Option<u64>,
        configured: &[ConfiguredKey],
    ) -> Result<Self, OfflineError> {
        let path = folder_of(root, chain)?;
        let folder = LockedFolder::open(&path).map_err(|error| match error {
            DataFolderError::InUse { path } => OfflineError::InUse { path },
            error => OfflineError::Folder(error),
        })?;
        let is_of_fleet = fleet_mark::is_set(&path).map_err(|error| {
            let path = path.clone();
            OfflineError::Folder(DataFolderError::Unusable { path, error })
        })?;
        if is_of_fleet {
            return Err(OfflineError::OfFleet { path });
        }
        let administration = Administration::open(AdministrationSetup {
            store: Box::new(SqliteStore::open(&path)?),
            configured: configured.iter().map(ConfiguredKey::entry).collect(),
            methods: rpc::listed_names(&Forwarding::default()),
        })?;
        Ok(Self {
            administration,
            path,
            _folder: folder,
        })
    }

    /// Where the store is.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Runs an operation for whoever runs a command on this machine.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn run<O: Operation>(&mut self, operation: O) -> Result<O::Answer, AdminError> {
        let now = SystemTime::now().into();
        let by = Requester::new(Identity::command_line(), None, now);
        operation.run(&mut self.administration, &by)
    }
}

/// The folder of the chain that is asked for.
fn folder_of(root: &DataRoot, chain: Option<u64>) -> Result<PathBuf, OfflineError> {
    let Some(path) = root.path() else {
        return Err(OfflineError::NoRoot);
    };
    let mut chains = root.chains().map_err(OfflineError::Folder)?;
    chains.retain(|(id, _)| chain.is_none_or(|chain| *id == chain));
    let root = path.to_owned();
    let mut ids: Vec<u64> = chains.iter().map(|(id, _)| *id).collect();
    match (chains.len(), chains.pop()) {
        (1, Some((_, folder))) => Ok(folder),
        (0, _) | (_, None) => Err(OfflineError::NoChain { root, chain }),
        (_, Some((chain, _))) => {
            ids.dedup();
            match ids.len() {
                1 => Err(OfflineError::SameChainId { root, chain }),
                _ => {
                    let chains = ids;
                    Err(OfflineError::SeveralChains { root, chains })
                }
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
