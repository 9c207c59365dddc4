//! Everything that a page, the admin API or a command does to tenants, keys and accounts.
//!
//! Each thing to do is an [`Operation`]: a plain struct that is also the JSON of the admin API, and
//! whose answer is a *view*, JSON as well. [`Administration`] runs it: it checks the right of the
//! one who asks, writes the change with its entry of the audit, and then makes it in memory. A view
//! has neither digests nor hashes; a secret is in the answer to the operation that makes it, and in
//! no other.
//!
//! | file | operations |
//! |---|---|
//! | `tenants` | on tenants |
//! | `keys`, `key_list`, `key_removal` | on keys |
//! | `usage`, `usage_reading`, `audit_list` | what was used, and what was done |
//! | `accounts`, `tokens` | on people and programs that administer |
//! | `logins` | who asks, by a password, a cookie or an API token |
//!
//! | file | what else there is |
//! |---|---|
//! | `requester`, `error` | who asks, and why not |
//! | `patch`, `settings`, `span`, `secret_text` | parts of operations |
//! | `configured_entries` | the keys that the configuration names |
//! | `passwords` | proofs that somebody gave a password |
//! | `tenant_name` | how tenants are named |
//! | `key_rows`, `recent_use` | all keys in one table, for lists, and what they used of late |
//! | `owners`, `used_today` | for whom usage counts, and units of the day |
//! | `upkeep` | what is over is removed, and what others have written is read |
//! | `version`, `differences` | what was read before a change, and what differs after it |

mod accounts;
mod audit_list;
mod configured_entries;
mod differences;
mod error;
mod key_list;
mod key_removal;
mod key_rows;
mod keys;
mod logins;
mod owners;
mod passwords;
mod patch;
mod recent_use;
mod requester;
mod secret_text;
mod settings;
mod span;
mod tenant_name;
mod tenants;
mod tokens;
mod upkeep;
mod usage;
mod usage_reading;
mod used_today;
mod version;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    time::Duration,
};

pub use self::{
    accounts::{
        AccountView, AccountsView, CreateAccount, ListAccounts, PreparedAccount, PreparedPassword,
        RemoveAccount, RoleName, SetPassword,
    },
    audit_list::{
        AUDIT_LIST_MAX, AuditEntryView, AuditListView, AuthorView, ListAudit, ListLogins, LoginPage,
    },
    configured_entries::ConfiguredEntry,
    error::{AdminError, AdminErrorKind, ErrorBody, ErrorView},
    key_list::{KEY_LIST_MAX, KeyListView, ListKeys},
    key_removal::RemoveKey,
    key_rows::KeySort,
    keys::{
        ChangedKeyView, CreateKey, GetKey, KeyView, NewKeyView, RecordSource, RevokeKey, RotateKey,
        SecretView, SettingsView, UpdateKey,
    },
    logins::{
        Authenticate, AuthenticateNamed, BeginLogin, ClaimFirstAccount, Credential, EndLogin,
        HasAccounts, MeView, NewLogin, RefuseLogin, WhoAmI,
    },
    passwords::{FindPassword, StoredPassword, VerifiedPassword},
    patch::Patch,
    recent_use::Last24h,
    requester::{Identity, Requester},
    secret_text::SecretText,
    settings::{AllowPatch, LimitsPatch, QuotaPatch, RateRequest, SecretRequest, SettingsPatch},
    span::{InvalidSpan, Span},
    tenant_name::{TenantName, TenantRef},
    tenants::{
        CreateTenant, GetTenant, KeyCounts, ListTenants, RemoveTenant, TENANT_LIST_MAX,
        TenantListView, TenantView, UpdateTenant,
    },
    tokens::{CreateToken, ListTokens, NewTokenView, RemoveToken, TokenView, TokensView},
    usage::{
        Breakdown, GetUsage, InvalidBreakdown, LatencyView, USAGE_ROWS_MAX, UsageRowView, UsageView,
    },
    usage_reading::{BeginUsage, ReadUsagePart, UsageReading},
    version::Version,
};

