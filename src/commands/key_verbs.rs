//! What `nearhead key` does.

use nearhead_tenants::{
    administration::{
        ChangedKeyView, CreateKey, CreateTenant, GetKey, GetUsage, KeyView, LimitsPatch, ListKeys,
        ListTenants, NewKeyView, Patch, RecordSource, RemoveKey, RevokeKey, RotateKey, SecretText,
        TenantRef, TenantView, UpdateKey,
    },
    id::KeyId,
    record::KeyState,
};

use super::{
    Failure,
    command_line::{
        key::{KeyAction, KeyText, SeveralKeys},
        limits::KeyChange,
    },
    connection::now,
    key_text,
    run::{Run, is_sure},
    table::{count, facts},
    time_text::exact,
};

/// The name of a key unless another is given.
const NAME: &str = "default";

/// Most keys of a page, as the API has them.
const PAGE: usize = 500;

/// Most keys that a message names.
const NAMED: usize = 5;

impl Run<'_> {
    /// Does it.
    pub(super) fn key(&mut self, action: KeyAction) -> Result<(), Failure> {
        match action {
            KeyAction::Create {
                tenant,
                creates_tenant,
                change,
                url,
            } => {
                if creates_tenant {
                    self.ensure_tenant(&tenant)?;
                }
                self.create_key(tenant, *change, &url)
            }
            KeyAction::List(list) => {
                let offset = list.offset;
                let view = self.call(list)?;
                self.answer(&view, |view| key_text::keys(view, offset, now()))
            }
            KeyAction::Show(key) => {
                let view = self.find_key(&key)?;
                self.answer(&view, |view| key_text::key(view, now()))
            }
            KeyAction::Rotate { key, overlap, url } => {
                let old = self.find_key(&key)?;
                let new = self.call(RotateKey {
                    id: old.id,
                    overlap,
                })?;
                let old = match self.is_json {
                    true => old,
                    false => self.call(GetKey { id: old.id })?,
                };
                self.answer(&new, |new| rotated(new, &old, &url))
            }
            KeyAction::Revoke(keys) => self.revoke_keys(&keys),
            KeyAction::Remove(keys) => self.remove_keys(&keys),
            KeyAction::Limit { key, change } => self.limit_key(&key, *change),
            KeyAction::Usage { key, last, by } => {
                let key = self.find_key(&key)?;
                let view = self.call(GetUsage {
                    key: Some(key.id),
                    last: Some(last),
                    by,
                    ..GetUsage::default()
                })?;
                self.answer(&view, key_text::usage)
            }
        }
    }

    fn create_key(
        &mut self,
        tenant: TenantRef,
        change: KeyChange,
        url: &str,
    ) -> Result<(), Failure> {
        let KeyChange {
            name,
            expires,
            settings,
        } = change;
        let name = match name {
            Some(name) => name,
            None => NAME.parse().map_err(Failure::new)?,
        };
        let view = self.call(CreateKey {
            tenant,
            name,
            expires: match expires {
                Patch::Set(end) => Some(end.at(now())),
                Patch::Keep | Patch::Remove => None,
            },
            settings,
        })?;
        self.answer(&view, |view| new_key(view, url))
    }

    /// Makes a tenant, unless there is one of the name.
    fn ensure_tenant(&mut self, tenant: &TenantRef) -> Result<(), Failure> {
        let text = tenant.to_string();
        let found = self.call(ListTenants {
            search: Some(text.clone()),
            ..ListTenants::default()
        })?;
        let is_stored = |tenant: &TenantView| tenant.source == RecordSource::Stored;
        let mut stored = found.tenants.iter().filter(|tenant| is_stored(tenant));
        if stored.any(|tenant| tenant.name.as_str() == text) {
            return Ok(());
        }
        let name = text.parse().map_err(Failure::misuse)?;
        let limits = LimitsPatch::default();
        self.call(CreateTenant { name, limits }).map(drop)
    }

    fn limit_key(&mut self, key: &KeyText, change: KeyChange) -> Result<(), Failure> {
        let id = self.find_key(key)?.id;
        let KeyChange {
            name,
            expires,
            settings,
        } = change;
        let view = self.call(UpdateKey {
            id,
            name,
            expires: match expires {
                Patch::Set(end) => Patch::Set(end.at(now())),
                Patch::Remove => Patch::Remove,
                Patch::Keep => Patch::Keep,
            },
            settings,
            if_version: None,
        })?;
        self.answer(&view, |ChangedKeyView { secret, view }| {
            let secret = secret.as_ref().map(SecretText::expose);
            let made = facts([("new secret", secret.map(str::to_owned))]);
            made + &key_text::key(view, now())
        })
    }

    fn revoke_keys(&mut self, keys: &SeveralKeys) -> Result<(), Failure> {
        for (key, name) in self.find_keys(keys, ("Revoke", "Its sessions end"))? {
            let view = self.call(RevokeKey { id: key.id })?;
            self.answer(&view, |_| format!("revoked {name}\n"))?;
        }
        Ok(())
    }

    fn remove_keys(&mut self, keys: &SeveralKeys) -> Result<(), Failure> {
        for (key, name) in self.find_keys(keys, ("Remove", "Name and settings are forgotten"))? {
            self.call(RemoveKey { id: key.id })?;
            self.done(&format!("removed {name}"));
        }
        Ok(())
    }

    /// The keys that a person means, with their names, once the person is sure to do this to them,
    /// which has this effect.
    fn find_keys(
        &mut self,
        several: &SeveralKeys,
        (verb, effect): (&str, &str),
    ) -> Result<Vec<(KeyView, String)>, Failure> {
        let found = several.keys.iter().map(|key| self.find_key(key));
        let found: Vec<KeyView> = found.collect::<Result<_, _>>()?;
        let names: Vec<String> = found.iter().map(named).collect();
        is_sure(several.is_sure, || {
            format!(
                "{verb} {}, for good? {effect}:\n  {}\n",
                count(names.len(), "key"),
                names.join("\n  ")
            )
        })?;
        Ok(found.into_iter().zip(names).collect())
    }

    /// The key that a person means.
    fn find_key(&mut self, text: &KeyText) -> Result<KeyView, Failure> {
        if let Ok(id) = text.parse::<KeyId>() {
            return self.call(GetKey { id });
        }
        let mut found: Vec<KeyView> = Vec::new();
        loop {
            let page = self.call(ListKeys {
                search: Some(text.clone()),
                offset: found.len(),
                limit: Some(PAGE),
                ..ListKeys::default()
            })?;
            let is_last = page.keys.len() < PAGE;
            found.extend(page.keys);
            if is_last {
                break;
            }
        }
        found.retain(|key| is_meant(key, text));
        choose(found, text)
    }
}

