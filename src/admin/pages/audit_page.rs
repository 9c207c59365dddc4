use askama::Template;
use nearhead_tenants::administration::{AuditListView, ListAudit};

use super::{
    clock::Clock,
    frame::Frame,
    link::link,
    show,
    visit::{Answer, Visit, page},
};
use crate::admin::assets;

/// Entries of one page.
const ENTRIES_SHOWN: usize = 50;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    clock: Clock,
    list: AuditListView,
    query: Query,
    /// Address of the page with the newest entries.
    newest: String,
    /// Address of the next page.
    older: Option<String>,
}

/// What the address asks for.
struct Query {
    tenant: String,
    key: String,
    before: String,
}

impl Query {
    fn is_filtered(&self) -> bool {
        !(self.tenant.is_empty() && self.key.is_empty())
    }

    fn link(&self, before: &str) -> String {
        let parameters: [(&str, &dyn std::fmt::Display); 3] = [
            ("tenant", &self.tenant),
            ("key", &self.key),
            ("before", &before),
        ];
        link("/audit", &parameters)
    }
}

/// The audit.
pub(super) async fn show(visit: &Visit<'_>) -> Answer {
    let get = |name| visit.query.get(name).to_owned();
    let query = Query {
        tenant: get("tenant"),
        key: get("key"),
        before: get("before"),
    };
    let list = ListAudit {
        before: visit.query.optional("before", "Before")?,
        tenant: visit.query.optional("tenant", "Tenant")?,
        key: visit.query.optional("key", "Key")?,
        limit: Some(ENTRIES_SHOWN),
    };
    let list = visit.run(list).await?;
    page(&AuditPage {
        frame: visit.frame("/audit"),
        clock: visit.clock,
        newest: query.link(""),
        older: list.next.map(|next| query.link(&next.to_string())),
        list,
        query,
    })
}