use self::{
    configured_entries::ConfiguredEntries, key_rows::KeyRows, owners::Owners, recent_use::RecentUse,
};
use crate::{
    UnixMillis,
    account::{AccountChange, Accounts},
    audit::{AuditEntry, Author, Detail, Verb},
    command::{Change, Command},
    directory::{ChangedRecords, Directory},
    id::{KeyId, TenantId},
    limits::Quota,
    name::Name,
    store::{Commit, Loaded, StoreError, TenantStore},
    usage::{KeyOwner, UsageCell},
};

/// How long the table for lists is kept after the last one: for 100,000 keys it takes 14 MB, and
/// 50 ms to be made.
const ROWS_KEPT: Duration = Duration::from_secs(600);

/// Something to do, or to look up.
pub trait Operation: Sized {
    /// What is answered.
    type Answer;

    /// Whether it reads usage, so that what was counted is to be stored before.
    const READS_USAGE: bool = false;

    /// Whether it needs what all keys used in the last 24 hours, which is read in the background
    /// (see [`Administration::read_recent_use`]). If that is not known yet, the operation reads it.
    fn needs_recent_use(&self) -> bool {
        false
    }

    /// Does it.
    ///
    /// # Errors
    /// It is refused, or the store failed. Nothing has changed then.
    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<Self::Answer, AdminError>;
}

/// All tenants, keys and accounts, with the store that keeps them.
pub struct Administration {
    store: Box<dyn TenantStore>,
    directory: Directory,
    accounts: Accounts,
    /// When keys were last used, also those that are gone.
    last_used: HashMap<KeyId, UnixMillis>,
    configured: ConfiguredEntries,
    methods: HashSet<Box<str>>,
    /// Made when a list is asked for, and freed when none was for [`ROWS_KEPT`].
    rows: Option<KeyRows>,
    /// When a list was last asked for.
    listed_at: UnixMillis,
    /// What keys used in the last 24 hours, for a list that is sorted by it.
    recent: RecentUse,
    /// When keys were last looked for that are no longer kept.
    keys_checked: UnixMillis,
    /// When there is one, at the earliest: until then no key is looked at.
    removal_due: UnixMillis,
    changed: Changed,
    failures: BTreeMap<StoreCall, StoreError>,
}

/// The calls of the store, each of which may fail while others work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StoreCall {
    Commit,
    AddUsage,
    Expire,
    Read,
    Refresh,
}

/// What an [`Administration`] is made of.
pub struct AdministrationSetup {
    /// Where everything is kept.
    pub store: Box<dyn TenantStore>,
    /// The keys that the configuration names.
    pub configured: Vec<ConfiguredEntry>,
    /// The methods that an allowlist may name; any, if there are none.
    pub methods: Vec<String>,
}

/// What has changed, for whoever puts it in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// What is stored.
    pub records: ChangedRecords,
    /// Whether the keys that the configuration names were replaced.
    pub configured: bool,
    /// Those that had no quota before, so that nothing has counted what they used today.
    pub first_quotas: ChangedRecords,
}

impl Changed {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && !self.configured
    }

    /// Adds a change, which is not made in `directory` yet.
    fn add(&mut self, change: &Change, directory: &Directory, configured: &ConfiguredEntries) {
        self.records.add(change, directory);
        let none = Quota::default();
        let is_first = match change {
            Change::Tenant(tenant) => match directory.tenant(tenant.id) {
                Some(before) => before.limits.quota == none && tenant.limits.quota != none,
                // Configured keys of its name have perhaps used something.
                None => configured.keys_of(&tenant.name).next().is_some(),
            },
            Change::Key(key) => {
                let before = directory.key(key.id);
                before.is_some_and(|before| before.settings.quota == none)
                    && key.settings.quota != none
            }
            Change::TenantRemoved(_) | Change::KeyRemoved(_) => false,
        };
        if is_first {
            self.first_quotas.add(change, directory);
        }
    }
}

impl Administration {
    /// Reads the store.
    ///
    /// # Errors
    /// The store cannot be read, or is damaged.
    pub fn open(setup: AdministrationSetup) -> Result<Self, StoreError> {
        let AdministrationSetup {
            mut store,
            configured,
            methods,
        } = setup;
        let Loaded {
            directory,
            accounts,
            last_used,
        } = store.load()?;
        Ok(Self {
            removal_due: directory.first_removal(),
            store,
            directory,
            accounts,
            last_used,
            configured: ConfiguredEntries::new(configured),
            methods: methods.into_iter().map(Into::into).collect(),
            rows: None,
            listed_at: UnixMillis(0),
            recent: RecentUse::default(),
            keys_checked: UnixMillis(0),
            changed: Changed::default(),
            failures: BTreeMap::new(),
        })
    }