/// Whether a text stands for a key.
fn is_meant(key: &KeyView, text: &str) -> bool {
    let is_prefix = !text.is_empty() && key.prefix.as_str() == text;
    key.name.as_str() == text || is_prefix || key.id.to_string().starts_with(text)
}

/// The only key, or else the only one that lets clients in and has no successor: a key that was
/// rotated has the name of the one before.
fn choose(mut found: Vec<KeyView>, text: &str) -> Result<KeyView, Failure> {
    let is_current = |key: &KeyView| key.state == KeyState::Active && key.replaced_by.is_none();
    let current = found.iter().filter(|key| is_current(key)).count();
    if current == 1 {
        found.retain(is_current);
    }
    let names: Vec<String> = found.iter().take(NAMED).map(named).collect();
    match (found.pop(), found.len()) {
        (None, _) => Err(Failure::new(format!("there is no key {text}"))),
        (Some(key), 0) => Ok(key),
        (Some(_), others) => {
            let more = match (others + 1).saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let names = names.join(", ");
            let what = count(others + 1, "key");
            let message = format!("{text} stands for {what}: give the id of one of {names}{more}");
            Err(Failure::misuse(message))
        }
    }
}

/// A key as a question or a message names it.
fn named(key: &KeyView) -> String {
    let (prefix, tenant) = (key_text::prefix(key), &key.tenant.name);
    format!("{} ({} of {tenant}, {prefix})", key.id, key.name)
}

/// A new key, and the line that uses it.
fn new_key(new: &NewKeyView, url: &str) -> String {
    let secret = new.secret.as_ref().map(SecretText::expose);
    let made = facts([
        ("key", Some(new.key.expose().to_owned())),
        ("secret", secret.map(str::to_owned)),
    ]);
    let view = key_text::key(&new.view, now());
    let curl = curl(new, url);
    format!("{made}\n{view}\nThe key is not shown again. To use it:\n\n{curl}\n")
}

/// The call that shows that a key works.
const CALL: &str = "eth_blockNumber";

/// A call with a new key, as what it is narrowed to allows it.
fn curl(new: &NewKeyView, url: &str) -> String {
    let settings = &new.view.settings;
    let allow = &settings.allow;
    let mut line = "curl -s".to_owned();
    let mut add = |more: String| line.push_str(&format!(" {more}"));
    if let Some(secret) = &new.secret {
        add(format!("-u ':{}'", secret.expose()));
    }
    if !settings.public_keys.is_empty() {
        add("-H \"authorization: Bearer $TOKEN\"".to_owned());
    }
    let is_exempt = settings.secret.is_some_and(|secret| secret.exempts);
    if let Some(origin) = allow.origins.iter().next().filter(|_| !is_exempt) {
        add(format!(
            "-H 'origin: {}'",
            origin.to_string().replace('*', "www")
        ));
    }
    if let Some(part) = allow.user_agents.iter().next().filter(|_| !is_exempt) {
        add(format!("-A '{}'", part.to_string().replace('\'', r"'\''")));
    }
    let methods = &allow.methods;
    let is_allowed = methods.is_empty() || methods.iter().any(|name| name.as_str() == CALL);
    let method = match methods.iter().next() {
        Some(first) if !is_allowed => first.as_str(),
        _ => CALL,
    };
    let (url, key) = (url.trim_end_matches('/'), new.key.expose());
    add(format!(
        "{url}/v3/{key} -H 'content-type: application/json'"
    ));
    add(format!(
        "-d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":[]}}'"
    ));
    line
}

/// A key that took the place of another one.
fn rotated(new: &NewKeyView, old: &KeyView, url: &str) -> String {
    let until = old.expires.filter(|_| old.state == KeyState::Active);
    let until = until.map_or_else(
        || "lets nobody in any more".to_owned(),
        |at| format!("lets clients in until {}", exact(at, now())),
    );
    let new = new_key(new, url);
    format!("{new}\nThe old key, {}, {until}.\n", named(old))
}
