//! The options that limit keys and tenants: what is set, and what is removed.

use std::num::NonZeroU64;

use alloy_primitives::Address;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use nearhead_tenants::{
    administration::{AllowPatch, LimitsPatch, Patch, QuotaPatch, SettingsPatch},
    allowlists::{Entries, Network, OriginPattern, UserAgentPart},
    limits::Weight,
    name::Name,
};

use super::{
    argument::{all, given, option, switch},
    value::{self, End},
};

/// What is to become of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyChange {
    pub(crate) name: Option<Name>,
    pub(crate) expires: Patch<End>,
    pub(crate) settings: SettingsPatch,
}

/// What is to become of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TenantChange {
    pub(crate) name: Option<Name>,
    pub(crate) limits: LimitsPatch,
}

impl KeyChange {
    /// Reads the options of [`key_options`].
    pub(super) fn read(matches: &ArgMatches) -> Result<Self, String> {
        let settings = SettingsPatch {
            allow: AllowPatch {
                origins: list(matches, "origin")?,
                user_agents: list(matches, "user-agent")?,
                methods: list(matches, "method")?,
                contracts: list(matches, "contract")?,
                networks: list(matches, "network")?,
            },
            quota: quota(matches),
            secret: patch(matches, "secret"),
            public_keys: match is_removed(matches, "public-key") {
                true => Some(Vec::new()),
                false => all(matches, "public-key"),
            },
        };
        Ok(Self {
            name: given(matches, "name"),
            expires: patch(matches, "expires"),
            settings,
        })
    }

    /// Whether nothing is to change.
    pub(super) fn is_keep(&self) -> bool {
        let keeps_settings = self.settings == SettingsPatch::default();
        keeps_settings && self.name.is_none() && self.expires.is_keep()
    }
}

impl TenantChange {
    /// Reads the options of [`tenant_options`].
    pub(super) fn read(matches: &ArgMatches) -> Self {
        Self {
            name: given(matches, "name"),
            limits: LimitsPatch {
                quota: quota(matches),
                sessions: patch(matches, "sessions"),
                subscriptions: patch(matches, "subscriptions"),
                weight: patch(matches, "weight"),
            },
        }
    }

    /// Whether nothing is to change.
    pub(super) fn is_keep(&self) -> bool {
        self.limits == LimitsPatch::default() && self.name.is_none()
    }
}

/// What is to become of the value of an option.
fn patch<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Patch<T> {
    match given(matches, name) {
        Some(value) => Patch::Set(value),
        None if is_removed(matches, name) => Patch::Remove,
        None => Patch::Keep,
    }
}

/// What is to become of a list. One that is given replaces the one before.
fn list<T>(matches: &ArgMatches, name: &str) -> Result<Patch<Entries<T>>, String>
where
    T: Clone + PartialEq + Send + Sync + 'static,
{
    match all::<T>(matches, name) {
        Some(values) => {
            let entries = values.try_into();
            let entries = entries.map_err(|error| format!("--{name}: {error}"))?;
            Ok(Patch::Set(entries))
        }
        None if is_removed(matches, name) => Ok(Patch::Remove),
        None => Ok(Patch::Keep),
    }
}

fn quota(matches: &ArgMatches) -> QuotaPatch {
    QuotaPatch {
        requests: patch(matches, "requests-per-second"),
        units: patch(matches, "units-per-second"),
        units_per_day: patch(matches, "units-per-day"),
    }
}

fn is_removed(matches: &ArgMatches, name: &str) -> bool {
    given(matches, &format!("no-{name}")).unwrap_or(false)
}

const LIMITS: &str = "Limits";
const LISTS: &str = "Allowlists";
const SECRETS: &str = "Secrets";

/// The options of a key, and with `removing` those that take each of them away.
pub(super) fn key_options(command: Command, removing: bool) -> Command {
    let command = command
        .arg(
            option(
                "expires",
                "TIME",
                "When it ends: a time from now (90d) or a date (2030-12-31)",
            )
            .value_parser(value::end)
            .help_heading(LIMITS),
        )
        .args(lists())
        .args(quota_options("of the key, within what its tenant may do"))
        .args(secrets());
    match removing {
        true => command.args(removals(&KEY_REMOVALS)),
        false => command,
    }
}

