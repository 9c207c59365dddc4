//! `nearhead tenant`.

use clap::{Arg, ArgMatches, Command, value_parser};
use nearhead_tenants::{
    administration::{ListTenants, TenantRef},
    name::Name,
};

use super::{
    argument::{given, group, option, switch, verb},
    limits::{TenantChange, tenant_options},
};

/// What is done to tenants.
#[derive(Debug)]
pub(crate) enum TenantAction {
    /// Makes one.
    Create {
        /// Its name.
        name: Name,
        /// What it may do.
        change: TenantChange,
    },
    /// Lists them.
    List(ListTenants),
    /// Shows one.
    Show(TenantRef),
    /// Changes what one may do.
    Limit {
        /// Which one.
        tenant: TenantRef,
        /// What changes.
        change: TenantChange,
    },
    /// Removes one, with all its keys.
    Remove {
        /// Which one.
        tenant: TenantRef,
        /// Whether nobody is asked.
        is_sure: bool,
    },
}

/// Tenants that are listed unless it is said how many.
const LISTED: usize = 100;

/// `nearhead tenant`, with all its verbs.
pub(super) fn command() -> Command {
    let create = verb(
        "create",
        "Make a tenant: who pays and is limited, with all its keys together",
        "  nearhead tenant create acme\n  \
         nearhead tenant create acme --requests-per-second 100:500 --units-per-day 5000000",
    )
    .arg(
        Arg::new("new-name")
            .value_name("NAME")
            .required(true)
            .value_parser(str::parse::<Name>)
            .help("Name of the tenant; no other one has it"),
    );
    let limit = verb(
        "limit",
        "Change what a tenant may do",
        "  nearhead tenant limit acme --sessions 100 --subscriptions 1000\n  \
         nearhead tenant limit acme --no-units-per-day --name 'Acme Corporation'",
    )
    .arg(tenant())
    .arg(option("name", "NAME", "New name of the tenant").value_parser(str::parse::<Name>));
    group("tenant", "Make, list, change and remove tenants")
        .subcommand(tenant_options(create, false))
        .subcommand(list())
        .subcommand(
            verb(
                "show",
                "Show one tenant: what it may do, and what it has used",
                "  nearhead tenant show acme",
            )
            .arg(tenant()),
        )
        .subcommand(tenant_options(limit, true))
        .subcommand(
            verb(
                "remove",
                "Remove a tenant, with its keys, accounts and API tokens",
                "  nearhead tenant remove acme",
            )
            .arg(tenant())
            .arg(switch("yes", "Do not ask")),
        )
}

fn tenant() -> Arg {
    Arg::new("tenant")
        .value_name("TENANT")
        .required(true)
        .value_parser(str::parse::<TenantRef>)
        .help("Name or id of the tenant")
}

fn list() -> Command {
    let number = |name, help| option(name, "NUMBER", help).value_parser(value_parser!(usize));
    verb(
        "list",
        "List tenants",
        "  nearhead tenant list\n  nearhead tenant list --search acme --json",
    )
    .arg(option(
        "search",
        "TEXT",
        "Only those with this in their name",
    ))
    .arg(number(
        "offset",
        "Leave out this many at the beginning [default: 0]",
    ))
    .arg(number("limit", "List this many at most [default: 100]"))
}

impl TenantAction {
    pub(super) fn read(verb: &str, matches: &ArgMatches) -> Result<Self, String> {
        let tenant = || given(matches, "tenant").ok_or("give a tenant");
        Ok(match verb {
            "create" => Self::Create {
                // clap has required it.
                name: given(matches, "new-name").ok_or("tenant create: give a name")?,
                change: TenantChange::read(matches),
            },
            "list" => Self::List(ListTenants {
                search: given(matches, "search"),
                offset: given(matches, "offset").unwrap_or(0),
                limit: Some(given(matches, "limit").unwrap_or(LISTED)),
            }),
            "show" => Self::Show(tenant()?),
            "limit" => {
                let change = TenantChange::read(matches);
                if change.is_keep() {
                    let what = "tenant limit: give at least one option that changes the tenant";
                    return Err(what.to_owned());
                }
                Self::Limit {
                    tenant: tenant()?,
                    change,
                }
            }
            _ => Self::Remove {
                tenant: tenant()?,
                is_sure: matches.get_flag("yes"),
            },
        })
    }
}
