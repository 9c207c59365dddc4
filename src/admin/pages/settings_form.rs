//! The fields of a form that narrow a key or limit a tenant.

use std::{
    fmt::Display,
    num::{NonZeroU32, NonZeroU64},
    str::FromStr,
};

use nearhead_tenants::{
    administration::{
        AllowPatch, KeyView, LimitsPatch, Patch, QuotaPatch, RateRequest, SettingsPatch, TenantView,
    },
    allowlists::Entries,
    limits::{Quota, Rate, Weight},
};

use super::{
    form::{Form, InvalidField, time_field},
    show,
};

/// A field with one entry a line.
pub(super) struct ListField {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) example: &'static str,
    pub(super) hint: &'static str,
}

/// A field with a number.
pub(super) struct NumberField {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    /// Smallest number.
    pub(super) min: u32,
    /// What is shown in an empty field.
    pub(super) empty: &'static str,
}

/// The allowlists of a key.
pub(super) const LISTS: [ListField; 5] = [
    ListField {
        name: "origins",
        label: "Origins",
        example: "https://app.example.org",
        hint: "Pages of these sites. https://*.example.org is every name below example.org.",
    },
    ListField {
        name: "userAgents",
        label: "User agents",
        example: "my-indexer/",
        hint: "A part of the header, in upper or lower case.",
    },
    ListField {
        name: "methods",
        label: "Methods",
        example: "eth_getLogs",
        hint: "Only these may be called.",
    },
    ListField {
        name: "contracts",
        label: "Contract addresses",
        example: "0xdac17f958d2ee523a2206206994597c13d831ec7",
        hint: "Calls that name another address, or none where one is needed, are refused.",
    },
    ListField {
        name: "networks",
        label: "IP networks",
        example: "203.0.113.0/24",
        hint: "Where clients are: an address, or a network with its prefix length.",
    },
];

const fn number(
    name: &'static str,
    label: &'static str,
    hint: &'static str,
    min: u32,
    empty: &'static str,
) -> NumberField {
    NumberField {
        name,
        label,
        hint,
        min,
        empty,
    }
}

const NO_LIMIT: &str = "no limit";
const ONE_SECOND: &str = "one second’s worth";

/// The quotas of a key or a tenant.
pub(super) const QUOTAS: [NumberField; 5] = [
    number(
        "requests",
        "Requests a second",
        "More are refused with 429.",
        1,
        NO_LIMIT,
    ),
    number(
        "requestsBurst",
        "Requests at once",
        "How many may come in a burst.",
        1,
        ONE_SECOND,
    ),
    number(
        "unitsPerDay",
        "Units a day",
        "Reset at 00:00 UTC; more are refused with 402.",
        1,
        NO_LIMIT,
    ),
    number(
        "units",
        "Units a second",
        "Each method has a price in units.",
        1,
        NO_LIMIT,
    ),
    number(
        "unitsBurst",
        "Units at once",
        "How many may come in a burst.",
        1,
        ONE_SECOND,
    ),
];

/// The further limits of a tenant.
pub(super) const LIMITS: [NumberField; 3] = [
    number(
        "sessions",
        "WebSocket sessions",
        "That may be open at once.",
        0,
        "as the service says",
    ),
    number(
        "subscriptions",
        "Subscriptions",
        "Of all its sessions.",
        0,
        NO_LIMIT,
    ),
    number(
        "weight",
        "Weight",
        "Its share under load, relative to other tenants: 1 to 1000.",
        1,
        "1",
    ),
];

/// A form with what a key has.
pub(super) fn of_key(key: &KeyView) -> Form {
    fn lines<T: Display>(entries: &Entries<T>) -> String {
        let lines: Vec<String> = entries.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }
    let mut form = Form::default();
    form.set("name", &key.name);
    form.set_some("expires", key.expires.map(time_field));
    let allow = &key.settings.allow;
    form.set("origins", lines(&allow.origins));
    form.set("userAgents", lines(&allow.user_agents));
    form.set("methods", lines(&allow.methods));
    form.set("contracts", lines(&allow.contracts));
    form.set("networks", lines(&allow.networks));
    set_quota(&mut form, &key.settings.quota);
    form
}

