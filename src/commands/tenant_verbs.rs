//! What `nearhead tenant` does.

use nearhead_tenants::{
    UnixMillis,
    administration::{
        CreateTenant, GetTenant, RecordSource, RemoveTenant, TenantListView, TenantView,
        UpdateTenant,
    },
};

use super::{
    Failure,
    command_line::tenant::TenantAction,
    connection::now,
    key_text::{more, rate, units_per_day},
    run::{Run, is_sure},
    table::{Align, Table, count, facts, number},
    time_text::{exact, exact_or_never, relative_or_never},
};

impl Run<'_> {
    /// Does it.
    pub(super) fn tenant(&mut self, action: TenantAction) -> Result<(), Failure> {
        let view = match action {
            TenantAction::Create { name, change } => self.call(CreateTenant {
                name,
                limits: change.limits,
            })?,
            TenantAction::List(list) => {
                let offset = list.offset;
                let view = self.call(list)?;
                return self.answer(&view, |view| tenants(view, offset, now()));
            }
            TenantAction::Show(id) => self.call(GetTenant { id })?,
            TenantAction::Limit { tenant, change } => self.call(UpdateTenant {
                id: tenant,
                name: change.name,
                limits: change.limits,
                if_version: None,
            })?,
            TenantAction::Remove {
                tenant,
                is_sure: is_sure_already,
            } => {
                let view = self.call(GetTenant { id: tenant })?;
                let keys = view.keys.active + view.keys.expired + view.keys.revoked;
                let (name, keys) = (&view.name, count(keys, "key"));
                is_sure(is_sure_already, || {
                    format!(
                        "Remove the tenant {name}, for good, with {keys} and its accounts? Its \
                         sessions end."
                    )
                })?;
                let id = view.id.into();
                self.call(RemoveTenant { id })?;
                self.done(&format!("removed {name} with {keys}"));
                return Ok(());
            }
        };
        self.answer(&view, |view| tenant(view, now()))
    }
}

/// A tenant, with all that it may do.
fn tenant(view: &TenantView, now: UnixMillis) -> String {
    let TenantView { keys, limits, .. } = view;
    let source = "the configuration: it changes only there";
    let is_stored = view.source == RecordSource::Stored;
    let keys = format!(
        "{} active, {} expired, {} revoked",
        number(keys.active as u64),
        number(keys.expired as u64),
        number(keys.revoked as u64)
    );
    facts([
        ("id", Some(view.id.to_string())),
        ("name", Some(view.name.to_string())),
        ("source", (!is_stored).then(|| source.to_owned())),
        ("created", view.created.map(|at| exact(at, now))),
        ("keys", Some(keys)),
        ("requests", limits.quota.requests.map(rate)),
        ("units", limits.quota.units.map(rate)),
        ("units a day", units_per_day(&limits.quota)),
        ("sessions", limits.sessions.map(number)),
        ("subscriptions", limits.subscriptions.map(number)),
        ("weight", Some(number(limits.weight.get()))),
        ("last used", Some(exact_or_never(view.last_used, now))),
    ])
}

/// A page of tenants.
fn tenants(view: &TenantListView, offset: usize, now: UnixMillis) -> String {
    if view.tenants.is_empty() {
        return match view.total {
            0 => "There are no such tenants. `nearhead tenant create NAME` makes one.\n".to_owned(),
            total => format!(
                "There are {} tenants, so none at that offset.\n",
                number(total as u64)
            ),
        };
    }
    let mut table = Table::new([
        ("id", Align::Left),
        ("name", Align::Left),
        ("active keys", Align::Right),
        ("requests/s", Align::Right),
        ("units/s", Align::Right),
        ("units a day", Align::Right),
        ("sessions", Align::Right),
        ("weight", Align::Right),
        ("last used", Align::Left),
    ]);
    let or_none = |limit: Option<String>| limit.unwrap_or_else(|| "-".to_owned());
    for tenant in &view.tenants {
        let limits = &tenant.limits;
        let quota = &limits.quota;
        table.row([
            tenant.id.to_string(),
            tenant.name.to_string(),
            number(tenant.keys.active as u64),
            or_none(quota.requests.map(|rate| number(rate.per_second.get()))),
            or_none(quota.units.map(|rate| number(rate.per_second.get()))),
            or_none(units_per_day(quota)),
            or_none(limits.sessions.map(number)),
            number(limits.weight.get()),
            relative_or_never(tenant.last_used, now),
        ]);
    }
    table.text() + &more(view.tenants.len(), offset, view.total)
}