/// The options of a tenant, and with `removing` those that take each of them away.
pub(super) fn tenant_options(command: Command, removing: bool) -> Command {
    let sessions = option(
        "sessions",
        "NUMBER",
        "WebSocket sessions that may be open at once",
    );
    let subscriptions = option(
        "subscriptions",
        "NUMBER",
        "Subscriptions of all its sessions",
    );
    let weight = option(
        "weight",
        "NUMBER",
        "Its share of what is contended, beside those of other tenants: 1 to 1000 [default: 1]",
    );
    let command = command
        .args(quota_options("of all its keys together"))
        .args([
            sessions
                .value_parser(value_parser!(u32))
                .help_heading(LIMITS),
            subscriptions
                .value_parser(value_parser!(u32))
                .help_heading(LIMITS),
            weight
                .value_parser(str::parse::<Weight>)
                .help_heading(LIMITS),
        ]);
    match removing {
        true => command.args(removals(&TENANT_REMOVALS)),
        false => command,
    }
}

fn quota_options(of: &str) -> [Arg; 3] {
    let rate = |name, what: &str| {
        option(name, "N[:BURST]", "")
            .help(format!("{what} a second {of}; the burst is N if not given"))
            .value_parser(value::rate)
            .help_heading(LIMITS)
    };
    [
        rate("requests-per-second", "Requests"),
        rate("units-per-second", "Units"),
        option("units-per-day", "N", "Units from 00:00 to 24:00 UTC")
            .value_parser(str::parse::<NonZeroU64>)
            .help_heading(LIMITS),
    ]
}

fn lists() -> [Arg; 5] {
    let list = |arg: Arg| arg.action(ArgAction::Append).help_heading(LISTS);
    [
        list(option(
            "origin",
            "ORIGIN",
            "Page that may use it: https://app.example.org or https://*.example.org. Each list may \
             be given up to 30 times, and a request has to pass every list that there is",
        ))
        .value_parser(str::parse::<OriginPattern>),
        list(option(
            "user-agent",
            "TEXT",
            "Part of the user agents that may use it",
        ))
        .value_parser(str::parse::<UserAgentPart>),
        list(option("method", "METHOD", "Method that may be called")).value_parser(value::method),
        list(option("contract", "ADDRESS", "Contract that may be read"))
            .value_parser(str::parse::<Address>),
        list(option(
            "network",
            "NETWORK",
            "Network that may use it: 192.0.2.7 or 10.0.0.0/8",
        ))
        .value_parser(str::parse::<Network>),
    ]
}

fn secrets() -> [Arg; 2] {
    [
        option(
            "secret",
            "USE",
            "Make a secret beside the key, for servers. required: every request needs it; \
             optional: it is checked if it is there; exempting: requests with it may have any \
             origin and user agent",
        )
        .value_parser(value::secret_use)
        .help_heading(SECRETS),
        option(
            "public-key",
            "KID:ALG:FILE",
            "Public key, in PEM, of an issuer of tokens; ALG is ES256 or RS256. Requests then need \
             a token that one of these issuers signed. Up to 8 times",
        )
        .action(ArgAction::Append)
        .value_parser(value::public_key)
        .help_heading(SECRETS),
    ]
}

/// Options of a key that can be taken away.
const KEY_REMOVALS: [(&str, &str); 11] = [
    ("no-expires", "Let it live until it is revoked"),
    ("no-origin", "Allow every origin"),
    ("no-user-agent", "Allow every user agent"),
    ("no-method", "Allow every method"),
    ("no-contract", "Allow every contract"),
    ("no-network", "Allow every network"),
    (
        "no-requests-per-second",
        "Limit requests by the tenant alone",
    ),
    (
        "no-units-per-second",
        "Limit units a second by the tenant alone",
    ),
    ("no-units-per-day", "Limit units a day by the tenant alone"),
    ("no-secret", "Forget the secret beside it"),
    ("no-public-key", "Ask for no token"),
];

/// Limits of a tenant that can be taken away.
const TENANT_REMOVALS: [(&str, &str); 5] = [
    (
        "no-requests-per-second",
        "Limit requests by the service's options alone",
    ),
    ("no-units-per-second", "Do not limit units a second"),
    ("no-units-per-day", "Do not limit units a day"),
    (
        "no-sessions",
        "Limit sessions by the service's options alone",
    ),
    (
        "no-subscriptions",
        "Limit subscriptions by the service alone",
    ),
];

fn removals(table: &[(&'static str, &'static str)]) -> Vec<Arg> {
    let removal = |(name, help): &(&'static str, &'static str)| {
        let removed: &'static str = name.trim_start_matches("no-");
        switch(name, help)
            .conflicts_with(removed)
            .help_heading("Removals")
    };
    table.iter().map(removal).collect()
}
