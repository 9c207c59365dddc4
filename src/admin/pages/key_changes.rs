//! Forms that make, rotate and revoke keys, and what stands beside them.

use actix_web::http::StatusCode;
use askama::Template;
use nearhead_tenants::{
    administration::{
        ChangedKeyView, CreateKey, ListTenants, NewKeyView, Patch, RecordSource, RemoveKey,
        RevokeKey, RotateKey, SecretRequest, SettingsPatch, Span, TENANT_LIST_MAX, TenantView,
        UpdateKey, Version,
    },
    id::KeyId,
    name::Name,
    public_key::{Algorithm, PublicKey},
};

use super::{
    confirm_page::{Choice, ConfirmPage},
    form::{Form, InvalidField},
    frame::Frame,
    key_page,
    made_page::MadePage,
    page_error::PageError,
    settings_form::{self, LISTS, QUOTAS},
    show,
    snippets::snippets,
    visit::{Answer, Visit, page, page_with, see_other},
};
use crate::admin::assets;

/// How long the old key may let clients in after a rotation.
const OVERLAPS: [(&str, &str); 6] = [
    ("0s", "not at all: it ends now"),
    ("10m", "10 minutes"),
    ("1h", "an hour"),
    ("1d", "a day"),
    ("7d", "a week"),
    ("30d", "30 days"),
];

#[derive(Template)]
#[template(path = "key_new.html")]
struct NewKeyPage {
    frame: Frame,
    tenants: Vec<TenantView>,
    form: Form,
}

/// The stored tenants, for a field that chooses one.
pub(super) async fn stored_tenants(visit: &Visit<'_>) -> Result<Vec<TenantView>, PageError> {
    let list = ListTenants {
        limit: Some(TENANT_LIST_MAX),
        ..ListTenants::default()
    };
    let mut tenants = visit.run(list).await?.tenants;
    tenants.retain(|tenant| tenant.source == RecordSource::Stored);
    Ok(tenants)
}

/// The form that makes a key.
pub(super) async fn new(visit: &Visit<'_>) -> Answer {
    let mut form = Form::default();
    form.set("tenant", visit.query.get("tenant"));
    new_with(visit, form, None).await
}

async fn new_with(visit: &Visit<'_>, form: Form, error: Option<PageError>) -> Answer {
    visit.check_admin()?;
    let status = error.as_ref().map_or(StatusCode::OK, |error| error.status);
    let frame = visit.frame("/keys");
    let tenants = stored_tenants(visit).await?;
    let frame = frame.with_error(error.map(|error| error.to_string()));
    let page = NewKeyPage {
        frame,
        tenants,
        form,
    };
    page_with(status, &page)
}

/// Makes a key, and shows it.
pub(super) async fn create(visit: &Visit<'_>) -> Answer {
    match try_create(visit).await {
        Ok(made) => show_made(visit, made, "The key is made"),
        Err(error) => new_with(visit, visit.form.clone(), Some(error)).await,
    }
}

async fn try_create(visit: &Visit<'_>) -> Result<NewKeyView, PageError> {
    let form = &visit.form;
    let create = CreateKey {
        tenant: form.required("tenant", "Tenant")?,
        name: form.required("name", "Name")?,
        expires: form.time("expires", "Expires")?,
        settings: settings_form::settings(form)?,
    };
    visit.run(create).await
}

fn show_made(visit: &Visit<'_>, made: NewKeyView, title: &str) -> Answer {
    let key = made.key.expose().to_owned();
    let mut secrets = vec![("Key", key.clone())];
    if let Some(secret) = &made.secret {
        secrets.push(("Secret", secret.expose().to_owned()));
    }
    page(&MadePage {
        frame: visit.frame("/keys"),
        title: format!("{title}: {}", made.view.name),
        lead: "Whoever has it can send requests, so give it to its owner alone.",
        secrets,
        back: ("/keys", "Keys"),
        next: (format!("/keys/{}", made.view.id), "Go to the key"),
        snippets: snippets(&visit.public_url(), &key),
    })
}

