//! What `nearhead admin` does.

use nearhead_tenants::{
    UnixMillis,
    administration::{
        AccountView, AccountsView, CreateAccount, CreateToken, ListAccounts, ListTokens,
        NewTokenView, RemoveAccount, RemoveToken, RoleName, SecretText, SetPassword, TenantName,
        TenantRef, TokensView,
    },
    name::Name,
};

use super::{
    Failure,
    command_line::admin::AdminAction,
    connection::now,
    run::{Run, is_sure},
    table::{Align, Table, facts},
    terminal,
    time_text::{exact_or_never, relative_or_never},
};
use crate::relative_time::relative_time;

/// The first administrator, unless another name is given.
const FIRST: &str = "admin";

impl Run<'_> {
    /// Does it.
    pub(super) fn admin(&mut self, action: AdminAction) -> Result<(), Failure> {
        match action {
            AdminAction::ResetPassword { name } => self.reset_password(name),
            AdminAction::CreateAccount { name, holder_of } => {
                let password = terminal::new_password(name.as_str())?.into();
                let view = self.call(CreateAccount {
                    name,
                    password,
                    role: role(holder_of.as_ref()),
                    tenant: holder_of,
                })?;
                self.answer(&view, account)
            }
            AdminAction::RemoveAccount {
                name,
                is_sure: is_sure_already,
            } => {
                is_sure(is_sure_already, || format!("Remove the account {name}?"))?;
                self.call(RemoveAccount { name: name.clone() })?;
                self.done(&format!("removed the account {name}"));
                Ok(())
            }
            AdminAction::List => {
                let view = self.call(ListAccounts {})?;
                self.answer(&view, |view| accounts(view, now()))
            }
            AdminAction::CreateToken {
                name,
                holder_of,
                expires,
            } => {
                let view = self.call(CreateToken {
                    name,
                    role: role(holder_of.as_ref()),
                    tenant: holder_of,
                    expires: expires.map(|end| end.at(now())),
                })?;
                self.answer(&view, |view| new_token(view, now()))
            }
            AdminAction::ListTokens => {
                let view = self.call(ListTokens {})?;
                self.answer(&view, |view| tokens(view, now()))
            }
            AdminAction::RemoveToken {
                name,
                is_sure: is_sure_already,
            } => {
                is_sure(is_sure_already, || format!("Remove the API token {name}?"))?;
                self.call(RemoveToken { name: name.clone() })?;
                self.done(&format!("removed the API token {name}"));
                Ok(())
            }
        }
    }

    fn reset_password(&mut self, name: Option<Name>) -> Result<(), Failure> {
        let accounts = self.call(ListAccounts {})?.accounts;
        let name = match name {
            Some(name) => name,
            None => only_administrator(&accounts)?,
        };
        let is_known = accounts.iter().any(|account| account.name == name);
        let has_admin = accounts
            .iter()
            .any(|account| account.role == RoleName::Admin);
        if !is_known && has_admin {
            let message = format!(
                "there is no account {name}: `nearhead admin list` has all, and `nearhead admin \
                 create-account` makes one"
            );
            return Err(Failure::new(message));
        }
        let password: SecretText = terminal::new_password(name.as_str())?.into();
        let done = if is_known {
            let set = SetPassword {
                name: name.clone(),
                password,
                present: None,
            };
            self.call(set)?;
            format!("changed the password of {name}, and ended its logins")
        } else {
            let first = CreateAccount {
                name: name.clone(),
                password,
                role: RoleName::Admin,
                tenant: None,
            };
            self.call(first)?;
            format!("made the administrator {name}")
        };
        self.done(&done);
        Ok(())
    }
}

/// The administrator who is meant if none is named.
fn only_administrator(accounts: &[AccountView]) -> Result<Name, Failure> {
    let mut admins = accounts
        .iter()
        .filter(|account| account.role == RoleName::Admin);
    match (admins.next(), admins.next()) {
        (Some(only), None) => Ok(only.name.clone()),
        (None, _) => FIRST.parse().map_err(Failure::new),
        (Some(_), Some(_)) => Err(Failure::misuse(
            "there are several administrators: name one of those that `nearhead admin list` has",
        )),
    }
}

fn role(holder_of: Option<&TenantRef>) -> RoleName {
    match holder_of {
        Some(_) => RoleName::Holder,
        None => RoleName::Admin,
    }
}

fn role_text(role: RoleName, tenant: Option<&TenantName>) -> String {
    match (role, tenant) {
        (RoleName::Admin, _) => "administrator".to_owned(),
        (RoleName::Holder, Some(tenant)) => format!("holder of {}", tenant.name),
        (RoleName::Holder, None) => "holder".to_owned(),
    }
}

fn account(view: &AccountView) -> String {
    let role = role_text(view.role, view.tenant.as_ref());
    format!("made the account {}: {role}\n", view.name)
}

fn accounts(view: &AccountsView, now: UnixMillis) -> String {
    if view.accounts.is_empty() {
        return "There are no accounts. `nearhead admin reset-password` makes the first \
                administrator.\n"
            .to_owned();
    }
    let mut table = Table::new([
        ("name", Align::Left),
        ("role", Align::Left),
        ("created", Align::Left),
        ("last seen", Align::Left),
    ]);
    for account in &view.accounts {
        table.row([
            account.name.to_string(),
            role_text(account.role, account.tenant.as_ref()),
            relative_time(account.created, now),
            relative_or_never(account.last_seen, now),
        ]);
    }
    table.text()
}

fn new_token(new: &NewTokenView, now: UnixMillis) -> String {
    let NewTokenView { token, view } = new;
    let made = facts([
        ("token", Some(token.expose().to_owned())),
        ("name", Some(view.name.to_string())),
        ("role", Some(role_text(view.role, view.tenant.as_ref()))),
        ("expires", Some(exact_or_never(view.expires, now))),
    ]);
    format!(
        "{made}\nThe token is not shown again. To use it, put it into a file or into \
         NEARHEAD_ADMIN_TOKEN:\n\nnearhead key list --token-file FILE\n"
    )
}

fn tokens(view: &TokensView, now: UnixMillis) -> String {
    if view.tokens.is_empty() {
        return "There are no API tokens. `nearhead admin token create NAME` makes one.\n"
            .to_owned();
    }
    let mut table = Table::new([
        ("name", Align::Left),
        ("role", Align::Left),
        ("created", Align::Left),
        ("expires", Align::Left),
    ]);
    for token in &view.tokens {
        table.row([
            token.name.to_string(),
            role_text(token.role, token.tenant.as_ref()),
            relative_time(token.created, now),
            relative_or_never(token.expires, now),
        ]);
    }
    table.text()
}
