//! The pages of the dashboard. They are written here, work without JavaScript but for charts and
//! live numbers, and load nothing from elsewhere.
//!
//! Whatever a page does is an operation of administration: its handler reads the form, runs the
//! operation in the name of the visitor, and writes the view into a template.
//!
//! | file | content |
//! |---|---|
//! | `page_context`, `visit` | what pages are made of; one request of somebody who has logged in |
//! | `frame`, `clock`, `show`, `link` | parts of every page: what is around it, times, numbers, addresses |
//! | `form`, `settings_form`, `stale_form` | what somebody typed, and what it means for keys and tenants |
//! | `login_pages` | to log in and out; the first account |
//! | `overview_page`, `fleet_page` | the service now, and its nodes; the processes of its fleet |
//! | `key_list_page`, `key_page`, `key_changes` | keys |
//! | `tenant_pages`, `account_pages`, `audit_page` | tenants; people and programs; what was done |
//! | `usage_page`, `usage_panel` | what was used |
//! | `try_page`, `method_form`, `loopback_call` | to try a method |
//! | `confirm_page`, `made_page`, `snippets`, `page_error` | what several of them show |
//! | `templates` | the HTML |
//! | `assets` | style, scripts, pictures; uPlot draws the charts (MIT, its licence stands beside it) |

mod account_pages;
mod audit_page;
mod clock;
mod confirm_page;
mod fleet_page;
mod form;
mod frame;
mod key_changes;
mod key_list_page;
mod key_page;
mod link;
mod login_pages;
mod loopback_call;
mod made_page;
mod method_form;
mod overview_page;
mod page_context;
mod page_error;
mod settings_form;
mod show;
mod snippets;
mod stale_form;
mod tenant_pages;
mod try_page;
mod usage_page;
mod usage_panel;
mod visit;

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};
use askama::Template;

pub(super) use self::page_context::PageContext;
use self::{
    page_error::PageError,
    visit::{Answer, Visit, page_with, see_other},
};
use super::{admin_request::AdminRequest, api::ApiError, assets, path_pattern::Verb};
use crate::http::not_cached;

/// A route of the pages.
#[derive(Debug)]
pub(super) struct PageRoute {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    /// Whether one has to log in first.
    pub(super) needs_login: bool,
    pub(super) page: Page,
}

/// A page, or a form of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Login,
    LogIn,
    LogOut,
    FirstAccount,
    MakeFirstAccount,
    Overview,
    Nodes,
    Fleet,
    Usage,
    Keys,
    NewKey,
    CreateKey,
    Key,
    UpdateKey,
    ConfirmRotation,
    RotateKey,
    ConfirmRevocation,
    RevokeKey,
    ConfirmNoKey,
    RemoveKey,
    MakeSecret,
    ConfirmNoSecret,
    RemoveSecret,
    AddPublicKey,
    ConfirmNoPublicKey,
    RemovePublicKey,
    Tenants,
    NewTenant,
    CreateTenant,
    Tenant,
    UpdateTenant,
    ConfirmNoTenant,
    RemoveTenant,
    Audit,
    Accounts,
    NewAccount,
    CreateAccount,
    ConfirmNoAccount,
    RemoveAccount,
    PasswordOf,
    SetPasswordOf,
    NewToken,
    CreateToken,
    ConfirmNoToken,
    RemoveToken,
    OwnAccount,
    SetOwnPassword,
    Try,
    Call,
}

const fn open(verb: Verb, path: &'static str, page: Page) -> PageRoute {
    PageRoute {
        verb,
        path,
        needs_login: false,
        page,
    }
}

const fn get(path: &'static str, page: Page) -> PageRoute {
    PageRoute {
        verb: Verb::Get,
        path,
        needs_login: true,
        page,
    }
}

const fn post(path: &'static str, page: Page) -> PageRoute {
    PageRoute {
        verb: Verb::Post,
        path,
        needs_login: true,
        page,
    }
}

