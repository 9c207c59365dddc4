use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    AdminError, Administration, Last24h, Operation, Patch, Requester, SecretText, SettingsPatch,
    Span, TenantName, TenantRef, Version, differences, requester::detail,
};
use crate::{
    UnixMillis,
    allowlists::{Allowlists, MethodName},
    audit::Detail,
    bounds::{HOLDER_KEYS_MAX, OVERLAP_MAX},
    command::{Command, CommandError, NewKey},
    id::{KeyId, TenantId},
    limits::Quota,
    name::Name,
    public_key::PublicKey,
    record::{BesideSecret, KeyRecord, KeySettings, KeyState},
    secret::{KeyPrefix, Secret},
};

/// How long a key that was rotated still lets clients in, unless it is said.
const OVERLAP: Span = Span::days(1);

/// Looks up a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetKey {
    /// Which one.
    pub id: KeyId,
}

/// Makes a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateKey {
    /// The tenant that gets it.
    pub tenant: TenantRef,
    /// Its name.
    pub name: Name,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<UnixMillis>,
    /// What it is narrowed to.
    #[serde(default)]
    pub settings: SettingsPatch,
}

/// Changes a key. What is absent stays as it is. A new quota is that of all keys of its chain of
/// rotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateKey {
    /// Which one.
    pub id: KeyId,
    /// Its new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    pub expires: Patch<UnixMillis>,
    /// What changes of that to which it is narrowed.
    #[serde(default)]
    pub settings: SettingsPatch,
    /// Nothing changes unless the key is still this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_version: Option<Version>,
}

/// Makes a key that takes the place of another one, with its name and settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateKey {
    /// The key whose place is taken.
    pub id: KeyId,
    /// How long the old one still lets clients in, up to 30 days; a day if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Span>,
}

/// Revokes a key, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeKey {
    /// Which one.
    pub id: KeyId,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    /// Identifies it in public.
    pub id: KeyId,
    /// The tenant that it belongs to.
    pub tenant: TenantName,
    /// Its name.
    pub name: Name,
    /// Its first characters.
    pub prefix: KeyPrefix,
    /// When it was made; `None` if the configuration names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<UnixMillis>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<UnixMillis>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<UnixMillis>,
    /// Whether it lets clients in.
    pub state: KeyState,
    /// The key that took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<KeyId>,
    /// When it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<UnixMillis>,
    /// What it is narrowed to.
    pub settings: SettingsView,
    /// Its version; `None` if the configuration names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Whether it is stored, or configured and so cannot be changed here.
    pub source: RecordSource,
    /// What it used in the last 24 hours.
    pub last24h: Last24h,
}

/// What a key is narrowed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsView {
    /// Its allowlists. One that is empty allows everything.
    pub allow: Allowlists,
    /// How fast, and how much in a day.
    pub quota: Quota,
    /// The secret beside it, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretView>,
    /// Who may sign tokens for it.
    #[serde(default)]
    pub public_keys: Vec<PublicKey>,
}

/// What is known of the secret beside a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretView {
    /// Whether a request without it is refused.
    pub required: bool,
    /// Whether a request with it may have any origin and any user agent.
    pub exempts: bool,
}

/// Where a key or a tenant is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordSource {
    /// In the store.
    Stored,
    /// In flags, the environment or a file: it changes only there.
    Configured,
}

/// A new key. This is the only answer that has the key itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewKeyView {
    /// The key itself.
    pub key: SecretText,
    /// The secret beside it, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// The rest of it.
    #[serde(flatten)]
    pub view: KeyView,
}

/// A key that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedKeyView {
    /// The new secret beside it, if one was made. No other answer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// The rest of it.
    #[serde(flatten)]
    pub view: KeyView,
}

impl From<&KeySettings> for SettingsView {
    fn from(settings: &KeySettings) -> Self {
        Self {
            allow: settings.allow.clone(),
            quota: settings.quota,
            secret: settings.secret.as_deref().map(SecretView::from),
            public_keys: settings.public_keys.clone(),
        }
    }
}

