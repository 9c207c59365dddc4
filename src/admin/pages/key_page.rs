use actix_web::http::StatusCode;
use askama::Template;
use nearhead_tenants::{
    administration::{GetKey, KeyView, Patch, RecordSource, UpdateKey},
    id::KeyId,
    name::Name,
    record::KeyState,
};

use super::{
    clock::Clock,
    form::{Form, time_field},
    frame::Frame,
    page_error::PageError,
    settings_form::{self, LISTS, QUOTAS},
    show,
    snippets::{Snippet, snippets},
    stale_form::StaleForm,
    usage_panel::{UsageOf, UsagePanel},
    visit::{Answer, Visit, page_with, see_other},
};
use crate::admin::assets;

/// What stands for a key that is not known in the examples.
const PLACEHOLDER: &str = "<API_KEY>";

#[derive(Template)]
#[template(path = "key.html")]
struct KeyPage {
    frame: Frame,
    clock: Clock,
    key: KeyView,
    is_configured: bool,
    may_change: bool,
    may_rotate: bool,
    may_remove: bool,
    /// Why it lets nobody in, or not for long.
    standing: Option<&'static str>,
    usage: UsagePanel,
    /// None if it lets nobody in.
    snippets: Vec<Snippet>,
    form: Form,
    stale: StaleForm,
    secret_is_required: bool,
    secret_exempts: bool,
    /// What it is narrowed to, for those who cannot change it.
    settings: Vec<(&'static str, String)>,
}

/// The key that the path names.
pub(super) fn id(visit: &Visit<'_>) -> Result<KeyId, PageError> {
    let id = visit.request.captured.parse();
    id.map_err(|_| PageError::unknown("There is no such key."))
}

/// The key that the path names.
pub(super) async fn get(visit: &Visit<'_>) -> Result<KeyView, PageError> {
    visit.run(GetKey { id: id(visit)? }).await
}

/// The page of one key.
pub(super) async fn show(visit: &Visit<'_>) -> Answer {
    show_with(visit, None).await
}

/// The page of one key, with what somebody typed and what is wrong with it.
pub(super) async fn show_with(visit: &Visit<'_>, error: Option<PageError>) -> Answer {
    let key = get(visit).await?;
    let usage = UsagePanel::load(visit, UsageOf::Key(key.id), &format!("/keys/{}", key.id)).await?;
    let frame = visit.frame("/keys");
    let is_configured = key.source == RecordSource::Configured;
    let may_change = frame.is_admin && !is_configured && key.state != KeyState::Revoked;
    let mut form = settings_form::of_key(&key);
    let stale = StaleForm::new(&form, &visit.form, key.version.as_ref(), error.as_ref());
    if error.is_some() {
        // What was typed comes first; what was not on that form stays as it is.
        form = visit.form.over(form);
    }
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let secret = key.settings.secret;
    page_with(
        status,
        &KeyPage {
            clock: visit.clock,
            is_configured,
            may_change,
            may_rotate: !is_configured
                && key.state == KeyState::Active
                && key.replaced_by.is_none(),
            may_remove: frame.is_admin && !is_configured && key.state != KeyState::Active,
            standing: standing(&key),
            usage,
            snippets: match key.state {
                KeyState::Active => snippets(&visit.public_url(), PLACEHOLDER),
                KeyState::Expired | KeyState::Revoked => Vec::new(),
            },
            form,
            stale,
            secret_is_required: secret.is_some_and(|secret| secret.required),
            secret_exempts: secret.is_some_and(|secret| secret.exempts),
            settings: settings_form::described(&key),
            frame: frame.with_error(error.map(|error| error.to_string())),
            key,
        },
    )
}

fn standing(key: &KeyView) -> Option<&'static str> {
    match (key.state, key.replaced_by) {
        (KeyState::Revoked, _) => {
            Some("This key was revoked: it lets nobody in any more, and is removed 30 days later.")
        }
        (KeyState::Expired, _) => Some(
            "This key has expired: it lets nobody in. Let it expire later, and it lets clients in again. It is removed 30 days after its end.",
        ),
        (KeyState::Active, Some(_)) => Some(
            "This key was rotated: it lets clients in until it expires, so that they can change to its successor.",
        ),
        (KeyState::Active, None) => None,
    }
}

/// Changes name, end and settings.
pub(super) async fn update(visit: &Visit<'_>) -> Answer {
    let id = id(visit)?;
    match try_update(visit, id).await {
        Ok(()) => Ok(see_other(&format!("/keys/{id}?done=saved#settings"))),
        Err(error) => show_with(visit, Some(error)).await,
    }
}

async fn try_update(visit: &Visit<'_>, id: KeyId) -> Result<(), PageError> {
    let form = &visit.form;
    let name: Name = form.required("name", "Name")?;
    // The field has minutes, and the end may have seconds.
    let shown = get(visit).await?.expires.map(time_field);
    let is_same = shown.unwrap_or_default() == form.get("expires");
    let update = UpdateKey {
        id,
        name: Some(name),
        expires: match is_same {
            true => Patch::Keep,
            false => Patch::of(form.time("expires", "Expires")?),
        },
        settings: settings_form::settings(form)?,
        if_version: form.optional("version", "Version")?,
    };
    visit.run(update).await.map(drop)
}