/// All routes of the pages. The first one that fits counts.
pub(super) const ROUTES: &[PageRoute] = &[
    open(Verb::Get, "/login", Page::Login),
    open(Verb::Post, "/login", Page::LogIn),
    open(Verb::Post, "/logout", Page::LogOut),
    open(Verb::Get, "/first-account", Page::FirstAccount),
    open(Verb::Post, "/first-account", Page::MakeFirstAccount),
    get("/", Page::Overview),
    get("/nodes", Page::Nodes),
    get("/fleet", Page::Fleet),
    get("/usage", Page::Usage),
    get("/keys", Page::Keys),
    get("/keys/new", Page::NewKey),
    post("/keys/new", Page::CreateKey),
    get("/keys/{id}", Page::Key),
    post("/keys/{id}", Page::UpdateKey),
    get("/keys/{id}/rotate", Page::ConfirmRotation),
    post("/keys/{id}/rotate", Page::RotateKey),
    get("/keys/{id}/revoke", Page::ConfirmRevocation),
    post("/keys/{id}/revoke", Page::RevokeKey),
    get("/keys/{id}/remove", Page::ConfirmNoKey),
    post("/keys/{id}/remove", Page::RemoveKey),
    post("/keys/{id}/secret", Page::MakeSecret),
    get("/keys/{id}/secret/remove", Page::ConfirmNoSecret),
    post("/keys/{id}/secret/remove", Page::RemoveSecret),
    post("/keys/{id}/public-keys", Page::AddPublicKey),
    get("/keys/{id}/public-keys/remove", Page::ConfirmNoPublicKey),
    post("/keys/{id}/public-keys/remove", Page::RemovePublicKey),
    get("/tenants", Page::Tenants),
    get("/tenants/new", Page::NewTenant),
    post("/tenants/new", Page::CreateTenant),
    get("/tenants/{id}", Page::Tenant),
    post("/tenants/{id}", Page::UpdateTenant),
    get("/tenants/{id}/remove", Page::ConfirmNoTenant),
    post("/tenants/{id}/remove", Page::RemoveTenant),
    get("/audit", Page::Audit),
    get("/accounts", Page::Accounts),
    get("/accounts/new", Page::NewAccount),
    post("/accounts/new", Page::CreateAccount),
    get("/accounts/remove", Page::ConfirmNoAccount),
    post("/accounts/remove", Page::RemoveAccount),
    get("/accounts/password", Page::PasswordOf),
    post("/accounts/password", Page::SetPasswordOf),
    get("/tokens/new", Page::NewToken),
    post("/tokens/new", Page::CreateToken),
    get("/tokens/remove", Page::ConfirmNoToken),
    post("/tokens/remove", Page::RemoveToken),
    get("/account", Page::OwnAccount),
    post("/account/password", Page::SetOwnPassword),
    get("/try", Page::Try),
    post("/try", Page::Call),
];

/// Answers a request for a page. A form has been checked to come from a page of this listener; the
/// security headers are added later.
pub(super) async fn serve(
    context: PageContext<'_>,
    page: Page,
    request: &AdminRequest,
) -> HttpResponse {
    let answer = answer(context, page, request).await;
    answer.unwrap_or_else(|error| refusal(&error))
}

