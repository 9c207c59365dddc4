//! All tenants and keys, in memory.

mod changed_records;
mod found_by;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

pub use self::changed_records::ChangedRecords;
use self::found_by::{ByDigest, ById};
use crate::{
    UnixMillis,
    bounds::{KEYS_MAX, TENANTS_MAX},
    command::{Change, Command, CommandError, NewKey},
    id::{KeyId, TenantId},
    name::Name,
    public_key::{PUBLIC_KEYS_MAX, VerifyingKey},
    record::{KeyRecord, KeySettings, KeyState, TenantRecord},
    secret::SecretDigest,
};

/// All tenants and keys of a store. What the configuration names is not in it.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    tenants: HashMap<TenantId, OwnedKeys>,
    keys: HashSet<ById>,
    by_name: HashMap<Name, TenantId>,
    by_digest: HashSet<ByDigest>,
    /// By the first key of a chain, its other keys.
    chains: HashMap<KeyId, BTreeSet<KeyId>>,
}

/// A tenant, and its keys. A tenant may have all keys, so that removing one looks at few others.
#[derive(Clone, Debug)]
struct OwnedKeys {
    tenant: Arc<TenantRecord>,
    keys: BTreeSet<KeyId>,
}

impl PartialEq for Directory {
    /// The same records: all else follows from them.
    fn eq(&self, other: &Self) -> bool {
        let has_tenant = |of: &Arc<TenantRecord>| self.tenant(of.id) == Some(of);
        let has_key = |of: &Arc<KeyRecord>| self.key(of.id) == Some(of);
        self.tenants.len() == other.tenants.len()
            && self.keys.len() == other.keys.len()
            && other.tenants().all(has_tenant)
            && other.keys().all(has_key)
    }
}

impl Eq for Directory {}

impl Directory {
    /// A tenant.
    #[must_use]
    pub fn tenant(&self, id: TenantId) -> Option<&Arc<TenantRecord>> {
        self.tenants.get(&id).map(|owned| &owned.tenant)
    }

    /// The tenant of this name.
    #[must_use]
    pub fn tenant_named(&self, name: &str) -> Option<&Arc<TenantRecord>> {
        self.tenant(*self.by_name.get(name)?)
    }

    /// A key.
    #[must_use]
    pub fn key(&self, id: KeyId) -> Option<&Arc<KeyRecord>> {
        self.keys.get(&id).map(|ById(key)| key)
    }

    /// The key with this digest.
    #[must_use]
    pub fn key_with(&self, digest: &SecretDigest) -> Option<&Arc<KeyRecord>> {
        self.by_digest.get(digest).map(|ByDigest(key)| key)
    }

    /// The keys of a tenant, sorted by id.
    pub fn keys_of(&self, tenant: TenantId) -> impl ExactSizeIterator<Item = KeyId> {
        let owned = self.tenants.get(&tenant);
        owned
            .map_or_else(Default::default, |owned| owned.keys.iter())
            .copied()
    }