    /// All stored tenants and keys.
    #[must_use]
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What has changed since [`Self::take_changed`] was called.
    #[must_use]
    pub const fn changed(&self) -> &Changed {
        &self.changed
    }

    /// What has changed since the last call.
    pub fn take_changed(&mut self) -> Changed {
        mem::take(&mut self.changed)
    }

    /// Why the store fails; `None` if every kind of call did well the last time.
    #[must_use]
    pub fn failure(&self) -> Option<&StoreError> {
        self.failures.values().next()
    }

    /// Replaces the keys that the configuration names.
    ///
    /// # Errors
    /// The audit cannot be written. The keys are replaced all the same.
    pub fn replace_configured(
        &mut self,
        configured: Vec<ConfiguredEntry>,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        self.configured = ConfiguredEntries::new(configured);
        self.rows = None;
        self.changed.configured = true;
        let entry = AuditEntry {
            at: now,
            author: Author::Configuration,
            from: None,
            verb: Verb::CONFIGURATION_RELOAD,
            tenant: None,
            key: None,
            detail: Detail::default(),
        };
        let commit = Commit {
            entries: &[entry],
            ..Commit::default()
        };
        self.store(StoreCall::Commit, |store| store.commit(&commit))
    }

    /// Notes that a key was used. This is stored with its usage.
    pub fn mark_used(&mut self, key: KeyId, at: UnixMillis) {
        let last = self.last_used.entry(key).or_default();
        *last = at.max(*last);
        if let Some(rows) = &mut self.rows {
            rows.mark_used(key, *last);
        }
    }

    /// The tenant of a key, stored or configured.
    #[must_use]
    pub fn tenant_of(&self, key: KeyId) -> Option<TenantId> {
        Some(self.owner_of(key)?.tenant)
    }

    /// For whom the usage of a key counts; `None` if it is neither stored nor configured.
    #[must_use]
    pub fn owner_of(&self, key: KeyId) -> Option<KeyOwner> {
        self.owners().of(key)
    }

