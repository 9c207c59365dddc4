//! `nearhead admin`.

use clap::{Arg, ArgMatches, Command};
use nearhead_tenants::{administration::TenantRef, name::Name};

use super::{
    argument::{given, group, option, switch, verb},
    value::{self, End},
};

/// What is done to accounts and API tokens.
#[derive(Debug)]
pub(crate) enum AdminAction {
    /// Sets the password of an account, and makes the first one.
    ResetPassword {
        /// Whose; the only administrator's if it is not given.
        name: Option<Name>,
    },
    /// Makes an account.
    CreateAccount {
        /// Its name.
        name: Name,
        /// The tenant that it sees; an administrator's if it is not given.
        holder_of: Option<TenantRef>,
    },
    /// Removes an account.
    RemoveAccount {
        /// Its name.
        name: Name,
        /// Whether nobody is asked.
        is_sure: bool,
    },
    /// Lists accounts.
    List,
    /// Makes an API token.
    CreateToken {
        /// Its name.
        name: Name,
        /// The tenant that it sees; an administrator's if it is not given.
        holder_of: Option<TenantRef>,
        /// When it ends.
        expires: Option<End>,
    },
    /// Lists API tokens.
    ListTokens,
    /// Removes an API token.
    RemoveToken {
        /// Its name.
        name: Name,
        /// Whether nobody is asked.
        is_sure: bool,
    },
}

/// `nearhead admin`, with all its verbs.
pub(super) fn command() -> Command {
    let reset = verb(
        "reset-password",
        "Set a password, typed at a prompt or read from standard input, and end the logins of its \
         account. Makes the first administrator if there is none",
        "  nearhead admin reset-password --data-dir /var/lib/nearhead\n  \
         nearhead admin reset-password alice < password.txt",
    )
    .arg(name(
        "Name of the account [default: that of the only administrator, or admin]",
    ));
    let create = verb(
        "create-account",
        "Make an account, with a password that is typed at a prompt or read from standard input",
        "  nearhead admin create-account alice\n  \
         nearhead admin create-account bob --holder-of acme < password.txt",
    )
    .arg(name("Name of the account").required(true))
    .arg(holder_of());
    let remove = verb(
        "remove-account",
        "Remove an account, which ends its logins",
        "  nearhead admin remove-account bob",
    )
    .arg(name("Name of the account").required(true))
    .arg(switch("yes", "Do not ask"));
    let list = verb("list", "List accounts", "  nearhead admin list --json");
    group(
        "admin",
        "Manage who may administer: accounts and API tokens",
    )
    .subcommand(reset)
    .subcommand(create)
    .subcommand(remove)
    .subcommand(list)
    .subcommand(tokens())
}

fn tokens() -> Command {
    let create = verb(
        "create",
        "Make an API token, and print it: once, because only a digest of it is kept",
        "  nearhead admin token create ci --expires 90d\n  \
         nearhead admin token create acme-reports --holder-of acme",
    )
    .arg(name("Name of the token").required(true))
    .arg(holder_of())
    .arg(
        option(
            "expires",
            "TIME",
            "When it ends: a time from now (90d) or a date (2030-12-31)",
        )
        .value_parser(value::end),
    );
    let list = verb("list", "List API tokens", "  nearhead admin token list");
    let remove = verb(
        "remove",
        "Remove an API token",
        "  nearhead admin token remove ci --yes",
    )
    .arg(name("Name of the token").required(true))
    .arg(switch("yes", "Do not ask"));
    group("token", "Manage API tokens, which let programs administer")
        .subcommand(create)
        .subcommand(list)
        .subcommand(remove)
}

fn name(help: &'static str) -> Arg {
    Arg::new("account")
        .value_name("NAME")
        .value_parser(str::parse::<Name>)
        .help(help)
}

fn holder_of() -> Arg {
    option(
        "holder-of",
        "TENANT",
        "Let it see the keys and the usage of this tenant alone, and rotate its keys",
    )
    .value_parser(str::parse::<TenantRef>)
}

impl AdminAction {
    pub(super) fn read(verbs: &[&str], matches: &ArgMatches) -> Result<Self, String> {
        let name = || given(matches, "account").ok_or("give a name");
        let is_sure = given(matches, "yes").unwrap_or(false);
        let holder_of = given(matches, "holder-of");
        Ok(match verbs {
            ["reset-password"] => Self::ResetPassword {
                name: given(matches, "account"),
            },
            ["create-account"] => Self::CreateAccount {
                name: name()?,
                holder_of,
            },
            ["remove-account"] => Self::RemoveAccount {
                name: name()?,
                is_sure,
            },
            ["list"] => Self::List,
            ["token", "create"] => Self::CreateToken {
                name: name()?,
                holder_of,
                expires: given(matches, "expires"),
            },
            ["token", "remove"] => Self::RemoveToken {
                name: name()?,
                is_sure,
            },
            _ => Self::ListTokens,
        })
    }
}