/// A form with what a tenant has.
pub(super) fn of_tenant(tenant: &TenantView) -> Form {
    let mut form = Form::default();
    form.set("name", &tenant.name);
    set_quota(&mut form, &tenant.limits.quota);
    form.set_some("sessions", tenant.limits.sessions);
    form.set_some("subscriptions", tenant.limits.subscriptions);
    form.set("weight", tenant.limits.weight);
    form
}

fn set_quota(form: &mut Form, quota: &Quota) {
    let burst = |rate: Rate| (rate.burst != rate.per_second).then_some(rate.burst);
    form.set_some("requests", quota.requests.map(|rate| rate.per_second));
    form.set_some("requestsBurst", quota.requests.and_then(burst));
    form.set_some("units", quota.units.map(|rate| rate.per_second));
    form.set_some("unitsBurst", quota.units.and_then(burst));
    form.set_some("unitsPerDay", quota.units_per_day);
}

/// What the form makes of a key's settings. What it has no field for stays as it is.
pub(super) fn settings(form: &Form) -> Result<SettingsPatch, InvalidField> {
    fn list<T>(form: &Form, index: usize) -> Result<Patch<Entries<T>>, InvalidField>
    where
        T: FromStr<Err: Display> + PartialEq,
    {
        let ListField { name, label, .. } = LISTS[index];
        let entries = Entries::try_from(form.lines(name, label)?)
            .map_err(|error| InvalidField::new(label, error))?;
        Ok(Patch::Set(entries))
    }
    Ok(SettingsPatch {
        allow: AllowPatch {
            origins: list(form, 0)?,
            user_agents: list(form, 1)?,
            methods: list(form, 2)?,
            contracts: list(form, 3)?,
            networks: list(form, 4)?,
        },
        quota: quota(form)?,
        ..SettingsPatch::default()
    })
}

/// What the form makes of a tenant's limits.
pub(super) fn limits(form: &Form) -> Result<LimitsPatch, InvalidField> {
    let most = |name: &str, label| form.optional::<u32>(name, label).map(Patch::of);
    Ok(LimitsPatch {
        quota: quota(form)?,
        sessions: most("sessions", "WebSocket sessions")?,
        subscriptions: most("subscriptions", "Subscriptions")?,
        weight: Patch::of(form.number::<Weight>("weight", "Weight")?),
    })
}

fn quota(form: &Form) -> Result<QuotaPatch, InvalidField> {
    let rate = |name: &str, burst: &str, [label, burst_label]: [&'static str; 2]| {
        let per_second = form.number::<NonZeroU32>(name, label)?;
        let burst = form.number::<NonZeroU32>(burst, burst_label)?;
        if let (None, Some(_)) = (per_second, burst) {
            let reason = "a burst needs a rate a second: fill that in, too";
            return Err(InvalidField::new(burst_label, reason));
        }
        Ok(Patch::of(
            per_second.map(|per_second| RateRequest { per_second, burst }),
        ))
    };
    Ok(QuotaPatch {
        requests: rate(
            "requests",
            "requestsBurst",
            ["Requests a second", "Requests at once"],
        )?,
        units: rate("units", "unitsBurst", ["Units a second", "Units at once"])?,
        units_per_day: Patch::of(form.number::<NonZeroU64>("unitsPerDay", "Units a day")?),
    })
}

/// Name and value of what a key is narrowed to, for those who cannot change it.
pub(super) fn described(key: &KeyView) -> Vec<(&'static str, String)> {
    let form = of_key(key);
    let or = |name: &str, otherwise: &str| match form.get(name) {
        "" => otherwise.to_owned(),
        text => text.lines().collect::<Vec<_>>().join(", "),
    };
    let lists = LISTS.iter().map(|list| (list.label, or(list.name, "all")));
    let quotas = QUOTAS.iter().filter(|quota| !quota.name.ends_with("Burst"));
    let quotas = quotas.map(|quota| {
        let number = form.get(quota.name).parse::<u64>().ok();
        let text = number.map_or_else(|| "no limit of its own".to_owned(), |it| show::count(&it));
        (quota.label, text)
    });
    lists.chain(quotas).collect()
}
