//! Keys, and what they used, as a terminal shows them.

use std::fmt::Display;

use nearhead_tenants::{
    UnixMillis, UtcTime,
    administration::{
        KeyListView, KeyView, Last24h, RecordSource, SecretView, SettingsView, UsageRowView,
        UsageView,
    },
    limits::{Quota, Rate},
    record::KeyState,
};

use super::{
    table::{Align, Table, facts, number},
    time_text::{exact, exact_or_never, relative_or_never},
};

/// A key, with all that it may do.
pub(super) fn key(view: &KeyView, now: UnixMillis) -> String {
    let time = |at: Option<UnixMillis>| at.map(|at| exact(at, now));
    let SettingsView {
        allow,
        quota,
        secret,
        public_keys,
    } = &view.settings;
    let is_stored = view.source == RecordSource::Stored;
    // A revoked key has ended already.
    let may_expire = is_stored && view.state != KeyState::Revoked;
    let expires = exact_or_never(view.expires, now);
    let tenant = &view.tenant;
    let source = "the configuration: it changes only there";
    let public_keys = public_keys.iter().map(|key| key.kid.as_str());
    facts([
        ("id", Some(view.id.to_string())),
        ("name", Some(view.name.to_string())),
        ("tenant", Some(format!("{} ({})", tenant.name, tenant.id))),
        ("key", Some(prefix(view))),
        ("state", Some(state(view.state).to_owned())),
        ("source", (!is_stored).then(|| source.to_owned())),
        ("created", time(view.created)),
        ("expires", may_expire.then_some(expires)),
        ("revoked", time(view.revoked)),
        ("replaced by", view.replaced_by.map(|id| id.to_string())),
        ("origins", joined(&allow.origins)),
        ("user agents", joined(&allow.user_agents)),
        ("methods", joined(&allow.methods)),
        ("contracts", joined(&allow.contracts)),
        ("networks", joined(&allow.networks)),
        ("requests", quota.requests.map(rate)),
        ("units", quota.units.map(rate)),
        ("units a day", units_per_day(quota)),
        ("secret", secret.map(|secret| secret_use(secret).to_owned())),
        ("tokens of", joined(public_keys)),
        ("last used", Some(exact_or_never(view.last_used, now))),
        ("last 24 hours", Some(last_24h(&view.last24h))),
    ])
}

/// A page of keys.
pub(super) fn keys(view: &KeyListView, offset: usize, now: UnixMillis) -> String {
    if view.keys.is_empty() {
        return match view.total {
            0 => "There are no such keys. `nearhead key create` makes one.\n".to_owned(),
            total => format!(
                "There are {} keys, so none at that offset.\n",
                number(total as u64)
            ),
        };
    }
    let mut table = Table::new([
        ("id", Align::Left),
        ("name", Align::Left),
        ("tenant", Align::Left),
        ("key", Align::Left),
        ("state", Align::Left),
        ("last used", Align::Left),
        ("requests 24h", Align::Right),
        ("errors 24h", Align::Right),
        ("expires", Align::Left),
    ]);
    for key in &view.keys {
        table.row([
            key.id.to_string(),
            key.name.to_string(),
            key.tenant.name.to_string(),
            prefix(key),
            state(key.state).to_owned(),
            relative_or_never(key.last_used, now),
            number(key.last24h.requests),
            number(key.last24h.errors),
            match key.state {
                KeyState::Active | KeyState::Expired => relative_or_never(key.expires, now),
                KeyState::Revoked => "-".to_owned(),
            },
        ]);
    }
    table.text() + &more(view.keys.len(), offset, view.total)
}

/// That a page is not all there is.
pub(super) fn more(shown: usize, offset: usize, total: usize) -> String {
    let end = offset + shown;
    match shown == total {
        true => String::new(),
        false => format!(
            "\n{} to {} of {}: --offset and --limit show others.\n",
            number(offset as u64 + 1),
            number(end as u64),
            number(total as u64)
        ),
    }
}

/// What a key used.
pub(super) fn usage(view: &UsageView) -> String {
    let (from, to) = (UtcTime::from(view.from), UtcTime::from(view.to));
    let range = format!("from {from} to {to}\n");
    let Some(first) = view.rows.first() else {
        return format!("Nothing was used {range}");
    };
    // What rows are not grouped by has no column.
    let columns = [
        first.at.is_some().then_some("time"),
        first.method.is_some().then_some("method"),
        first.outcome.is_some().then_some("outcome"),
    ];
    let groups = columns.into_iter().flatten();
    let numbers = [
        "requests",
        "errors",
        "units",
        "bytes in",
        "bytes out",
        "sessions",
        "notifications",
        "p95 ms",
    ];
    let mut table = Table::new(
        groups
            .map(|head| (head, Align::Left))
            .chain(numbers.map(|head| (head, Align::Right)))
            .collect::<Vec<_>>(),
    );
    for row in &view.rows {
        table.row(usage_row(row));
    }
    let truncated = match view.is_truncated {
        true => "\nThere is more: ask for less time, or group by less.\n",
        false => "",
    };
    format!("{range}\n{}{truncated}", table.text())
}

