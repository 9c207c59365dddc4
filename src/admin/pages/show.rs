//! How values are written in pages.

use std::{fmt, num::NonZeroU64};

use askama::filters::HtmlSafe;
use nearhead_tenants::{
    UnixMillis, UtcTime,
    administration::{AuthorView, KeyView, RecordSource, RoleName, TenantName},
    limits::Rate,
    record::KeyState,
};
use serde_json::Value;

use crate::thousands::thousands;

/// The states of nodes, and what each says.
pub(super) const NODE_STATES: [(&str, &str); 6] = [
    ("live", "names heads, and is asked for blocks and state"),
    (
        "syncing",
        "has not named a head yet, or reports that it is syncing",
    ),
    (
        "lagging",
        "its head has been below the served one for more than half a block time",
    ),
    (
        "limited",
        "answered that it gets too many requests, and is not asked for a while",
    ),
    (
        "faulty",
        "failed or lied, and is not asked for a while, which doubles with each fault",
    ),
    (
        "quarantined",
        "contradicted a quorum, and is asked only where no other node can be",
    ),
];

/// A word in a colour: a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    kind: &'static str,
    text: &'static str,
}

/// Its words are fixed.
impl HtmlSafe for State {}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            r#"<span class="state {}">{}</span>"#,
            self.kind, self.text
        )
    }
}

pub(super) const fn state(kind: &'static str, text: &'static str) -> State {
    State { kind, text }
}

pub(super) fn key_state(key: &KeyView) -> State {
    match (key.state, key.replaced_by) {
        (KeyState::Active, None) => state("good", "active"),
        (KeyState::Active, Some(_)) => state("warn", "rotated"),
        (KeyState::Expired, _) => state("", "expired"),
        (KeyState::Revoked, _) => state("bad", "revoked"),
    }
}

pub(super) fn node_state(of: &Option<String>) -> State {
    named_node_state(of.as_deref().unwrap_or_default())
}

pub(super) fn named_node_state(of: &str) -> State {
    let known = NODE_STATES.iter().find(|(name, _)| *name == of);
    match known.map(|(name, _)| *name) {
        Some(name @ "live") => state("good", name),
        Some(name @ ("faulty" | "quarantined")) => state("bad", name),
        Some(name) => state("warn", name),
        None => state("", "unknown"),
    }
}

/// The first characters of a key; none of one that the configuration names, which may be short.
pub(super) fn prefix(key: &KeyView) -> String {
    match key.prefix.as_str() {
        "" => "–".to_owned(),
        prefix => format!("{prefix}…"),
    }
}

pub(super) fn is_configured(source: &RecordSource) -> bool {
    *source == RecordSource::Configured
}

/// A label of metrics as words.
pub(super) fn words(label: &str) -> String {
    label.replace('_', " ")
}

/// A number with commas between thousands.
pub(super) fn count<T: Copy + TryInto<u64>>(number: &T) -> String {
    thousands((*number).try_into().unwrap_or(u64::MAX))
}

/// A part of a whole in percent.
pub(super) fn share(part: &u64, whole: &u64) -> String {
    match (part, whole) {
        (_, 0) => "–".to_owned(),
        (0, _) => "0%".to_owned(),
        (part, whole) => {
            let percent = *part as f64 * 100.0 / *whole as f64;
            match percent {
                ..0.01 => "<0.01%".to_owned(),
                ..10.0 => format!("{percent:.2}%"),
                _ => format!("{percent:.1}%"),
            }
        }
    }
}

/// Bytes, with three digits or so.
pub(super) fn bytes(number: u64) -> String {
    let mut rest = number as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if rest < 1_000.0 {
            return match (unit, rest) {
                ("B", _) => format!("{number} B"),
                (unit, ..10.0) => format!("{rest:.2} {unit}"),
                (unit, ..100.0) => format!("{rest:.1} {unit}"),
                (unit, _) => format!("{rest:.0} {unit}"),
            };
        }
        rest /= 1_000.0;
    }
    format!("{rest:.2} TB")
}

