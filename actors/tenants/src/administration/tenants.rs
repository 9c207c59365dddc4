use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    AdminError, Administration, LimitsPatch, Operation, RecordSource, Requester, TenantName,
    TenantRef, Version, key_list::list_limit, keys::check_version, requester::detail,
};
use crate::{
    UnixMillis, audit::Detail, command::Command, id::TenantId, limits::TenantLimits, name::Name,
    record::KeyState,
};

/// Most tenants of one page of a list.
pub const TENANT_LIST_MAX: usize = 500;

/// Lists tenants, sorted by name. Holders see their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListTenants {
    /// Only those whose name has this in it, in upper or lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// How many are left out before the first one.
    pub offset: usize,
    /// Most tenants of the answer; [`TENANT_LIST_MAX`] if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Looks up a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetTenant {
    /// Which one.
    pub id: TenantRef,
}

/// Makes a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTenant {
    /// Its name; no other tenant has it.
    pub name: Name,
    /// What it may do.
    #[serde(default)]
    pub limits: LimitsPatch,
}

/// Changes a tenant. What is absent stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateTenant {
    /// Which one.
    pub id: TenantRef,
    /// Its new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// What it may do.
    #[serde(default)]
    pub limits: LimitsPatch,
    /// Nothing changes unless the tenant is still this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_version: Option<Version>,
}

/// Removes a tenant with its keys, and its holders with their API tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoveTenant {
    /// Which one.
    pub id: TenantRef,
}

/// A page of tenants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantListView {
    /// The tenants.
    pub tenants: Vec<TenantView>,
    /// How many there are on all pages.
    pub total: usize,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantView {
    /// Identifies it.
    pub id: TenantId,
    /// Its name.
    pub name: Name,
    /// When it was made; `None` if only the configuration names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<UnixMillis>,
    /// What it may do, within what the service allows every tenant.
    pub limits: TenantLimits,
    /// How many keys it has.
    pub keys: KeyCounts,
    /// Its version; `None` if only the configuration names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// When one of its keys was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<UnixMillis>,
    /// Whether it is stored, or only configured and so cannot be changed here.
    pub source: RecordSource,
}

/// How many keys there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyCounts {
    /// Those that let clients in.
    pub active: usize,
    /// Those whose time is over.
    pub expired: usize,
    /// Those that were revoked.
    pub revoked: usize,
}

impl Operation for ListTenants {
    type Answer = TenantListView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<TenantListView, AdminError> {
        let limit = list_limit(self.limit, TENANT_LIST_MAX)?;
        let own = by.own_tenant()?;
        let mut found = administration.all_tenants();
        found.retain(|tenant| own.is_none_or(|own| tenant.id == own));
        if let Some(search) = &self.search {
            let search = search.to_lowercase();
            found.retain(|tenant| tenant.name.as_str().to_lowercase().contains(&search));
        }
        found.sort_by_cached_key(|tenant| (tenant.name.as_str().to_lowercase(), tenant.id));
        let total = found.len();
        let page: Vec<_> = found.into_iter().skip(self.offset).take(limit).collect();
        let tenants = administration.tenant_views(page, by.now);
        Ok(TenantListView { tenants, total })
    }
}

impl Operation for GetTenant {
    type Answer = TenantView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<TenantView, AdminError> {
        by.role()?;
        let tenant = administration.tenant(&self.id, by)?;
        administration.tenant_view(tenant, by)
    }
}

impl Operation for CreateTenant {
    type Answer = TenantView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<TenantView, AdminError> {
        by.check_admin()?;
        let Self { name, limits } = self;
        let limits = limits.apply(TenantLimits::default());
        let id = TenantId::generate()?;
        let detail = detail(&[("name", json!(name)), ("limits", json!(limits))]);
        let tenant = TenantName {
            id,
            name: name.clone(),
        };
        administration.run_command(Command::CreateTenant { id, name, limits }, detail, by)?;
        administration.tenant_view(tenant, by)
    }
}

