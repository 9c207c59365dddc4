//! What differs before and after a change, for the audit.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{
    audit::Detail,
    record::{BesideSecret, KeyRecord, KeySettings, TenantRecord},
};

/// Settings as the audit has them: of secrets and public keys no more than who may know of them.
pub(super) fn audited(settings: &KeySettings) -> Value {
    let mut audited = json!({"allow": settings.allow, "quota": settings.quota});
    if let Some(secret) = &settings.secret {
        audited["secret"] = view(secret);
    }
    if !settings.public_keys.is_empty() {
        let kids: Vec<_> = settings.public_keys.iter().map(|key| &key.kid).collect();
        audited["publicKeys"] = json!(kids);
    }
    audited
}

/// What the audit has of a secret.
fn view(secret: &BesideSecret) -> Value {
    json!({"required": secret.is_required, "exempts": secret.exempts})
}

/// What differs in two states of a key.
pub(super) fn of_keys(before: &KeyRecord, after: &KeyRecord) -> Detail {
    let (old, new) = (&before.settings, &after.settings);
    let mut settings = members_of(audited(old), audited(new));
    // Another secret, or another public key of the same name, looks the same.
    if old.secret != new.secret {
        let view = |secret: &Option<Box<BesideSecret>>| json!(secret.as_deref().map(view));
        let changed = old_and_new(&view(&old.secret), &view(&new.secret));
        settings.insert("secret".to_owned(), changed);
    }
    if old.public_keys != new.public_keys {
        let kids = |settings| audited(settings)["publicKeys"].take();
        let changed = old_and_new(&kids(old), &kids(new));
        settings.insert("publicKeys".to_owned(), changed);
    }
    let named = |key: &KeyRecord| json!({"name": key.name, "expires": key.expires});
    let mut members = members_of(named(before), named(after));
    if !settings.is_empty() {
        members.insert("settings".to_owned(), settings.into());
    }
    fitting(members)
}

/// What differs in two states of a tenant.
pub(super) fn of_tenants(before: &TenantRecord, after: &TenantRecord) -> Detail {
    let audited = |tenant: &TenantRecord| json!({"name": tenant.name, "limits": tenant.limits});
    fitting(members_of(audited(before), audited(after)))
}

/// What differs, or if that is too long, where.
fn fitting(members: Map<String, Value>) -> Detail {
    let mut places = Vec::new();
    for (name, value) in &members {
        find_places(name, value, &mut places);
    }
    Detail::fitting(members).unwrap_or_else(|| {
        let changed = Map::from_iter([("changed".to_owned(), json!(places))]);
        Detail::of(changed)
    })
}

fn find_places(path: &str, value: &Value, places: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.contains_key("new") => {
            for (name, value) in members {
                find_places(&format!("{path}.{name}"), value, places);
            }
        }
        _ => places.push(path.to_owned()),
    }
}

/// The members that differ.
fn members_of(old: Value, new: Value) -> Map<String, Value> {
    match difference(&old, &new) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// What differs: of objects the members that do, of other values both; `None` if nothing does.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    let empty = Map::new();
    let (old_members, new_members) = match (old, new) {
        _ if old == new => return None,
        (Value::Object(old), Value::Object(new)) => (old, new),
        (Value::Object(old), Value::Null) => (old, &empty),
        (Value::Null, Value::Object(new)) => (&empty, new),
        _ => return Some(old_and_new(old, new)),
    };
    let names: BTreeSet<_> = old_members.keys().chain(new_members.keys()).collect();
    let members = names.into_iter().filter_map(|name| {
        let [old, new] =
            [old_members, new_members].map(|members| members.get(name).unwrap_or(&Value::Null));
        Some((name.clone(), difference(old, new)?))
    });
    Some(Value::Object(members.collect()))
}

fn old_and_new(old: &Value, new: &Value) -> Value {
    json!({"old": old, "new": new})
}