/// Milliseconds that some requests took at most; longer than every bound if there is none.
pub(super) fn latency(millis: Option<f64>, requests: u64, longest: Option<f64>) -> String {
    match (millis, requests, longest) {
        (_, 0, _) => "–".to_owned(),
        (Some(millis), ..) => format!("≤ {}", duration(millis)),
        (None, _, Some(longest)) => format!("> {}", duration(longest)),
        (None, ..) => "–".to_owned(),
    }
}

/// Milliseconds or seconds.
pub(super) fn duration(millis: f64) -> String {
    match millis {
        ..10.0 => format!("{} ms", (millis * 100.0).round() / 100.0),
        ..1_000.0 => format!("{millis:.0} ms"),
        ..60_000.0 => format!("{} s", (millis / 100.0).round() / 10.0),
        _ => format!("{:.0} min", millis / 60_000.0),
    }
}

/// A number that may be missing, because nothing limits it.
pub(super) fn limit(most: &Option<NonZeroU64>) -> String {
    most.map_or_else(|| "–".to_owned(), |most| count(&most.get()))
}

pub(super) fn rate(rate: &Option<Rate>) -> String {
    rate.map_or_else(|| "–".to_owned(), |rate| count(&rate.per_second.get()))
}

/// Who did something.
pub(super) fn author(author: &AuthorView) -> String {
    match author {
        AuthorView::Account(name) => name.to_string(),
        AuthorView::Token(name) => format!("{name} (API token)"),
        AuthorView::CommandLine => "the command line".to_owned(),
        AuthorView::Configuration => "the configuration".to_owned(),
        AuthorView::Service => "the service".to_owned(),
        AuthorView::Unknown => "unknown".to_owned(),
    }
}

pub(super) fn role(role: &RoleName, tenant: &Option<TenantName>) -> String {
    match (role, tenant) {
        (RoleName::Admin, _) => "administrator".to_owned(),
        (RoleName::Holder, Some(tenant)) => format!("holder, {}", tenant.name),
        (RoleName::Holder, None) => "holder".to_owned(),
    }
}

/// Parts of an object that say nothing more than the names of what is in them.
const CONTAINERS: [&str; 4] = ["settings", "limits", "allow", "quota"];

/// The members of an object as text, such as `name: Wallet, requests.perSecond: 50`.
pub(super) fn detail(detail: &Value) -> String {
    let mut parts = Vec::new();
    flatten("", detail, &mut parts);
    parts.join(", ")
}

fn flatten(path: &str, value: &Value, parts: &mut Vec<String>) {
    let text = match value {
        Value::Object(members) if members.contains_key("old") && members.contains_key("new") => {
            let [old, new] = ["old", "new"].map(|name| text_of(path, &members[name]));
            format!("{old} → {new}")
        }
        Value::Object(members) => {
            for (name, value) in members {
                let dot = if path.is_empty() { "" } else { "." };
                match CONTAINERS.contains(&name.as_str()) && value.is_object() {
                    true => flatten(path, value, parts),
                    false => flatten(&format!("{path}{dot}{name}"), value, parts),
                }
            }
            return;
        }
        other => text_of(path, other),
    };
    parts.push(format!("{path}: {text}"));
}

fn text_of(path: &str, value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let texts = members.map(|(name, value)| format!("{name} {}", text_of(name, value)));
            texts.collect::<Vec<_>>().join(" ")
        }
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => {
            let texts = values.iter().map(|value| match value.as_str() {
                Some(text) => text.to_owned(),
                None => value.to_string(),
            });
            texts.collect::<Vec<_>>().join(" ")
        }
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        // Times are the only numbers of that name.
        Value::Number(number) if path.to_ascii_lowercase().ends_with("expires") => {
            let time = number.as_u64().map(|time| UtcTime::from(UnixMillis(time)));
            time.map_or_else(|| number.to_string(), |time| time.to_string())
        }
        other => other.to_string(),
    }
}

