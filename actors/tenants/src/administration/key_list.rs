use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{
    AdminError, Administration, KeySort, KeyView, Operation, Requester, TenantRef,
    key_rows::{KeyRows, RowQuery},
};
use crate::record::KeyState;

/// Most keys of one page of a list.
pub const KEY_LIST_MAX: usize = 500;

/// Lists keys. Holders see those of their tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListKeys {
    /// Only those of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantRef>,
    /// Only those that have this in their name or their tenant's, in upper or lower case, or that
    /// begin with it, or whose id does; of an id, at least four digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Only those in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<KeyState>,
    /// By what they are sorted.
    pub sort: KeySort,
    /// Whether the last one comes first.
    pub descending: bool,
    /// How many are left out before the first one.
    pub offset: usize,
    /// Most keys of the answer; [`KEY_LIST_MAX`] if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A page of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyListView {
    /// The keys.
    pub keys: Vec<KeyView>,
    /// How many there are on all pages.
    pub total: usize,
}

impl Operation for ListKeys {
    type Answer = KeyListView;

    const READS_USAGE: bool = true;

    fn needs_recent_use(&self) -> bool {
        self.sort == KeySort::Requests24h
    }

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<KeyListView, AdminError> {
        let limit = list_limit(self.limit, KEY_LIST_MAX)?;
        let own = by.own_tenant()?;
        let tenant = match &self.tenant {
            Some(named) => Some(administration.tenant(named, by)?.id),
            None => own,
        };
        let search = self.search.as_deref().map(str::trim);
        let search = search.filter(|search| !search.is_empty());
        let lower = search.map(str::to_lowercase);
        let query = RowQuery {
            tenant,
            search: lower.as_deref().zip(search),
            state: self.state,
            sort: self.sort,
            descending: self.descending,
            offset: self.offset,
            limit,
            now: by.now,
        };
        administration.listed_at = by.now;
        let (ids, total, used) = match self.sort {
            KeySort::Requests24h => {
                administration.rows();
                administration.find_recent_use(by.now)?;
                let Administration { rows, recent, .. } = &*administration;
                let recent = recent.known(by.now);
                let used = |id| recent.and_then(|all| all.get(&id)).copied();
                let requests = |id| used(id).map_or(0, |used| used.requests);
                let rows = rows.as_ref();
                let page = rows.map(|rows| rows.page(&query, requests));
                let (ids, total) = page.unwrap_or_default();
                // The numbers by which they are sorted.
                let used = ids.iter().filter_map(|id| Some((*id, used(*id)?)));
                let used: HashMap<_, _> = used.collect();
                (ids, total, used)
            }
            _ => {
                let (ids, total) = administration.rows().page(&query, |_| 0);
                let used = administration.last_24h(ids.clone(), by.now)?;
                (ids, total, used)
            }
        };
        let views = ids.into_iter().filter_map(|id| {
            let view = administration.bare_key_view(id, by)?;
            let last24h = used.get(&id).copied().unwrap_or_default();
            Some(KeyView { last24h, ..view })
        });
        let keys = views.collect();
        Ok(KeyListView { keys, total })
    }
}

/// The length of a page.
pub(super) fn list_limit(limit: Option<usize>, most: usize) -> Result<usize, AdminError> {
    match limit {
        None => Ok(most),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(_) => {
            let reason = format!("a page has 1 to {most} entries");
            Err(AdminError::invalid("limit", reason))
        }
    }
}

impl Administration {
    /// The table of all keys.
    pub(super) fn rows(&mut self) -> &KeyRows {
        if self.rows.is_none() {
            self.rows = Some(self.make_rows());
        }
        self.rows.get_or_insert_default()
    }

    fn make_rows(&self) -> KeyRows {
        let mut rows =
            KeyRows::with_capacity(self.directory.keys().len() + self.configured.keys().len());
        for key in self.directory.keys() {
            let tenant = self.directory.tenant(key.tenant);
            let tenant = tenant.map_or("", |tenant| tenant.name.as_str());
            rows.add_stored(key, tenant, self.last_used.get(&key.id).copied());
        }
        for entry in self.configured.keys() {
            let tenant = self.configured_tenant(&entry.tenant);
            rows.add_configured(entry, tenant, self.last_used.get(&entry.id).copied());
        }
        rows
    }
}
