//! Pages of tenants.

use actix_web::http::StatusCode;
use askama::Template;
use nearhead_tenants::{
    administration::{
        CreateTenant, GetTenant, ListAccounts, ListTenants, ListTokens, RecordSource, RemoveTenant,
        TenantListView, TenantName, TenantRef, TenantView, UpdateTenant,
    },
    id::TenantId,
    name::Name,
};

use super::{
    clock::Clock,
    confirm_page::ConfirmPage,
    form::Form,
    frame::Frame,
    link::{Paging, link},
    page_error::PageError,
    settings_form::{self, LIMITS, QUOTAS},
    show,
    stale_form::StaleForm,
    usage_panel::{UsageOf, UsagePanel},
    visit::{Answer, Visit, page, page_with, see_other},
};
use crate::admin::assets;

/// Tenants of one page.
const TENANTS_SHOWN: usize = 50;

#[derive(Template)]
#[template(path = "tenants.html")]
struct TenantListPage {
    frame: Frame,
    clock: Clock,
    list: TenantListView,
    search: String,
    paging: Paging,
}

#[derive(Template)]
#[template(path = "tenant_new.html")]
struct NewTenantPage {
    frame: Frame,
    form: Form,
}

#[derive(Template)]
#[template(path = "tenant.html")]
struct TenantPage {
    frame: Frame,
    clock: Clock,
    tenant: TenantView,
    may_change: bool,
    usage: UsagePanel,
    form: Form,
    stale: StaleForm,
}

/// The list of tenants.
pub(super) async fn list(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let search = visit.query.get("search").to_owned();
    let offset: usize = visit.query.get("offset").parse().unwrap_or(0);
    let list = ListTenants {
        search: (!search.is_empty()).then(|| search.clone()),
        offset,
        limit: Some(TENANTS_SHOWN),
    };
    let list = visit.run(list).await?;
    let place = (offset, list.tenants.len(), list.total);
    let to = |offset: usize| link("/tenants", &[("search", &search), ("offset", &offset)]);
    page(&TenantListPage {
        frame: visit.frame("/tenants"),
        clock: visit.clock,
        paging: Paging::new(place, TENANTS_SHOWN, to),
        list,
        search,
    })
}

/// The form that makes a tenant.
pub(super) fn new(visit: &Visit<'_>) -> Answer {
    new_with(visit, Form::default(), None)
}

fn new_with(visit: &Visit<'_>, form: Form, error: Option<PageError>) -> Answer {
    visit.check_admin()?;
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let frame = visit.frame("/tenants");
    let frame = frame.with_error(error.map(|error| error.to_string()));
    page_with(status, &NewTenantPage { frame, form })
}

/// Makes a tenant.
pub(super) async fn create(visit: &Visit<'_>) -> Answer {
    match try_create(visit).await {
        Ok(tenant) => Ok(see_other(&format!(
            "/tenants/{}?done=tenant-made",
            tenant.id
        ))),
        Err(error) => new_with(visit, visit.form.clone(), Some(error)),
    }
}

async fn try_create(visit: &Visit<'_>) -> Result<TenantView, PageError> {
    let create = CreateTenant {
        name: visit.form.required("name", "Name")?,
        limits: settings_form::limits(&visit.form)?,
    };
    visit.run(create).await
}

fn named(visit: &Visit<'_>) -> Result<TenantRef, PageError> {
    let id = visit.request.captured.parse();
    id.map_err(|_| PageError::unknown("There is no such tenant."))
}

async fn get(visit: &Visit<'_>) -> Result<TenantView, PageError> {
    visit.run(GetTenant { id: named(visit)? }).await
}

/// The page of one tenant.
pub(super) async fn show(visit: &Visit<'_>) -> Answer {
    show_with(visit, None).await
}