    /// All tenants, in no particular order.
    pub fn tenants(&self) -> impl ExactSizeIterator<Item = &Arc<TenantRecord>> {
        self.tenants.values().map(|owned| &owned.tenant)
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<KeyRecord>> {
        self.keys.iter().map(|ById(key)| key)
    }

    /// When the first key is to be removed; the end of time if none is. All keys are looked at.
    #[must_use]
    pub fn first_removal(&self) -> UnixMillis {
        let all = self.keys().map(|key| key.removed_at());
        all.min().unwrap_or(UnixMillis(u64::MAX))
    }

    /// The keys of a chain, in no particular order.
    pub fn chain(&self, first: KeyId) -> impl Iterator<Item = &Arc<KeyRecord>> {
        let others = self.chains.get(&first).into_iter().flatten().copied();
        [first]
            .into_iter()
            .chain(others)
            .filter_map(|id| self.key(id))
    }

    /// The key that took a key's place, unless it was removed.
    #[must_use]
    pub fn successor(&self, of: &KeyRecord) -> Option<KeyId> {
        of.replaced_by.filter(|id| self.keys.contains(id))
    }

    /// Whether a change would change nothing.
    #[must_use]
    pub fn has(&self, change: &Change) -> bool {
        match change {
            Change::Tenant(tenant) => self.tenant(tenant.id) == Some(tenant),
            Change::Key(key) => self.key(key.id) == Some(key),
            Change::TenantRemoved(id) => !self.tenants.contains_key(id),
            Change::KeyRemoved(id) => !self.keys.contains(id),
        }
    }

    /// What a command given at `now` changes, in the order in which it is to be stored. Nothing is
    /// changed yet: the store writes it first, and [`make`](Self::make) follows.
    ///
    /// # Errors
    /// The command is refused.
    pub fn plan(&self, command: Command, now: UnixMillis) -> Result<Vec<Change>, CommandError> {
        match command {
            Command::CreateTenant { id, name, limits } => {
                if self.tenants.len() >= TENANTS_MAX {
                    return Err(CommandError::TooManyTenants(TENANTS_MAX));
                }
                if self.tenants.contains_key(&id) {
                    return Err(CommandError::TenantTaken);
                }
                self.check_name(&name, id)?;
                let created = now;
                Ok(vec![Change::Tenant(Arc::new(TenantRecord {
                    id,
                    name,
                    created,
                    limits,
                }))])
            }
            Command::UpdateTenant { id, name, limits } => {
                let before = self.tenant(id).ok_or(CommandError::NoTenant(id))?;
                self.check_name(&name, id)?;
                let created = before.created;
                Ok(vec![Change::Tenant(Arc::new(TenantRecord {
                    id,
                    name,
                    created,
                    limits,
                }))])
            }
            Command::RemoveTenant { id } => {
                self.tenant(id).ok_or(CommandError::NoTenant(id))?;
                Ok(vec![Change::TenantRemoved(id)])
            }
            Command::CreateKey {
                key,
                tenant,
                name,
                expires,
                settings,
            } => {
                self.tenant(tenant).ok_or(CommandError::NoTenant(tenant))?;
                let key = self.new_key(key, (tenant, name, expires, settings), now)?;
                Ok(vec![Change::Key(Arc::new(key))])
            }
            Command::UpdateKey {
                id,
                name,
                expires,
                settings,
            } => self.plan_update(id, (name, expires, settings)),
            Command::RotateKey {
                id,
                key,
                old_expires,
            } => self.plan_rotation(id, key, old_expires, now),
            Command::RevokeKey { id } => {
                let mut key = KeyRecord::clone(self.key(id).ok_or(CommandError::NoKey(id))?);
                // To revoke a key again is no error: the first time counts.
                key.revoked.get_or_insert(now);
                Ok(vec![Change::Key(Arc::new(key))])
            }
            Command::RemoveKey { id } => self.plan_removal(id, now),
        }
    }

    fn plan_update(
        &self,
        id: KeyId,
        (name, expires, settings): (Name, Option<UnixMillis>, KeySettings),
    ) -> Result<Vec<Change>, CommandError> {
        let mut key = KeyRecord::clone(self.key(id).ok_or(CommandError::NoKey(id))?);
        if key.revoked.is_some() {
            return Err(CommandError::Revoked(id));
        }
        check_settings(&settings)?;
        let quota = settings.quota;
        (key.name, key.expires, key.settings) = (name, expires, settings);
        // One quota for the chain, or each of its keys would have one of its own.
        let others = self.chain(key.chain()).filter(|other| {
            other.id != id && other.revoked.is_none() && other.settings.quota != quota
        });
        let others = others.map(|other| {
            let mut other = KeyRecord::clone(other);
            other.settings.quota = quota;
            other
        });
        let changed = [key].into_iter().chain(others);
        Ok(changed.map(|key| Change::Key(Arc::new(key))).collect())
    }

    fn plan_removal(&self, id: KeyId, now: UnixMillis) -> Result<Vec<Change>, CommandError> {
        let key = self.key(id).ok_or(CommandError::NoKey(id))?;
        match key.state(now) {
            KeyState::Active => Err(CommandError::Active(id)),
            KeyState::Expired | KeyState::Revoked => Ok(vec![Change::KeyRemoved(id)]),
        }
    }

    fn plan_rotation(
        &self,
        id: KeyId,
        key: NewKey,
        old_expires: UnixMillis,
        now: UnixMillis,
    ) -> Result<Vec<Change>, CommandError> {
        let mut old = KeyRecord::clone(self.key(id).ok_or(CommandError::NoKey(id))?);
        match (old.state(now), self.successor(&old)) {
            (KeyState::Revoked, _) => return Err(CommandError::Revoked(id)),
            // Two successors of one key would be as many keys as somebody likes.
            (_, Some(successor)) => {
                let key = id;
                return Err(CommandError::Rotated { key, successor });
            }
            (KeyState::Expired, None) => return Err(CommandError::Expired(id)),
            (KeyState::Active, None) => {}
        }
        // And so would be a chain of overlaps.
        let mut others = self.chain(old.chain()).filter(|other| other.id != id);
        if let Some(other) = others.find(|other| other.state(now) == KeyState::Active) {
            return Err(CommandError::Overlap {
                key: id,
                other: other.id,
                ends: other.expires,
            });
        }
        // The new key ends when the old one would have ended.
        let expires = old.expires;
        let more = (old.tenant, old.name.clone(), expires, old.settings.clone());
        let new = KeyRecord {
            chain: Some(old.chain()),
            ..self.new_key(key, more, now)?
        };
        old.replaced_by = Some(new.id);
        old.expires = Some(expires.map_or(old_expires, |expires| expires.min(old_expires)));
        // The new one first: a crash between the two leaves both.
        Ok(vec![Change::Key(Arc::new(new)), Change::Key(Arc::new(old))])
    }

    fn new_key(
        &self,
        NewKey { id, prefix, digest }: NewKey,
        (tenant, name, expires, settings): (TenantId, Name, Option<UnixMillis>, KeySettings),
        now: UnixMillis,
    ) -> Result<KeyRecord, CommandError> {
        if self.keys.len() >= KEYS_MAX {
            return Err(CommandError::TooManyKeys(KEYS_MAX));
        }
        // A chain keeps its name when its first key is removed.
        let is_taken = self.keys.contains(&id) || self.chains.contains_key(&id);
        if is_taken || self.by_digest.contains(&digest) {
            return Err(CommandError::KeyTaken);
        }
        check_settings(&settings)?;
        Ok(KeyRecord {
            id,
            tenant,
            name,
            prefix,
            digest,
            created: now,
            expires,
            revoked: None,
            replaced_by: None,
            chain: None,
            settings,
        })
    }

    fn check_name(&self, name: &Name, of: TenantId) -> Result<(), CommandError> {
        match self.by_name.get(name) {
            Some(other) if *other != of => Err(CommandError::NameTaken(name.clone())),
            _ => Ok(()),
        }
    }

    /// Makes a change that was planned, or read from a store. A key of an unknown tenant is left
    /// out: its tenant was removed.
    pub fn make(&mut self, change: Change) {
        match change {
            Change::Tenant(tenant) => {
                let (id, name) = (tenant.id, tenant.name.clone());
                match self.tenants.get_mut(&id) {
                    Some(known) => {
                        self.by_name.remove(&known.tenant.name);
                        known.tenant = tenant;
                    }
                    None => {
                        let keys = BTreeSet::new();
                        self.tenants.insert(id, OwnedKeys { tenant, keys });
                    }
                }
                self.by_name.insert(name, id);
            }
            Change::Key(key) => {
                if let Some(owned) = self.tenants.get_mut(&key.tenant) {
                    if let Some(first) = key.chain {
                        self.chains.entry(first).or_default().insert(key.id);
                    }
                    // No command gives a key another tenant or another digest.
                    if self.keys.replace(ById(Arc::clone(&key))).is_none() {
                        owned.keys.insert(key.id);
                    }
                    self.by_digest.replace(ByDigest(key));
                }
            }
            Change::KeyRemoved(id) => {
                if let Some(ById(key)) = self.keys.take(&id) {
                    self.by_digest.remove(&key.digest);
                    leave_chain(&mut self.chains, &key);
                    if let Some(owned) = self.tenants.get_mut(&key.tenant) {
                        owned.keys.remove(&id);
                    }
                }
            }
            Change::TenantRemoved(id) => {
                if let Some(owned) = self.tenants.remove(&id) {
                    self.by_name.remove(&owned.tenant.name);
                    for id in &owned.keys {
                        if let Some(ById(key)) = self.keys.take(id) {
                            self.by_digest.remove(&key.digest);
                            leave_chain(&mut self.chains, &key);
                        }
                    }
                }
            }
        }
    }
}

fn leave_chain(chains: &mut HashMap<KeyId, BTreeSet<KeyId>>, key: &KeyRecord) {
    let Some(first) = key.chain else {
        return;
    };
    if let Some(others) = chains.get_mut(&first) {
        others.remove(&key.id);
        if others.is_empty() {
            chains.remove(&first);
        }
    }
}

fn check_settings(settings: &KeySettings) -> Result<(), CommandError> {
    let public_keys = &settings.public_keys;
    if public_keys.len() > PUBLIC_KEYS_MAX {
        return Err(CommandError::TooManyPublicKeys(PUBLIC_KEYS_MAX));
    }
    if settings.secret.is_some() && !public_keys.is_empty() {
        return Err(CommandError::SecretAndPublicKeys);
    }
    for (at, public_key) in public_keys.iter().enumerate() {
        let kid = &public_key.kid;
        if public_keys[..at].iter().any(|other| other.kid == *kid) {
            return Err(CommandError::SameKid(kid.clone()));
        }
        VerifyingKey::new(public_key)
            .map_err(|error| CommandError::PublicKey(kid.clone(), error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