/// A fixed text, whose parts in backticks are code.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithCode(&'static str);

/// Its words are fixed.
impl HtmlSafe for WithCode {}

impl fmt::Display for WithCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.split('`').enumerate() {
            match index % 2 {
                0 => f.write_str(part)?,
                _ => write!(f, "<code>{part}</code>")?,
            }
        }
        Ok(())
    }
}

pub(super) const fn with_code(text: &&'static str) -> WithCode {
    WithCode(text)
}

/// A bar that is filled up to a share. A picture, because the style of an element may not be set in
/// a page.
pub(super) const fn bar(share: &f64) -> Bar {
    Bar {
        share: *share,
        is_level: false,
    }
}

/// A bar that warns when it is nearly full.
pub(super) const fn level(share: &f64) -> Bar {
    Bar {
        share: *share,
        is_level: true,
    }
}

/// A bar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    share: f64,
    is_level: bool,
}

/// It has digits alone.
impl HtmlSafe for Bar {}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_full = self.is_level && self.share >= 0.9;
        let filled = match self.share.is_finite() {
            true => self.share.clamp(0.0, 1.0) * 100.0,
            false => 0.0,
        };
        let kind = if is_full { " full" } else { "" };
        write!(
            f,
            r#"<svg class="bar{kind}" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width="{filled:.1}" height="8"/></svg>"#
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        for (number, expected) in [
            (0_u64, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(&number), expected);
        }
        for (part, whole, expected) in [
            (0, 0, "–"),
            (0, 5, "0%"),
            (1, 3, "33.3%"),
            (1, 100, "1.00%"),
            (1, 1_000_000, "<0.01%"),
        ] {
            assert_eq!(share(&part, &whole), expected);
        }
        for (number, expected) in [
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (12_345, "12.3 kB"),
            (123_456_789, "123 MB"),
            (5_000_000_000_000, "5.00 TB"),
        ] {
            assert_eq!(bytes(number), expected);
        }
        for (millis, requests, expected) in [
            (Some(0.25), 1, "≤ 0.25 ms"),
            (Some(2_500.0), 1, "≤ 2.5 s"),
            (None, 1, "> 2.5 s"),
            (None, 0, "–"),
        ] {
            assert_eq!(latency(millis, requests, Some(2_500.0)), expected);
        }
    }

    #[test]
    fn what_else_is_known_of_an_entry_is_text() {
        let detail = detail(&json!({
            "expires": 1_800_000_000_000_u64,
            "name": "a",
            "settings": {"allow": {"origins": ["https://a", "https://b"]}, "quota": {"requests": {"burst": 5}}},
            "secret": null,
        }));
        let changed = super::detail(&json!({
            "expires": {"old": null, "new": 1_800_000_000_000_u64},
            "settings": {
                "allow": {"origins": {"old": ["https://a"], "new": []}},
                "secret": {"old": null, "new": {"required": true}},
            },
        }));
        let expected = "expires: none → 2027-01-15T08:00:00Z, origins: https://a → none, \
                        secret: none → required true";
        assert_eq!(changed, expected);
        let expected = "expires: 2027-01-15T08:00:00Z, name: a, secret: none, \
                        origins: https://a https://b, requests.burst: 5";
        assert_eq!(detail, expected);
    }

    #[test]
    fn a_bar_is_filled_up_to_its_share() {
        for (share, expected) in [
            (0.5, "50.0"),
            (7.0, "100.0"),
            (-1.0, "0.0"),
            (f64::NAN, "0.0"),
        ] {
            let text = bar(&share).to_string();
            assert!(
                text.contains(&format!("rect width=\"{expected}\"")),
                "{text}"
            );
        }
    }
}
