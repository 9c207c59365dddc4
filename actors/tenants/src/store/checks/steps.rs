use std::{net::Ipv4Addr, sync::Arc};

use super::*;
use crate::{
    account::{Account, ApiToken, Login, Role},
    audit::{Author, Detail, Verb},
    command::{Command, NewKey},
    id::TenantId,
    limits::TenantLimits,
    name::Name,
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
};

/// Texts that would do harm if one of them were read as SQL or JSON.
const HARMFUL: [&str; 4] = [
    "'; DROP TABLE key; --",
    "\"}],\"x\":[{\"",
    "Robert'); DELETE FROM tenant WHERE ('1'='1",
    "财务 <script>%s{}\\",
];

pub(in crate::store) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(in crate::store) fn digest(number: u64) -> SecretDigest {
    SecretDigest::of(&number.to_string())
}

/// What is in the stores, as their owner has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::store) struct Model {
    pub(in crate::store) directory: Directory,
    pub(in crate::store) accounts: Accounts,
}

/// One write.
pub(in crate::store) struct Step {
    directory: Vec<Change>,
    accounts: Vec<AccountChange>,
    pub(in crate::store) entry: AuditEntry,
}

impl Step {
    pub(in crate::store) fn commit(&self) -> Commit<'_> {
        Commit {
            directory: &self.directory,
            accounts: &self.accounts,
            entries: std::slice::from_ref(&self.entry),
        }
    }
}

/// The id of the key that a step makes.
pub(in crate::store) fn key_of(step: u64) -> KeyId {
    KeyId::of_configured(&step.to_string())
}

impl Model {
    pub(in crate::store) fn make(&mut self, step: &Step) {
        for change in &step.directory {
            self.directory.make(change.clone());
        }
        for change in &step.accounts {
            self.accounts.make(change.clone());
        }
    }

    /// The step of a number: the same one whenever it is asked of the same model.
    pub(in crate::store) fn step(&self, number: u64) -> Step {
        let mut random = Random(number);
        let now = UnixMillis(1_700_000_000_000 + number * 1_000);
        let (command, tenant, key) = self.command(number, &mut random);
        let verb = command.as_ref().map_or(Verb::LOGIN, Verb::of);
        let planned = command.map(|command| self.directory.plan(command, now));
        // A command that is refused leaves its entry.
        let directory = planned.and_then(Result::ok).unwrap_or_default();
        let accounts = match random.below(3) {
            0 => self.account_changes(number, now, &mut random),
            _ => Vec::new(),
        };
        let text = HARMFUL[random.below(4) as usize];
        let mut detail = serde_json::Map::new();
        detail.insert("step".to_owned(), number.into());
        detail.insert("text".to_owned(), text.into());
        let author = match random.below(4) {
            0 => Author::Account(name(text)),
            1 => Author::Token(name("ci")),
            2 => Author::CommandLine,
            _ => Author::Configuration,
        };
        let entry = AuditEntry {
            at: now,
            author,
            from: number
                .is_multiple_of(2)
                .then_some(Ipv4Addr::LOCALHOST.into()),
            verb,
            tenant,
            key,
            detail: Detail::of(detail),
        };
        Step {
            directory,
            accounts,
            entry,
        }
    }

    fn any_key(&self, random: &mut Random) -> Option<KeyId> {
        let mut keys: Vec<_> = self.directory.keys().map(|key| key.id).collect();
        keys.sort();
        let at = random.below(keys.len().max(1) as u64) as usize;
        keys.get(at).copied()
    }

    fn any_tenant(&self, random: &mut Random) -> Option<TenantId> {
        let mut tenants: Vec<_> = self.directory.tenants().map(|tenant| tenant.id).collect();
        tenants.sort();
        let at = random.below(tenants.len().max(1) as u64) as usize;
        tenants.get(at).copied()
    }

    fn command(
        &self,
        number: u64,
        random: &mut Random,
    ) -> (Option<Command>, Option<TenantId>, Option<KeyId>) {
        let (tenant, key) = (self.any_tenant(random), self.any_key(random));
        let named = name(&format!("{} {number}", HARMFUL[random.below(4) as usize]));
        let new = NewKey {
            id: key_of(number),
            prefix: KeyPrefix::of("0123456789012345678901234"),
            digest: digest(number),
        };
        let end = UnixMillis(1_700_000_000_000 + random.below(10_000_000));
        let mut settings = KeySettings::default();
        if random.below(2) == 0 {
            let origins = vec!["https://example.org".parse().unwrap()];
            settings.allow.origins = origins.try_into().unwrap();
        }
        let command = match (random.below(20), tenant, key) {
            (0..=2, ..) | (_, None, _) => Command::CreateTenant {
                id: TenantId::of_configured(&number.to_string()),
                name: named,
                limits: TenantLimits::default(),
            },
            (3, Some(id), _) => Command::UpdateTenant {
                id,
                name: named,
                limits: TenantLimits {
                    sessions: Some(7),
                    ..TenantLimits::default()
                },
            },
            // Removals are rare, or there would be few keys.
            (4, Some(id), _) if random.below(4) == 0 => Command::RemoveTenant { id },
            (5..=12, Some(tenant), _) | (_, Some(tenant), None) => Command::CreateKey {
                key: new,
                tenant,
                name: named,
                expires: (random.below(2) == 0).then_some(end),
                settings,
            },
            (13..=14, _, Some(id)) => Command::UpdateKey {
                id,
                name: named,
                expires: None,
                settings,
            },
            (15, _, Some(id)) => Command::RemoveKey { id },
            (16, _, Some(id)) => Command::RotateKey {
                id,
                key: new,
                old_expires: end,
            },
            (_, _, Some(id)) => Command::RevokeKey { id },
        };
        (Some(command), tenant, key)
    }

    fn account_changes(
        &self,
        number: u64,
        now: UnixMillis,
        random: &mut Random,
    ) -> Vec<AccountChange> {
        const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdC4uLg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let hash = || HASH.to_owned().try_into().unwrap();
        let named = name(&format!(
            "{} {}",
            HARMFUL[random.below(2) as usize],
            random.below(3)
        ));
        let role = match self.any_tenant(random) {
            Some(tenant) if random.below(2) == 0 => Role::Holder(tenant),
            _ => Role::Admin,
        };
        match random.below(10) {
            0..=2 => {
                let account = Account {
                    name: named,
                    role,
                    password: hash(),
                    created: now,
                };
                self.accounts.plan_account(account).unwrap_or_default()
            }
            3 => vec![AccountChange::AccountRemoved(named)],
            4 => self.accounts.plan_password(named.as_str(), hash()),
            5 => {
                let token = ApiToken {
                    name: named,
                    digest: digest(number),
                    role,
                    created: now,
                    expires: None,
                };
                self.accounts.plan_token(token).unwrap_or_default()
            }
            6 => vec![AccountChange::TokenRemoved(named)],
            // Also for accounts that do not exist: nothing is kept of those.
            _ => {
                let login = Login {
                    digest: digest(number),
                    account: named,
                    created: now,
                    expires: now,
                    last_seen: now,
                };
                vec![AccountChange::Login(Arc::new(login))]
            }
        }
    }
}