/// Asks before a key is rotated.
pub(super) async fn confirm_rotation(visit: &Visit<'_>) -> Answer {
    let key = key_page::get(visit).await?;
    page(&ConfirmPage {
        frame: visit.frame("/keys"),
        title: format!("Rotate {}", key.name),
        lead: format!(
            "A second key takes the place of {} ({}) of {}, with its name, settings and limits.",
            key.name,
            show::prefix(&key),
            key.tenant.name
        ),
        destroys: vec![
            "The new key is shown once. Give it to the clients.".to_owned(),
            "The old key lets clients in for as long as you choose, and its open sessions end then.".to_owned(),
            "A secret beside the key goes over to the new one.".to_owned(),
            "Both share one quota: what the old one uses counts for the new one.".to_owned(),
        ],
        action: format!("/keys/{}/rotate", key.id),
        hidden: Vec::new(),
        choice: Some(Choice {
            name: "overlap",
            label: "The old key still works for",
            hint: "Clients need this time to change to the new key.",
            options: &OVERLAPS,
            chosen: "1d",
        }),
        is_danger: false,
        button: "Rotate the key".to_owned(),
        back: (format!("/keys/{}", key.id), key.name.to_string()),
    })
}

/// Rotates a key, and shows the new one.
pub(super) async fn rotate(visit: &Visit<'_>) -> Answer {
    let rotate = RotateKey {
        id: key_page::id(visit)?,
        overlap: visit
            .form
            .optional::<Span>("overlap", "The old key still works for")?,
    };
    let made = visit.run(rotate).await?;
    show_made(visit, made, "The key is rotated")
}

/// Asks before a key is revoked.
pub(super) async fn confirm_revocation(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let key = key_page::get(visit).await?;
    page(&ConfirmPage {
        frame: visit.frame("/keys"),
        title: format!("Revoke {}", key.name),
        lead: format!(
            "The key {} ({}) of {} will let nobody in any more.",
            key.name,
            show::prefix(&key),
            key.tenant.name
        ),
        destroys: vec![
            "Requests with it are refused with 401 within a second.".to_owned(),
            "Its open WebSocket sessions are closed with code 4401.".to_owned(),
            "This cannot be undone. The key is removed 30 days later; its usage and its audit stay.".to_owned(),
        ],
        action: format!("/keys/{}/revoke", key.id),
        hidden: Vec::new(),
        choice: None,
        is_danger: true,
        button: "Revoke the key".to_owned(),
        back: (format!("/keys/{}", key.id), key.name.to_string()),
    })
}

/// Revokes a key.
pub(super) async fn revoke(visit: &Visit<'_>) -> Answer {
    let id = key_page::id(visit)?;
    visit.run(RevokeKey { id }).await?;
    Ok(see_other(&format!("/keys/{id}?done=revoked")))
}

/// Asks before an expired or revoked key is removed.
pub(super) async fn confirm_removal(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let key = key_page::get(visit).await?;
    page(&ConfirmPage {
        frame: visit.frame("/keys"),
        title: format!("Remove {}", key.name),
        lead: format!(
            "The key {} ({}) of {} is forgotten.",
            key.name,
            show::prefix(&key),
            key.tenant.name
        ),
        destroys: vec![
            "Its name, its settings, and when it was last used are gone, and so is this page."
                .to_owned(),
            "A key that expired cannot get a later end any more.".to_owned(),
            "This cannot be undone. What it used still counts for its tenant, and its audit stays."
                .to_owned(),
        ],
        action: format!("/keys/{}/remove", key.id),
        hidden: Vec::new(),
        choice: None,
        is_danger: true,
        button: "Remove the key".to_owned(),
        back: (format!("/keys/{}", key.id), key.name.to_string()),
    })
}

/// Removes an expired or revoked key.
pub(super) async fn remove(visit: &Visit<'_>) -> Answer {
    let id = key_page::id(visit)?;
    visit.run(RemoveKey { id }).await?;
    Ok(see_other("/keys?done=key-removed"))
}

async fn change(
    visit: &Visit<'_>,
    id: KeyId,
    settings: SettingsPatch,
    if_version: Option<Version>,
) -> Result<ChangedKeyView, PageError> {
    let update = UpdateKey {
        id,
        name: None,
        expires: Patch::Keep,
        settings,
        if_version,
    };
    visit.run(update).await
}

/// Makes a secret beside a key, and shows it.
pub(super) async fn make_secret(visit: &Visit<'_>) -> Answer {
    let id = key_page::id(visit)?;
    let settings = SettingsPatch {
        secret: Patch::Set(SecretRequest {
            required: visit.form.is_ticked("required"),
            exempts: visit.form.is_ticked("exempts"),
        }),
        ..SettingsPatch::default()
    };
    let version = visit.form.optional("version", "Version")?;
    let changed = match change(visit, id, settings, version).await {
        Err(error) if error.is_stale() => return key_page::show_with(visit, Some(error)).await,
        changed => changed?,
    };
    let secret = changed.secret.ok_or_else(PageError::internal)?;
    page(&MadePage {
        frame: visit.frame("/keys"),
        title: format!("The secret is made: {}", changed.view.name),
        lead: "It is presented beside the key: `curl -u :SECRET`, or `Authorization: Bearer SECRET`.",
        secrets: vec![("Secret", secret.expose().to_owned())],
        back: ("/keys", "Keys"),
        next: (format!("/keys/{id}"), "Go to the key"),
        snippets: Vec::new(),
    })
}

