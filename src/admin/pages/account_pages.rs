//! Pages of people and programs that administer.

use actix_web::http::StatusCode;
use askama::Template;
use nearhead_tenants::{
    administration::{
        AccountView, AuthorView, CreateAccount, CreateToken, ListAccounts, ListTokens,
        RemoveAccount, RemoveToken, RoleName, SecretText, SetPassword, TenantRef, TenantView,
        TokenView,
    },
    name::Name,
    password::PASSWORD_CHARS_MIN as PASSWORD_MIN,
};

use super::{
    clock::Clock,
    confirm_page::ConfirmPage,
    form::{Form, InvalidField},
    frame::Frame,
    key_changes::stored_tenants,
    made_page::MadePage,
    page_error::PageError,
    show,
    visit::{Answer, Visit, page, page_with, see_other},
};
use crate::admin::{assets, passwords};

#[derive(Template)]
#[template(path = "accounts.html")]
struct AccountsPage {
    frame: Frame,
    clock: Clock,
    accounts: Vec<AccountView>,
    tokens: Vec<TokenView>,
}

#[derive(Template)]
#[template(path = "account_new.html")]
struct NewAccountPage {
    frame: Frame,
    tenants: Vec<TenantView>,
    form: Form,
}

#[derive(Template)]
#[template(path = "token_new.html")]
struct NewTokenPage {
    frame: Frame,
    tenants: Vec<TenantView>,
    form: Form,
}

/// Changes a password: one's own, or another's.
#[derive(Template)]
#[template(path = "password.html")]
struct PasswordPage {
    frame: Frame,
    title: String,
    name: String,
    action: &'static str,
    is_own: bool,
    /// Whether there is one to change.
    has_password: bool,
}

/// Accounts and API tokens.
pub(super) async fn list(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    page(&AccountsPage {
        frame: visit.frame("/accounts"),
        clock: visit.clock,
        accounts: visit.run(ListAccounts {}).await?.accounts,
        tokens: visit.run(ListTokens {}).await?.tokens,
    })
}

/// The form that makes an account.
pub(super) async fn new_account(visit: &Visit<'_>) -> Answer {
    new_account_with(visit, None).await
}

async fn new_account_with(visit: &Visit<'_>, error: Option<PageError>) -> Answer {
    visit.check_admin()?;
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let frame = visit.frame("/accounts");
    let page = NewAccountPage {
        frame: frame.with_error(error.map(|error| error.to_string())),
        tenants: stored_tenants(visit).await?,
        form: visit.form.clone(),
    };
    page_with(status, &page)
}

/// Makes an account.
pub(super) async fn create_account(visit: &Visit<'_>) -> Answer {
    match try_create_account(visit).await {
        Ok(()) => Ok(see_other("/accounts?done=account-made")),
        Err(error) => new_account_with(visit, Some(error)).await,
    }
}

async fn try_create_account(visit: &Visit<'_>) -> Result<(), PageError> {
    let (role, tenant) = role(&visit.form)?;
    let create = CreateAccount {
        name: visit.form.required("name", "Name")?,
        password: new_password(&visit.form)?,
        role,
        tenant,
    };
    let by = visit.request.requester();
    let made = passwords::create_account(visit.context.admin, create, by).await;
    made.map(drop).map_err(|error| PageError::from(&error))
}

/// The role that is chosen, and the tenant of a holder.
fn role(form: &Form) -> Result<(RoleName, Option<TenantRef>), PageError> {
    let tenant = form.optional("tenant", "Tenant of a holder")?;
    match (form.get("role"), tenant) {
        ("holder", Some(tenant)) => Ok((RoleName::Holder, Some(tenant))),
        ("holder", None) => {
            Err(InvalidField::new("Tenant of a holder", "choose whose keys they may see").into())
        }
        // Somebody who leaves a tenant in the field means a holder, perhaps.
        (_, Some(_)) => {
            Err(InvalidField::new("Tenant of a holder", "an administrator has none").into())
        }
        _ => Ok((RoleName::Admin, None)),
    }
}

/// A password that was typed twice.
fn new_password(form: &Form) -> Result<SecretText, InvalidField> {
    // With the spaces around it.
    let password = form.raw("password");
    match password == form.raw("again") {
        true => Ok(password.to_owned().into()),
        false => Err(InvalidField::new(
            "Password again",
            "type the same password twice",
        )),
    }
}

fn named(form: &Form) -> Result<Name, InvalidField> {
    form.required("name", "Name")
}

/// Asks before an account is removed.
pub(super) fn confirm_no_account(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let name = named(&visit.query)?;
    page(&ConfirmPage {
        frame: visit.frame("/accounts"),
        title: format!("Remove the account {name}"),
        lead: format!("{name} can log in no more."),
        destroys: vec![
            "All log-ins of the account end now.".to_owned(),
            "Tenants, keys and the audit stay.".to_owned(),
        ],
        action: "/accounts/remove".to_owned(),
        hidden: vec![("name", name.to_string())],
        choice: None,
        is_danger: true,
        button: "Remove the account".to_owned(),
        back: ("/accounts".to_owned(), "Accounts".to_owned()),
    })
}