impl From<&BesideSecret> for SecretView {
    fn from(secret: &BesideSecret) -> Self {
        Self {
            required: secret.is_required,
            exempts: secret.exempts,
        }
    }
}

impl Operation for GetKey {
    type Answer = KeyView;

    const READS_USAGE: bool = true;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<KeyView, AdminError> {
        by.role()?;
        administration.visible_tenant_of(self.id, by)?;
        administration.key_view(self.id, by)
    }
}

impl Operation for CreateKey {
    type Answer = NewKeyView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<NewKeyView, AdminError> {
        by.check_admin()?;
        let tenant = administration.stored_tenant(&self.tenant, by)?.id;
        if self.expires.is_some_and(|expires| expires <= by.now) {
            let reason = "this time is past: give a later one";
            return Err(AdminError::invalid("expires", reason));
        }
        administration.check_settings(&self.settings)?;
        let (settings, secret) = self.settings.apply(KeySettings::default())?;
        let made = Secret::generate()?;
        let key = new_key(&made)?;
        let id = key.id;
        let detail = detail(&[
            ("name", json!(self.name)),
            ("prefix", json!(key.prefix)),
            ("expires", json!(self.expires)),
            ("settings", differences::audited(&settings)),
        ]);
        let command = Command::CreateKey {
            key,
            tenant,
            name: self.name,
            expires: self.expires,
            settings,
        };
        administration.run_command(command, detail, by)?;
        administration.new_key_view(id, &made, secret, by)
    }
}

impl Operation for UpdateKey {
    type Answer = ChangedKeyView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<ChangedKeyView, AdminError> {
        by.check_admin()?;
        let id = self.id;
        let before = administration.stored_key(id, by)?;
        check_version(&*before, self.if_version.as_ref())?;
        administration.check_settings(&self.settings)?;
        let (settings, secret) = self.settings.apply(before.settings.clone())?;
        let expires = self.expires.apply(before.expires, |expires| expires);
        let name = self.name.unwrap_or_else(|| before.name.clone());
        let command = Command::UpdateKey {
            id,
            name,
            expires,
            settings,
        };
        administration.run_command(command, Detail::default(), by)?;
        let view = administration.key_view(id, by)?;
        Ok(ChangedKeyView { secret, view })
    }
}

impl Operation for RotateKey {
    type Answer = NewKeyView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<NewKeyView, AdminError> {
        by.role()?;
        let before = administration.stored_key(self.id, by)?;
        administration.check_may_rotate(&before, by)?;
        let overlap = self.overlap.unwrap_or(OVERLAP).duration();
        if overlap > OVERLAP_MAX {
            let days = OVERLAP_MAX.as_secs() / 86_400;
            let reason =
                format!("the old key lets clients in for up to {days}d beside the new one");
            return Err(AdminError::invalid("overlap", reason));
        }
        let made = Secret::generate()?;
        let key = new_key(&made)?;
        let (id, old_expires) = (key.id, by.now.after(overlap));
        let detail = detail(&[
            ("name", json!(before.name)),
            ("successor", json!(id)),
            ("prefix", json!(key.prefix)),
            ("oldExpires", json!(old_expires)),
        ]);
        let command = Command::RotateKey {
            id: self.id,
            key,
            old_expires,
        };
        administration.run_command(command, detail, by)?;
        administration.new_key_view(id, &made, None, by)
    }
}

impl Operation for RevokeKey {
    type Answer = KeyView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<KeyView, AdminError> {
        by.check_admin()?;
        let before = administration.stored_key(self.id, by)?;
        let detail = detail(&[("name", json!(before.name))]);
        administration.run_command(Command::RevokeKey { id: self.id }, detail, by)?;
        administration.key_view(self.id, by)
    }
}

/// Checks that a record is still the one that somebody has read.
pub(super) fn check_version(
    record: &impl Serialize,
    read: Option<&Version>,
) -> Result<(), AdminError> {
    match read {
        Some(read) if *read != Version::of(record) => Err(AdminError::Stale),
        _ => Ok(()),
    }
}