/// Asks before the secret beside a key is removed.
pub(super) async fn confirm_no_secret(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let key = key_page::get(visit).await?;
    page(&ConfirmPage {
        frame: visit.frame("/keys"),
        title: format!("Remove the secret of {}", key.name),
        lead: format!("The secret beside the key {} of {} is forgotten.", key.name, key.tenant.name),
        destroys: vec![
            "Clients that present it are served as those without it: the origin and user agent lists hold for them, too.".to_owned(),
            "Open sessions that presented it are closed.".to_owned(),
        ],
        action: format!("/keys/{}/secret/remove", key.id),
        hidden: Vec::new(),
        choice: None,
        is_danger: true,
        button: "Remove the secret".to_owned(),
        back: (format!("/keys/{}", key.id), key.name.to_string()),
    })
}

/// Removes the secret beside a key.
pub(super) async fn remove_secret(visit: &Visit<'_>) -> Answer {
    let id = key_page::id(visit)?;
    let settings = SettingsPatch {
        secret: Patch::Remove,
        ..SettingsPatch::default()
    };
    change(visit, id, settings, None).await?;
    Ok(see_other(&format!("/keys/{id}?done=secret-removed#secret")))
}

/// Adds a public key.
pub(super) async fn add_public_key(visit: &Visit<'_>) -> Answer {
    let id = key_page::id(visit)?;
    match try_add_public_key(visit, id).await {
        Ok(()) => Ok(see_other(&format!("/keys/{id}?done=saved#public-keys"))),
        Err(error) => key_page::show_with(visit, Some(error)).await,
    }
}

async fn try_add_public_key(visit: &Visit<'_>, id: KeyId) -> Result<(), PageError> {
    let form = &visit.form;
    let algorithm = match form.get("algorithm") {
        "ES256" => Algorithm::Es256,
        "RS256" => Algorithm::Rs256,
        _ => return Err(InvalidField::new("Algorithm", "ES256 or RS256").into()),
    };
    let added = PublicKey {
        kid: form.required("kid", "kid")?,
        algorithm,
        pem: form.get("pem").to_owned(),
    };
    let key = key_page::get(visit).await?;
    let mut public_keys = key.settings.public_keys;
    if public_keys.iter().any(|other| other.kid == added.kid) {
        return Err(InvalidField::new("kid", "another public key of this key has it").into());
    }
    public_keys.push(added);
    set_public_keys(visit, id, public_keys, key.version).await
}

async fn set_public_keys(
    visit: &Visit<'_>,
    id: KeyId,
    public_keys: Vec<PublicKey>,
    read: Option<Version>,
) -> Result<(), PageError> {
    let settings = SettingsPatch {
        public_keys: Some(public_keys),
        ..SettingsPatch::default()
    };
    change(visit, id, settings, read).await.map(drop)
}

/// Asks before a public key is removed.
pub(super) async fn confirm_no_public_key(visit: &Visit<'_>) -> Answer {
    visit.check_admin()?;
    let key = key_page::get(visit).await?;
    let kid = visit.query.get("kid");
    let last = key.settings.public_keys.len() == 1;
    page(&ConfirmPage {
        frame: visit.frame("/keys"),
        title: format!("Remove the public key {kid}"),
        lead: format!(
            "Tokens for the key {} of {} that name {kid} are refused from now on.",
            key.name, key.tenant.name
        ),
        destroys: match last {
            true => vec!["It is the only public key: clients need no token any more.".to_owned()],
            false => Vec::new(),
        },
        action: format!("/keys/{}/public-keys/remove", key.id),
        hidden: vec![("kid", kid.to_owned())],
        choice: None,
        is_danger: true,
        button: "Remove the public key".to_owned(),
        back: (format!("/keys/{}", key.id), key.name.to_string()),
    })
}

/// Removes a public key.
pub(super) async fn remove_public_key(visit: &Visit<'_>) -> Answer {
    let id = key_page::id(visit)?;
    let kid: Name = visit.form.required("kid", "kid")?;
    let key = key_page::get(visit).await?;
    let mut public_keys = key.settings.public_keys;
    public_keys.retain(|other| other.kid != kid);
    set_public_keys(visit, id, public_keys, key.version).await?;
    Ok(see_other(&format!("/keys/{id}?done=saved#public-keys")))
}