/// Removes an account.
pub(super) async fn remove_account(visit: &Visit<'_>) -> Answer {
    let name = named(&visit.form)?;
    visit.run(RemoveAccount { name }).await?;
    Ok(see_other("/accounts?done=account-removed"))
}

/// The form that makes an API token.
pub(super) async fn new_token(visit: &Visit<'_>) -> Answer {
    new_token_with(visit, None).await
}

async fn new_token_with(visit: &Visit<'_>, error: Option<PageError>) -> Answer {
    visit.check_admin()?;
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let frame = visit.frame("/accounts");
    let page = NewTokenPage {
        frame: frame.with_error(error.map(|error| error.to_string())),
        tenants: stored_tenants(visit).await?,
        form: visit.form.clone(),
    };
    page_with(status, &page)
}

/// Makes an API token, and shows it.
pub(super) async fn create_token(visit: &Visit<'_>) -> Answer {
    match try_create_token(visit).await {
        Ok(page_of_it) => page(&page_of_it),
        Err(error) => new_token_with(visit, Some(error)).await,
    }
}

async fn try_create_token(visit: &Visit<'_>) -> Result<MadePage, PageError> {
    let (role, tenant) = role(&visit.form)?;
    let create = CreateToken {
        name: visit.form.required("name", "Name")?,
        role,
        tenant,
        expires: visit.form.time("expires", "Expires")?,
    };
    let made = visit.run(create).await?;
    Ok(MadePage {
        frame: visit.frame("/accounts"),
        title: format!("The API token is made: {}", made.view.name),
        lead: "A program presents it as `Authorization: Bearer`; it is no key for JSON-RPC.",
        secrets: vec![("API token", made.token.expose().to_owned())],
        back: ("/accounts", "Accounts"),
        next: ("/accounts".to_owned(), "Go to the accounts"),
        snippets: Vec::new(),
    })
}

/// Asks before an API token is removed.
pub(super) fn confirm_no_token(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let name = named(&visit.query)?;
    page(&ConfirmPage {
        frame: visit.frame("/accounts"),
        title: format!("Remove the API token {name}"),
        lead: format!("Programs that use {name} are refused from now on."),
        destroys: vec!["This cannot be undone: the program will need a new token.".to_owned()],
        action: "/tokens/remove".to_owned(),
        hidden: vec![("name", name.to_string())],
        choice: None,
        is_danger: true,
        button: "Remove the API token".to_owned(),
        back: ("/accounts".to_owned(), "Accounts".to_owned()),
    })
}

/// Removes an API token.
pub(super) async fn remove_token(visit: &Visit<'_>) -> Answer {
    let name = named(&visit.form)?;
    visit.run(RemoveToken { name }).await?;
    Ok(see_other("/accounts?done=token-removed"))
}

/// The form that sets another's password.
pub(super) fn password_of(visit: &Visit<'_>) -> Answer {
    password_of_with(visit, &visit.query, None)
}

fn password_of_with(visit: &Visit<'_>, form: &Form, error: Option<PageError>) -> Answer {
    visit.check_admin()?;
    let name = named(form)?;
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let frame = visit.frame("/accounts");
    let page = PasswordPage {
        frame: frame.with_error(error.map(|error| error.to_string())),
        title: format!("Set the password of {name}"),
        name: name.to_string(),
        action: "/accounts/password",
        is_own: false,
        has_password: true,
    };
    page_with(status, &page)
}

/// Sets another's password.
pub(super) async fn set_password_of(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    match try_set_password(visit, None).await {
        Ok(()) => Ok(see_other("/accounts?done=password")),
        Err(error) => password_of_with(visit, &visit.form, Some(error)),
    }
}

async fn try_set_password(
    visit: &Visit<'_>,
    own: Option<(Name, SecretText)>,
) -> Result<(), PageError> {
    let (name, present) = match own {
        Some((name, present)) => (name, Some(present)),
        None => (named(&visit.form)?, None),
    };
    let set = SetPassword {
        name,
        password: new_password(&visit.form)?,
        present,
    };
    let by = visit.request.requester();
    let set = passwords::set_password(visit.context.admin, set, by).await;
    set.map_err(|error| PageError::from(&error))
}

/// One's own account.
pub(super) fn own(visit: &Visit<'_>) -> Answer {
    own_with(visit, None)
}

fn own_with(visit: &Visit<'_>, error: Option<PageError>) -> Answer {
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let frame = visit.frame("/account");
    let page = PasswordPage {
        title: "Your account".to_owned(),
        name: frame.who.clone(),
        action: "/account/password",
        is_own: true,
        has_password: frame.can_log_out,
        frame: frame.with_error(error.map(|error| error.to_string())),
    };
    page_with(status, &page)
}

/// Changes one's own password, which ends all one's log-ins.
pub(super) async fn set_own_password(visit: &Visit<'_>) -> Answer {
    let AuthorView::Account(name) = visit.me.author.clone() else {
        return Err(PageError::not_allowed());
    };
    let present = visit.form.raw("present").to_owned().into();
    match try_set_password(visit, Some((name, present))).await {
        Ok(()) => Ok(see_other("/login?done=password")),
        Err(error) => own_with(visit, Some(error)),
    }
}
