//! A store that is prepared for a program.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
    time::SystemTime,
};

use alloy_primitives::B256;
use nearhead_actors::data_folder::DataFolder;
use nearhead_chain::{
    dev::{DevConfig, Producer, Profile},
    encode::EncodeOptions,
};
use nearhead_tenants::{
    UnixMillis,
    account::{AccountChange, Accounts, ApiToken, Role},
    command::{Change, Command, NewKey},
    directory::Directory,
    id::{KeyId, TenantId},
    limits::TenantLimits,
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
    store::{Commit, SqliteStore, TenantStore as _},
    usage::UsageCell,
};

use crate::harness::{Server, scratch};

/// Tenants and keys for a program that serves the dev chain.
#[derive(Default)]
pub(crate) struct PreparedStore {
    directory: Directory,
    changes: Vec<Change>,
    accounts: Vec<AccountChange>,
    usage: Vec<UsageCell>,
}

impl PreparedStore {
    /// Runs a command.
    pub(crate) fn run(&mut self, command: Command) {
        for change in self.directory.plan(command, now()).unwrap() {
            self.directory.make(change.clone());
            self.changes.push(change);
        }
    }

    /// Adds a tenant.
    pub(crate) fn tenant(&mut self, name: &str, limits: TenantLimits) -> TenantId {
        let id = TenantId::of_configured(name);
        let name = name.parse().unwrap();
        self.run(Command::CreateTenant { id, name, limits });
        id
    }

    /// Adds a key that clients present as `key`, of a tenant of its own with that name.
    pub(crate) fn key(&mut self, key: &str, settings: KeySettings) -> KeyId {
        let tenant = self.tenant(key, TenantLimits::default());
        self.key_of(tenant, key, None, settings)
    }

    /// Adds a key that clients present as `key`.
    pub(crate) fn key_of(
        &mut self,
        tenant: TenantId,
        key: &str,
        expires: Option<UnixMillis>,
        settings: KeySettings,
    ) -> KeyId {
        let id = KeyId::of_configured(key);
        self.run(Command::CreateKey {
            key: NewKey {
                id,
                prefix: KeyPrefix::of(key),
                digest: SecretDigest::of(key),
            },
            tenant,
            name: key.parse().unwrap(),
            expires,
            settings,
        });
        id
    }

    /// Revokes a key.
    pub(crate) fn revoke(&mut self, id: KeyId) {
        self.run(Command::RevokeKey { id });
    }

    /// Adds an API token of administration.
    pub(crate) fn api_token(&mut self, token: &str) {
        let token = ApiToken {
            name: "test".parse().unwrap(),
            digest: SecretDigest::of(token),
            role: Role::Admin,
            created: now(),
            expires: None,
        };
        let planned = Accounts::default().plan_token(token).unwrap();
        self.accounts.extend(planned);
    }

    /// Adds usage.
    #[cfg(feature = "all-tests")]
    pub(crate) fn usage(&mut self, cells: Vec<UsageCell>) {
        self.usage.extend(cells);
    }

    /// Writes the store, and starts a program on it whose chain stays as it is. The scratch folder
    /// has this name.
    pub(crate) fn serve(&self, folder: &str, arguments: &[&str]) -> Server {
        let root = scratch(folder);
        self.write(&root);
        Server::on_data(&root, arguments)
    }

    /// Writes the store of the dev chain into the folder of its data, and returns that.
    pub(crate) fn write(&self, root: &Path) -> PathBuf {
        self.write_for(root, dev_chain())
    }

    /// The same for another chain, by its id and its genesis.
    pub(crate) fn write_for(&self, root: &Path, (chain_id, genesis): (u64, B256)) -> PathBuf {
        let folder = DataFolder::open(root, chain_id, genesis).unwrap();
        let mut store = SqliteStore::open(folder.path()).unwrap();
        let commit = Commit {
            directory: &self.changes,
            accounts: &self.accounts,
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
        for cells in self.usage.chunks(8_192) {
            store.add_usage(cells).unwrap();
        }
        folder.path().to_owned()
    }
}

/// The present.
pub(crate) fn now() -> UnixMillis {
    SystemTime::now().into()
}

/// Chain id and genesis of the chain that the program makes by default.
fn dev_chain() -> (u64, B256) {
    static CHAIN: OnceLock<(u64, B256)> = OnceLock::new();
    *CHAIN.get_or_init(|| {
        let config = DevConfig {
            seed: 1,
            profile: Profile::Small,
            block_time_seconds: 1,
            reorg_every: None,
            reorg_depth: 1,
        };
        let producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| {}).unwrap();
        let chain_id = producer.genesis().without_accounts().config.chain_id;
        (chain_id, producer.head().hash)
    })
}