async fn answer(context: PageContext<'_>, page: Page, request: &AdminRequest) -> Answer {
    match page {
        Page::Login => return login_pages::login(context, request).await,
        Page::LogIn => return login_pages::log_in(context, request).await,
        Page::LogOut => return login_pages::log_out(context, request).await,
        Page::FirstAccount => return login_pages::first_account(request),
        Page::MakeFirstAccount => {
            return login_pages::make_first_account(context, request).await;
        }
        _ => {}
    }
    let visit = &Visit::begin(context, request).await?;
    match page {
        Page::Login | Page::LogIn | Page::LogOut | Page::FirstAccount | Page::MakeFirstAccount => {
            Err(PageError::internal())
        }
        Page::Overview => overview_page::show(visit).await,
        Page::Nodes => overview_page::nodes(visit),
        Page::Fleet => fleet_page::show(visit),
        Page::Usage => usage_page::show(visit).await,
        Page::Keys => key_list_page::show(visit).await,
        Page::NewKey => key_changes::new(visit).await,
        Page::CreateKey => key_changes::create(visit).await,
        Page::Key => key_page::show(visit).await,
        Page::UpdateKey => key_page::update(visit).await,
        Page::ConfirmRotation => key_changes::confirm_rotation(visit).await,
        Page::RotateKey => key_changes::rotate(visit).await,
        Page::ConfirmRevocation => key_changes::confirm_revocation(visit).await,
        Page::RevokeKey => key_changes::revoke(visit).await,
        Page::ConfirmNoKey => key_changes::confirm_removal(visit).await,
        Page::RemoveKey => key_changes::remove(visit).await,
        Page::MakeSecret => key_changes::make_secret(visit).await,
        Page::ConfirmNoSecret => key_changes::confirm_no_secret(visit).await,
        Page::RemoveSecret => key_changes::remove_secret(visit).await,
        Page::AddPublicKey => key_changes::add_public_key(visit).await,
        Page::ConfirmNoPublicKey => key_changes::confirm_no_public_key(visit).await,
        Page::RemovePublicKey => key_changes::remove_public_key(visit).await,
        Page::Tenants => tenant_pages::list(visit).await,
        Page::NewTenant => tenant_pages::new(visit),
        Page::CreateTenant => tenant_pages::create(visit).await,
        Page::Tenant => tenant_pages::show(visit).await,
        Page::UpdateTenant => tenant_pages::update(visit).await,
        Page::ConfirmNoTenant => tenant_pages::confirm_removal(visit).await,
        Page::RemoveTenant => tenant_pages::remove(visit).await,
        Page::Audit => audit_page::show(visit).await,
        Page::Accounts => account_pages::list(visit).await,
        Page::NewAccount => account_pages::new_account(visit).await,
        Page::CreateAccount => account_pages::create_account(visit).await,
        Page::ConfirmNoAccount => account_pages::confirm_no_account(visit),
        Page::RemoveAccount => account_pages::remove_account(visit).await,
        Page::PasswordOf => account_pages::password_of(visit),
        Page::SetPasswordOf => account_pages::set_password_of(visit).await,
        Page::NewToken => account_pages::new_token(visit).await,
        Page::CreateToken => account_pages::create_token(visit).await,
        Page::ConfirmNoToken => account_pages::confirm_no_token(visit),
        Page::RemoveToken => account_pages::remove_token(visit).await,
        Page::OwnAccount => account_pages::own(visit),
        Page::SetOwnPassword => account_pages::set_own_password(visit).await,
        Page::Try => try_page::show(visit),
        Page::Call => try_page::call(visit).await,
    }
}

/// Sends someone who has not logged in to the page for that, and then back.
pub(super) fn log_in_first(request: &AdminRequest) -> HttpResponse {
    let is_form = !request.body.is_empty();
    let next = if is_form { "" } else { request.target.as_str() };
    let next = if next == "/" { "" } else { next };
    see_other(&link::link("/login", &[("next", &next)]))
}

/// The page that says why something is refused.
pub(super) fn refuse(error: &ApiError) -> HttpResponse {
    refusal(&PageError::from(error))
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    title: &'static str,
    message: String,
    /// Address and name of the page to go on with.
    back: (&'static str, &'static str),
}

fn refusal(error: &PageError) -> HttpResponse {
    let title = match error.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::UNAUTHORIZED => "Not logged in",
        StatusCode::CONFLICT => "Not possible",
        status if status.is_client_error() => "Not understood",
        _ => "Not possible now",
    };
    let page = ErrorPage {
        title,
        message: error.to_string(),
        back: match error.status {
            StatusCode::UNAUTHORIZED => ("/login", "Log in"),
            _ => ("/", "Go to the dashboard"),
        },
    };
    let mut response = page_with(error.status, &page).unwrap_or_else(|error| {
        let sentence = format!("{error}\n");
        not_cached(error.status, "text/plain; charset=utf-8", sentence)
    });
    if let Some(wait) = &error.retry_after {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, wait.clone());
    }
    response
}
