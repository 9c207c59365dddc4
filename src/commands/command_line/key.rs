//! `nearhead key`.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use nearhead_tenants::{
    administration::{Breakdown, KeySort, ListKeys, Span, TenantRef},
    name::Name,
    record::KeyState,
};

use super::{
    argument::{all, given, group, option, switch, verb},
    limits::{KeyChange, key_options},
};

/// Keys for which nothing comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeveralKeys {
    /// Which ones.
    pub(crate) keys: Vec<KeyText>,
    /// Whether nobody is asked.
    pub(crate) is_sure: bool,
}

/// What is done to keys.
#[derive(Debug)]
pub(crate) enum KeyAction {
    /// Makes one.
    Create {
        /// Its tenant.
        tenant: TenantRef,
        /// Whether a tenant of that name is made if there is none.
        creates_tenant: bool,
        /// What it may do.
        change: Box<KeyChange>,
        /// Where clients reach the service.
        url: String,
    },
    /// Lists them.
    List(ListKeys),
    /// Shows one.
    Show(KeyText),
    /// Makes a successor.
    Rotate {
        /// Which one.
        key: KeyText,
        /// How long the old one still lets clients in.
        overlap: Option<Span>,
        /// Where clients reach the service.
        url: String,
    },
    /// Revokes some.
    Revoke(SeveralKeys),
    /// Removes expired or revoked keys.
    Remove(SeveralKeys),
    /// Changes what one may do.
    Limit {
        /// Which one.
        key: KeyText,
        /// What changes.
        change: Box<KeyChange>,
    },
    /// Shows what one used.
    Usage {
        /// Which one.
        key: KeyText,
        /// Up to how long ago.
        last: Span,
        /// What the rows are grouped by.
        by: Breakdown,
    },
}

/// What a person calls a key by: its id, the beginning of it, its first characters, or its name.
pub(crate) type KeyText = String;

/// Keys that are listed unless it is said how many.
const LISTED: usize = 100;

/// Where a service listens for clients unless it is told otherwise.
const URL_DEFAULT: &str = "http://127.0.0.1:8545";

const ID_HELP: &str = "The key: its id, the beginning of its id, its first characters or its name";

/// `nearhead key`, with all its verbs.
pub(super) fn command() -> Command {
    group(
        "key",
        "Make, list, change, revoke and remove the keys of clients",
    )
    .subcommand(create())
    .subcommand(list())
    .subcommand(
        verb(
            "show",
            "Show one key: what it may do, and what it has used",
            "  nearhead key show 0123456789abcdef",
        )
        .arg(id()),
    )
    .subcommand(rotate())
    .subcommand(revoke())
    .subcommand(remove())
    .subcommand(limit())
    .subcommand(usage())
}

fn id() -> Arg {
    Arg::new("id")
        .value_name("KEY")
        .required(true)
        .help(ID_HELP)
}

fn create() -> Command {
    let command = verb(
        "create",
        "Make a key, and print it: once, because only a digest of it is kept",
        "  nearhead key create --tenant acme --create-tenant\n  \
         nearhead key create --tenant acme --name web --origin https://app.example.org --expires 90d\n  \
         nearhead key create --tenant acme --name server --secret required --units-per-day 1000000",
    );
    let tenant = option("tenant", "TENANT", "Name or id of the tenant that gets it");
    let name = option("name", "NAME", "Name of the key [default: default]");
    let command = command
        .arg(tenant.required(true).value_parser(str::parse::<TenantRef>))
        .arg(switch(
            "create-tenant",
            "Make the tenant if there is none of that name",
        ))
        .arg(name.value_parser(str::parse::<Name>));
    key_options(command.arg(url()), false)
}

fn url() -> Arg {
    option(
        "url",
        "URL",
        "Where clients reach the service, for the line that uses the key [default: \
         http://127.0.0.1:8545]",
    )
}

fn list() -> Command {
    let number = |name, help| option(name, "NUMBER", help).value_parser(value_parser!(usize));
    verb(
        "list",
        "List keys",
        "  nearhead key list --tenant acme --state active\n  \
         nearhead key list --search web --sort last-used --json",
    )
    .arg(
        option("tenant", "TENANT", "Only those of this tenant")
            .value_parser(str::parse::<TenantRef>),
    )
    .arg(option(
        "search",
        "TEXT",
        "Only those with this in their name, first characters or tenant",
    ))
    .arg(
        option(
            "state",
            "STATE",
            "Only those that are active, expired or revoked",
        )
        .value_parser(state),
    )
    .arg(
        option(
            "sort",
            "COLUMN",
            "Sort by name, tenant, created, last-used or requests, which are those of the last 24 \
             hours [default: name]",
        )
        .value_parser(sort),
    )
    .arg(switch("descending", "Put the largest first"))
    .arg(number(
        "offset",
        "Leave out this many at the beginning [default: 0]",
    ))
    .arg(number("limit", "List this many at most [default: 100]"))
}