/// What identifies a key that was made.
fn new_key(made: &Secret) -> Result<NewKey, AdminError> {
    Ok(NewKey {
        id: KeyId::generate()?,
        prefix: made.prefix(),
        digest: made.digest(),
    })
}

impl Administration {
    /// The tenant of a key, if they may see it. To others, there is no such key.
    pub(super) fn visible_tenant_of(
        &self,
        key: KeyId,
        by: &Requester,
    ) -> Result<TenantId, AdminError> {
        let tenant = self.tenant_of(key).filter(|tenant| by.may_see(*tenant));
        tenant.ok_or_else(|| CommandError::NoKey(key).into())
    }

    /// A key that can be changed.
    pub(super) fn stored_key(
        &self,
        key: KeyId,
        by: &Requester,
    ) -> Result<Arc<KeyRecord>, AdminError> {
        self.visible_tenant_of(key, by)?;
        let stored = self.directory.key(key).cloned();
        stored.ok_or(AdminError::ConfiguredKey(key))
    }

    /// Checks that a holder does not take the room of other tenants: expired and revoked keys are
    /// kept for a while.
    fn check_may_rotate(&self, key: &KeyRecord, by: &Requester) -> Result<(), AdminError> {
        if by.check_admin().is_ok() {
            return Ok(());
        }
        let keys = self.directory.keys();
        let own = keys.filter(|other| other.tenant == key.tenant).count();
        match own < HOLDER_KEYS_MAX {
            true => Ok(()),
            false => Err(AdminError::TooManyRotations(own)),
        }
    }

    fn check_settings(&self, settings: &SettingsPatch) -> Result<(), AdminError> {
        if let Patch::Set(methods) = &settings.allow.methods {
            let is_unknown = |name: &&MethodName| {
                !self.methods.is_empty() && !self.methods.contains(name.as_str())
            };
            if let Some(unknown) = methods.iter().find(is_unknown) {
                let reason = format!("there is no method {unknown}");
                return Err(AdminError::invalid("settings.allow.methods", reason));
            }
        }
        Ok(())
    }

    fn new_key_view(
        &mut self,
        id: KeyId,
        made: &Secret,
        secret: Option<SecretText>,
        by: &Requester,
    ) -> Result<NewKeyView, AdminError> {
        let view = self.bare_key_view(id, by);
        let view = view.ok_or(CommandError::NoKey(id))?;
        let key = made.into();
        Ok(NewKeyView { key, secret, view })
    }

    /// The view of a key, with what it used.
    fn key_view(&mut self, id: KeyId, by: &Requester) -> Result<KeyView, AdminError> {
        let view = self.bare_key_view(id, by);
        let mut view = view.ok_or(CommandError::NoKey(id))?;
        // What was done is done, even if usage cannot be read.
        let used = self.last_24h(vec![id], by.now).unwrap_or_default();
        view.last24h = used.get(&id).copied().unwrap_or_default();
        Ok(view)
    }

    /// The view of a key, without what it used.
    pub(super) fn bare_key_view(&self, id: KeyId, by: &Requester) -> Option<KeyView> {
        let tenant = self.tenant_name(self.tenant_of(id)?)?;
        let last_used = self.last_used.get(&id).copied();
        let Some(key) = self.directory.key(id) else {
            let entry = self.configured.key(id)?;
            return Some(KeyView {
                id,
                tenant,
                name: entry.tenant.clone(),
                prefix: entry.prefix.clone(),
                created: None,
                expires: None,
                revoked: None,
                state: KeyState::Active,
                replaced_by: None,
                last_used,
                settings: SettingsView::default(),
                version: None,
                source: RecordSource::Configured,
                last24h: Last24h::default(),
            });
        };
        Some(KeyView {
            id,
            tenant,
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            created: Some(key.created),
            expires: key.expires,
            revoked: key.revoked,
            state: key.state(by.now),
            replaced_by: self.directory.successor(key),
            last_used,
            settings: SettingsView::from(&key.settings),
            version: Some(Version::of(&**key)),
            source: RecordSource::Stored,
            last24h: Last24h::default(),
        })
    }
}