impl Operation for UpdateTenant {
    type Answer = TenantView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<TenantView, AdminError> {
        by.check_admin()?;
        let tenant = administration.stored_tenant(&self.id, by)?;
        let before = administration.directory.tenant(tenant.id);
        if let Some(before) = before {
            check_version(&**before, self.if_version.as_ref())?;
        }
        let before = before.map(|tenant| tenant.limits).unwrap_or_default();
        let limits = self.limits.apply(before);
        let name = self.name.unwrap_or(tenant.name);
        let id = tenant.id;
        let tenant = TenantName {
            id,
            name: name.clone(),
        };
        let command = Command::UpdateTenant { id, name, limits };
        administration.run_command(command, Detail::default(), by)?;
        administration.tenant_view(tenant, by)
    }
}

impl Operation for RemoveTenant {
    type Answer = ();

    fn run(self, administration: &mut Administration, by: &Requester) -> Result<(), AdminError> {
        by.check_admin()?;
        let TenantName { id, name } = administration.stored_tenant(&self.id, by)?;
        let keys = administration.directory.keys();
        let keys = keys.filter(|key| key.tenant == id).count();
        let detail = detail(&[("name", json!(name)), ("keys", json!(keys))]);
        administration.run_command(Command::RemoveTenant { id }, detail, by)
    }
}

impl Administration {
    /// All tenants, stored and configured.
    fn all_tenants(&self) -> Vec<TenantName> {
        let stored = self.directory.tenants().map(|tenant| TenantName {
            id: tenant.id,
            name: tenant.name.clone(),
        });
        let mut all: Vec<_> = stored.collect();
        let configured = self.configured.tenants().cloned();
        let only_configured = configured.filter_map(|name| {
            let is_stored = self.directory.tenant_named(name.as_str()).is_some();
            let id = self.configured.tenant_id(&name);
            (!is_stored).then_some(TenantName { id, name })
        });
        all.extend(only_configured);
        all
    }

    fn tenant_view(&self, tenant: TenantName, by: &Requester) -> Result<TenantView, AdminError> {
        let named = tenant.name.to_string();
        let view = self.tenant_views(vec![tenant], by.now).pop();
        view.ok_or(AdminError::NoTenant(named))
    }

    /// The views of tenants: their keys are counted in one pass over all keys.
    fn tenant_views(&self, tenants: Vec<TenantName>, now: UnixMillis) -> Vec<TenantView> {
        let places = tenants.iter().enumerate();
        let places: HashMap<_, _> = places.map(|(place, tenant)| (tenant.id, place)).collect();
        let mut views: Vec<_> = tenants
            .into_iter()
            .map(|tenant| self.bare(tenant))
            .collect();
        let mut count = |tenant, key, state| {
            let view = places.get(&tenant).and_then(|place| views.get_mut(*place));
            if let Some(view) = view {
                *match state {
                    KeyState::Active => &mut view.keys.active,
                    KeyState::Expired => &mut view.keys.expired,
                    KeyState::Revoked => &mut view.keys.revoked,
                } += 1;
                view.last_used = view.last_used.max(self.last_used.get(&key).copied());
            }
        };
        for key in self.directory.keys() {
            count(key.tenant, key.id, key.state(now));
        }
        for entry in self.configured.keys() {
            let tenant = self.configured_tenant(&entry.tenant);
            count(tenant, entry.id, KeyState::Active);
        }
        views
    }

    /// The view of a tenant without keys.
    fn bare(&self, TenantName { id, name }: TenantName) -> TenantView {
        let stored = self.directory.tenant(id);
        TenantView {
            id,
            name,
            created: stored.map(|tenant| tenant.created),
            limits: stored.map(|tenant| tenant.limits).unwrap_or_default(),
            keys: KeyCounts::default(),
            version: stored.map(|tenant| Version::of(&**tenant)),
            last_used: None,
            source: match stored {
                Some(_) => RecordSource::Stored,
                None => RecordSource::Configured,
            },
        }
    }
}