fn usage_row(row: &UsageRowView) -> Vec<String> {
    let at = row.at.map(|at| UtcTime::from(at).to_string());
    let groups = [at, row.method.clone(), row.outcome.clone()];
    let p95 = row.latency.p95.map(|millis| millis.to_string());
    let numbers = [
        row.requests,
        row.errors,
        row.units,
        row.bytes_in,
        row.bytes_out,
        row.sessions,
        row.notifications,
    ];
    let numbers = numbers.map(number).into_iter();
    let p95 = p95.unwrap_or_else(|| "-".to_owned());
    groups
        .into_iter()
        .flatten()
        .chain(numbers)
        .chain([p95])
        .collect()
}

/// The first characters of a key; none of one that the configuration names, which may be short.
pub(super) fn prefix(view: &KeyView) -> String {
    match view.prefix.as_str() {
        "" => "-".to_owned(),
        prefix => format!("{prefix}…"),
    }
}

/// Whether a key lets clients in.
pub(super) const fn state(state: KeyState) -> &'static str {
    match state {
        KeyState::Active => "active",
        KeyState::Expired => "expired",
        KeyState::Revoked => "revoked",
    }
}

/// A token bucket.
pub(super) fn rate(Rate { per_second, burst }: Rate) -> String {
    let (per_second, burst) = (per_second.get(), burst.get());
    match per_second == burst {
        true => format!("{} a second", number(per_second)),
        false => format!("{} a second, {} at once", number(per_second), number(burst)),
    }
}

/// Units from 00:00 to 24:00 UTC.
pub(super) fn units_per_day(quota: &Quota) -> Option<String> {
    quota.units_per_day.map(|most| number(most.get()))
}

fn secret_use(SecretView { required, exempts }: SecretView) -> &'static str {
    match (required, exempts) {
        (true, false) => "required",
        (false, false) => "optional",
        (false, true) => "exempting",
        (true, true) => "required, exempting",
    }
}

fn last_24h(used: &Last24h) -> String {
    format!(
        "{} requests, {} errors, {} units",
        number(used.requests),
        number(used.errors),
        number(used.units)
    )
}

/// Entries with commas between them, if there are any.
fn joined<T: Display>(entries: impl IntoIterator<Item = T>) -> Option<String> {
    let entries: Vec<_> = entries.into_iter().map(|entry| entry.to_string()).collect();
    (!entries.is_empty()).then(|| entries.join(", "))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    const HOUR: u64 = 3_600_000;

    /// A key that was made and used an hour ago, and expires in an hour.
    fn view(state: &str, source: &str, prefix: &str) -> KeyView {
        let mut key = json!({
            "id": "1379e8176509bea0",
            "tenant": { "id": "b498b4b14fed722d", "name": "acme" },
            "name": "web",
            "prefix": prefix,
            "created": NOW.0 - HOUR,
            "expires": NOW.0 + HOUR,
            "state": state,
            "lastUsed": NOW.0 - HOUR,
            "settings": { "allow": {}, "quota": {}, "publicKeys": [] },
            "source": source,
            "last24h": { "requests": 0, "errors": 0, "units": 0 },
        });
        if state == "revoked" {
            key["revoked"] = json!(NOW.0 - HOUR);
        }
        serde_json::from_value(key).unwrap()
    }

    #[test]
    fn a_revoked_key_does_not_expire() {
        for (state, in_list, in_facts) in [
            (
                "active",
                "in 1 hour",
                Some("2027-01-15T09:00:00Z (in 1 hour)"),
            ),
            (
                "expired",
                "in 1 hour",
                Some("2027-01-15T09:00:00Z (in 1 hour)"),
            ),
            ("revoked", "-", None),
        ] {
            let view = view(state, "stored", "5RRpMy");
            let facts = key(&view, NOW);
            let found = facts.lines().find_map(|line| line.strip_prefix("expires"));
            assert_eq!(found.map(str::trim), in_facts, "{facts}");
            let list = KeyListView {
                keys: vec![view],
                total: 1,
            };
            let list = keys(&list, 0, NOW);
            assert!(list.trim_end().ends_with(in_list), "{list}");
        }
    }

    #[test]
    fn a_key_has_its_first_characters_if_they_are_known() {
        let stored = view("active", "stored", "5RRpMy");
        let configured = view("active", "configured", "");
        assert_eq!(prefix(&stored), "5RRpMy…");
        assert_eq!(prefix(&configured), "-");
    }
}