    /// Stores usage.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn add_usage(&mut self, cells: &[UsageCell]) -> Result<(), StoreError> {
        self.store(StoreCall::AddUsage, |store| store.add_usage(cells))?;
        self.recent.add(cells);
        Ok(())
    }

    /// Calls the store, and keeps in mind whether that failed.
    fn store<T>(
        &mut self,
        kind: StoreCall,
        call: impl FnOnce(&mut dyn TenantStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let outcome = call(&mut *self.store);
        self.note(kind, outcome)
    }

    /// Keeps in mind whether a call of the store failed. That others wrote at the same time is no
    /// failure.
    fn note<T>(
        &mut self,
        kind: StoreCall,
        outcome: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &outcome {
            Ok(_) | Err(StoreError::Conflict) => self.failures.remove(&kind),
            Err(error) => self.failures.insert(kind, error.clone()),
        };
        outcome
    }

    /// Writes changes, and makes them.
    fn commit(
        &mut self,
        directory: Vec<Change>,
        accounts: Vec<AccountChange>,
        entries: &[AuditEntry],
    ) -> Result<(), StoreError> {
        let commit = Commit {
            directory: &directory,
            accounts: &accounts,
            entries,
        };
        self.store(StoreCall::Commit, |store| store.commit(&commit))?;
        self.make(directory, accounts);
        Ok(())
    }

    /// Makes changes that the store has.
    fn make(&mut self, directory: Vec<Change>, accounts: Vec<AccountChange>) {
        let names_change = directory
            .iter()
            .any(|change| matches!(change, Change::Tenant(_) | Change::TenantRemoved(_)));
        if names_change && self.configured.keys().len() > 0 {
            // Configured keys may have another tenant now.
            self.rows = None;
        }
        for change in directory {
            self.changed.add(&change, &self.directory, &self.configured);
            if let Some(rows) = &mut self.rows {
                rows.change(&change, &self.directory);
            }
            match &change {
                Change::Key(key) => self.removal_due = self.removal_due.min(key.removed_at()),
                Change::KeyRemoved(id) => drop(self.last_used.remove(id)),
                Change::Tenant(_) | Change::TenantRemoved(_) => {}
            }
            self.directory.make(change);
        }
        for change in accounts {
            self.accounts.make(change);
        }
    }

    /// Runs a command, with its entry of the audit, which says what an update changes. One that
    /// changes nothing leaves none.
    fn run_command(
        &mut self,
        command: Command,
        detail: Detail,
        by: &Requester,
    ) -> Result<(), AdminError> {
        let (tenant, key) = match &command {
            Command::CreateTenant { id, .. }
            | Command::UpdateTenant { id, .. }
            | Command::RemoveTenant { id } => (Some(*id), None),
            Command::CreateKey { key, tenant, .. } => (Some(*tenant), Some(key.id)),
            Command::UpdateKey { id, .. }
            | Command::RotateKey { id, .. }
            | Command::RevokeKey { id }
            | Command::RemoveKey { id } => (self.tenant_of(*id), Some(*id)),
        };
        let is_update = matches!(
            command,
            Command::UpdateTenant { .. } | Command::UpdateKey { .. }
        );
        let accounts = match &command {
            Command::RemoveTenant { id } => self.accounts.plan_removal_of(*id),
            _ => Vec::new(),
        };
        let entry = AuditEntry {
            tenant,
            key,
            ..by.entry(Verb::of(&command), detail)
        };
        let changes = self.directory.plan(command, by.now)?;
        if changes.iter().all(|change| self.directory.has(change)) {
            return Ok(());
        }
        let entries = match is_update {
            true => self.entries_of_updates(&changes, &entry),
            false => vec![entry],
        };
        self.commit(changes, accounts, &entries)?;
        Ok(())
    }

    /// An entry for each record that an update changes, with what differs.
    fn entries_of_updates(&self, changes: &[Change], entry: &AuditEntry) -> Vec<AuditEntry> {
        let changes = changes.iter().filter(|change| !self.directory.has(change));
        let entries = changes.filter_map(|change| match change {
            Change::Key(key) => Some(AuditEntry {
                key: Some(key.id),
                detail: differences::of_keys(self.directory.key(key.id)?, key),
                ..entry.clone()
            }),
            Change::Tenant(tenant) => Some(AuditEntry {
                detail: differences::of_tenants(self.directory.tenant(tenant.id)?, tenant),
                ..entry.clone()
            }),
            Change::TenantRemoved(_) | Change::KeyRemoved(_) => None,
        });
        entries.collect()
    }

    /// The tenant of configured keys: the stored one of the name, or one that is nowhere else.
    fn configured_tenant(&self, name: &Name) -> TenantId {
        self.owners().tenant_named(name)
    }

    const fn owners(&self) -> Owners<'_> {
        Owners {
            directory: &self.directory,
            configured: &self.configured,
        }
    }

    /// The tenant of an id.
    fn tenant_name(&self, id: TenantId) -> Option<TenantName> {
        if let Some(tenant) = self.directory.tenant(id) {
            let name = tenant.name.clone();
            return Some(TenantName { id, name });
        }
        let name = self.configured.tenant_name(id)?.clone();
        let is_stored = self.directory.tenant_named(name.as_str()).is_some();
        (!is_stored).then_some(TenantName { id, name })
    }

    /// The tenant that somebody names, if they may see it.
    fn tenant(&self, named: &TenantRef, by: &Requester) -> Result<TenantName, AdminError> {
        let by_id = named.as_str().parse().ok();
        let by_id = by_id.and_then(|id| self.tenant_name(id));
        let found = by_id.or_else(|| {
            let name: Name = named.as_str().parse().ok()?;
            self.tenant_name(self.configured_tenant(&name))
        });
        found
            .filter(|tenant| by.may_see(tenant.id))
            .ok_or_else(|| AdminError::NoTenant(named.to_string()))
    }

    /// The stored tenant that somebody names.
    fn stored_tenant(&self, named: &TenantRef, by: &Requester) -> Result<TenantName, AdminError> {
        let tenant = self.tenant(named, by)?;
        match self.directory.tenant(tenant.id) {
            Some(_) => Ok(tenant),
            None => Err(AdminError::ConfiguredTenant(tenant.name)),
        }
    }
}

#[cfg(test)]
mod tests;