async fn show_with(visit: &Visit<'_>, error: Option<PageError>) -> Answer {
    visit.check_admin()?;
    let tenant = get(visit).await?;
    let path = format!("/tenants/{}", tenant.id);
    let usage = UsagePanel::load(visit, UsageOf::Tenant(tenant.id), &path).await?;
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let stored = settings_form::of_tenant(&tenant);
    let stale = StaleForm::new(
        &stored,
        &visit.form,
        tenant.version.as_ref(),
        error.as_ref(),
    );
    let form = match error {
        None => stored,
        Some(_) => visit.form.clone(),
    };
    let frame = visit.frame("/tenants");
    let page = TenantPage {
        frame: frame.with_error(error.map(|error| error.to_string())),
        clock: visit.clock,
        may_change: tenant.source == RecordSource::Stored,
        tenant,
        usage,
        form,
        stale,
    };
    page_with(status, &page)
}

/// Changes a tenant.
pub(super) async fn update(visit: &Visit<'_>) -> Answer {
    match try_update(visit).await {
        Ok(tenant) => Ok(see_other(&format!(
            "/tenants/{}?done=saved#settings",
            tenant.id
        ))),
        Err(error) => show_with(visit, Some(error)).await,
    }
}

async fn try_update(visit: &Visit<'_>) -> Result<TenantView, PageError> {
    let name: Name = visit.form.required("name", "Name")?;
    let update = UpdateTenant {
        id: named(visit)?,
        name: Some(name),
        limits: settings_form::limits(&visit.form)?,
        if_version: visit.form.optional("version", "Version")?,
    };
    visit.run(update).await
}

/// Most names in a sentence.
const NAMED: usize = 10;

/// The accounts and API tokens that are removed with a tenant, in words.
async fn holders(visit: &Visit<'_>, of: TenantId) -> Result<String, PageError> {
    let is_of = |tenant: &Option<TenantName>| tenant.as_ref().is_some_and(|one| one.id == of);
    let accounts = visit.run(ListAccounts {}).await?.accounts.into_iter();
    let accounts = accounts.filter(|account| is_of(&account.tenant));
    let accounts = accounts.map(|account| format!("the account {}", account.name));
    let tokens = visit.run(ListTokens {}).await?.tokens.into_iter();
    let tokens = tokens.filter(|token| is_of(&token.tenant));
    let tokens = tokens.map(|token| format!("the API token {}", token.name));
    let mut names: Vec<String> = accounts.chain(tokens).collect();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("{} more", show::count(&more)));
    }
    Ok(match names.is_empty() {
        true => "It has no accounts and no API tokens.".to_owned(),
        false => format!("These are removed, too: {}.", names.join(", ")),
    })
}

/// Asks before a tenant is removed.
pub(super) async fn confirm_removal(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let tenant = get(visit).await?;
    let keys = tenant.keys.active + tenant.keys.expired + tenant.keys.revoked;
    let plural = if keys == 1 { "key" } else { "keys" };
    page(&ConfirmPage {
        frame: visit.frame("/tenants"),
        title: format!("Remove {}", tenant.name),
        lead: format!(
            "The tenant {} is removed with {} {plural}; {} of them can be used now.",
            tenant.name,
            show::count(&keys),
            show::count(&tenant.keys.active),
        ),
        destroys: vec![
            "Requests with its keys are refused with 401 within a second, and their open sessions are closed.".to_owned(),
            holders(visit, tenant.id).await?,
            "This cannot be undone. The audit stays.".to_owned(),
        ],
        action: format!("/tenants/{}/remove", tenant.id),
        hidden: Vec::new(),
        choice: None,
        is_danger: true,
        button: "Remove the tenant and its keys".to_owned(),
        back: (format!("/tenants/{}", tenant.id), tenant.name.to_string()),
    })
}

/// Removes a tenant.
pub(super) async fn remove(visit: &Visit<'_>) -> Answer {
    visit.run(RemoveTenant { id: named(visit)? }).await?;
    Ok(see_other("/tenants?done=tenant-removed"))
}