/// By what keys are sorted.
fn sort(text: &str) -> Result<KeySort, &'static str> {
    Ok(match text {
        "name" => KeySort::Name,
        "tenant" => KeySort::Tenant,
        "created" => KeySort::Created,
        "last-used" => KeySort::LastUsed,
        "requests" => KeySort::Requests24h,
        _ => return Err("expected name, tenant, created, last-used or requests"),
    })
}

/// Whether keys let clients in.
fn state(text: &str) -> Result<KeyState, &'static str> {
    Ok(match text {
        "active" => KeyState::Active,
        "expired" => KeyState::Expired,
        "revoked" => KeyState::Revoked,
        _ => return Err("expected active, expired or revoked"),
    })
}

fn rotate() -> Command {
    let old_expires = option(
        "old-expires",
        "TIME",
        "How long the old one still lets clients in, so that they can take the new one, up to 30d; \
         0s for none [default: 24h]",
    );
    verb(
        "rotate",
        "Make a successor with the same name and settings, and print it. The old one ends later",
        "  nearhead key rotate 0123456789abcdef\n  \
         nearhead key rotate web --old-expires 1h",
    )
    .arg(id())
    .arg(old_expires.value_parser(str::parse::<Span>))
    .arg(url())
}

fn revoke() -> Command {
    verb(
        "revoke",
        "Revoke keys, for good. Their open sessions end within a second",
        "  nearhead key revoke 0123456789abcdef\n  \
         nearhead key revoke 0123456789abcdef fedcba9876543210 --yes",
    )
    .args(SeveralKeys::arguments())
}

fn remove() -> Command {
    verb(
        "remove",
        "Remove keys that expired or were revoked, at once and not 30 days later",
        "  nearhead key remove 0123456789abcdef\n  \
         nearhead key remove 0123456789abcdef fedcba9876543210 --yes",
    )
    .args(SeveralKeys::arguments())
}

impl SeveralKeys {
    fn arguments() -> [Arg; 2] {
        [
            id().action(ArgAction::Append).num_args(1..),
            switch("yes", "Do not ask"),
        ]
    }

    fn read(matches: &ArgMatches) -> Self {
        Self {
            keys: all(matches, "id").unwrap_or_default(),
            is_sure: matches.get_flag("yes"),
        }
    }
}

fn limit() -> Command {
    let name = option("name", "NAME", "New name of the key");
    let command = verb(
        "limit",
        "Change what a key may do. An allowlist that is given replaces the one before",
        "  nearhead key limit web --origin https://app.example.org --origin http://localhost:3000\n  \
         nearhead key limit web --requests-per-second 50:100 --no-units-per-day --expires 30d",
    );
    let command = command.arg(id()).arg(name.value_parser(str::parse::<Name>));
    key_options(command, true)
}

fn usage() -> Command {
    verb(
        "usage",
        "Show what a key has used",
        "  nearhead key usage web --last 7d\n  \
         nearhead key usage web --by method,outcome --json",
    )
    .arg(id())
    .arg(
        option(
            "last",
            "TIME",
            "How far to look back, up to 31d [default: 24h]",
        )
        .value_parser(str::parse::<Span>),
    )
    .arg(
        option(
            "by",
            "COLUMNS",
            "What rows are grouped by: any of time, method and outcome, with commas between them \
             [default: method]",
        )
        .value_parser(str::parse::<Breakdown>),
    )
}

impl KeyAction {
    pub(super) fn read(verb: &str, matches: &ArgMatches) -> Result<Self, String> {
        let key = || given(matches, "id").unwrap_or_default();
        let url = || given(matches, "url").unwrap_or_else(|| URL_DEFAULT.to_owned());
        Ok(match verb {
            "create" => Self::Create {
                // clap has required it.
                tenant: given(matches, "tenant").ok_or("key create: give --tenant")?,
                creates_tenant: matches.get_flag("create-tenant"),
                change: Box::new(KeyChange::read(matches)?),
                url: url(),
            },
            "list" => Self::List(ListKeys {
                tenant: given(matches, "tenant"),
                search: given(matches, "search"),
                state: given(matches, "state"),
                sort: given(matches, "sort").unwrap_or_default(),
                descending: matches.get_flag("descending"),
                offset: given(matches, "offset").unwrap_or(0),
                limit: Some(given(matches, "limit").unwrap_or(LISTED)),
            }),
            "show" => Self::Show(key()),
            "rotate" => Self::Rotate {
                key: key(),
                overlap: given(matches, "old-expires"),
                url: url(),
            },
            "revoke" => Self::Revoke(SeveralKeys::read(matches)),
            "remove" => Self::Remove(SeveralKeys::read(matches)),
            "limit" => {
                let change = KeyChange::read(matches)?;
                if change.is_keep() {
                    let what = "key limit: give at least one option that changes the key";
                    return Err(what.to_owned());
                }
                Self::Limit {
                    key: key(),
                    change: Box::new(change),
                }
            }
            _ => Self::Usage {
                key: key(),
                last: given(matches, "last").unwrap_or(Span::days(1)),
                by: match given(matches, "by") {
                    Some(by) => by,
                    None => "method".parse().map_err(|error| format!("{error}"))?,
                },
            },
        })
    }
}
