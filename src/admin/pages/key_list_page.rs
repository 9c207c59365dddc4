use askama::Template;
use nearhead_tenants::{
    administration::{KeyListView, KeySort, ListKeys},
    record::KeyState,
};

use super::{
    clock::Clock,
    form::Form,
    frame::Frame,
    link::{Paging, link},
    show,
    visit::{Answer, Visit, page},
};
use crate::admin::assets;

/// Keys of one page.
const KEYS_SHOWN: usize = 50;

/// The states that may be chosen, and their names.
const STATES: [(&str, &str); 4] = [
    ("", "Any"),
    ("active", "Active"),
    ("expired", "Expired"),
    ("revoked", "Revoked"),
];

/// A column of the list.
struct ColumnKind {
    name: &'static str,
    is_number: bool,
    /// How the list is sorted by it, if that is possible.
    sort: Option<Sort>,
}

/// An order of the list.
#[derive(Clone, Copy, Debug)]
struct Sort {
    /// Its name in addresses.
    word: &'static str,
    by: KeySort,
    /// Whether the largest comes first, until somebody turns it around.
    largest_first: bool,
}

const fn plain(name: &'static str, is_number: bool) -> ColumnKind {
    ColumnKind {
        name,
        is_number,
        sort: None,
    }
}

const fn sorted(name: &'static str, word: &'static str, by: KeySort) -> ColumnKind {
    let largest_first = matches!(by, KeySort::LastUsed | KeySort::Requests24h);
    ColumnKind {
        name,
        is_number: matches!(by, KeySort::Requests24h),
        sort: Some(Sort {
            word,
            by,
            largest_first,
        }),
    }
}

const COLUMNS: [ColumnKind; 8] = [
    sorted("Name", "name", KeySort::Name),
    plain("Key", false),
    sorted("Tenant", "tenant", KeySort::Tenant),
    plain("State", false),
    sorted("Last used", "used", KeySort::LastUsed),
    sorted("Requests, 24 h", "requests", KeySort::Requests24h),
    plain("Errors", true),
    plain("Units, 24 h", true),
];

/// The order at first.
const BY_NAME: Sort = Sort {
    word: "name",
    by: KeySort::Name,
    largest_first: false,
};

#[derive(Template)]
#[template(path = "keys.html")]
struct KeyListPage {
    frame: Frame,
    clock: Clock,
    list: KeyListView,
    query: Query,
    is_filtered: bool,
    columns: Vec<Column>,
    paging: Paging,
}

/// What the address asks for.
#[derive(Clone, Debug)]
struct Query {
    search: String,
    state: String,
    tenant: String,
    sort: Sort,
    descending: bool,
}

/// The head of a column.
struct Column {
    name: &'static str,
    is_number: bool,
    /// Sorts by it.
    link: Option<String>,
    /// How it is sorted by it.
    direction: Option<&'static str>,
}

impl Query {
    fn of(form: &Form) -> Self {
        let mut sorts = COLUMNS.iter().filter_map(|column| column.sort);
        let sort = sorts.find(|sort| sort.word == form.get("sort"));
        let sort = sort.unwrap_or(BY_NAME);
        Self {
            search: form.get("search").to_owned(),
            state: form.get("state").to_owned(),
            tenant: form.get("tenant").to_owned(),
            sort,
            descending: match form.get("order") {
                "up" => false,
                "down" => true,
                _ => sort.largest_first,
            },
        }
    }

    fn link(&self, sort: &str, descending: bool, offset: usize) -> String {
        let order = if descending { "down" } else { "up" };
        let offset = if offset == 0 {
            String::new()
        } else {
            offset.to_string()
        };
        link(
            "/keys",
            &[
                ("search", &self.search),
                ("state", &self.state),
                ("tenant", &self.tenant),
                ("sort", &sort),
                ("order", &order),
                ("offset", &offset),
            ],
        )
    }

    fn columns(&self) -> Vec<Column> {
        let column = |kind: &ColumnKind| {
            let is_chosen = kind.sort.is_some_and(|sort| sort.word == self.sort.word);
            let direction = match self.descending {
                true => "descending",
                false => "ascending",
            };
            Column {
                name: kind.name,
                is_number: kind.is_number,
                link: kind.sort.map(|sort| {
                    let turned = is_chosen && !self.descending;
                    self.link(sort.word, turned || !is_chosen && sort.largest_first, 0)
                }),
                direction: is_chosen.then_some(direction),
            }
        };
        COLUMNS.iter().map(column).collect()
    }
}

/// The list of keys.
pub(super) async fn show(visit: &Visit<'_>) -> Answer {
    let query = Query::of(&visit.query);
    let offset: usize = visit.query.get("offset").parse().unwrap_or(0);
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let state = match query.state.as_str() {
        "active" => Some(KeyState::Active),
        "expired" => Some(KeyState::Expired),
        "revoked" => Some(KeyState::Revoked),
        _ => None,
    };
    let tenant = visit.query.optional("tenant", "Tenant")?;
    let list = ListKeys {
        tenant,
        search: some(&query.search),
        state,
        sort: query.sort.by,
        descending: query.descending,
        offset,
        limit: Some(KEYS_SHOWN),
    };
    let list = visit.run(list).await?;
    let place = (offset, list.keys.len(), list.total);
    let to = |offset| query.link(query.sort.word, query.descending, offset);
    let filters = [&query.search, &query.state, &query.tenant];
    page(&KeyListPage {
        frame: visit.frame("/keys"),
        clock: visit.clock,
        is_filtered: filters.iter().any(|filter| !filter.is_empty()),
        columns: query.columns(),
        paging: Paging::new(place, KEYS_SHOWN, to),
        list,
        query,
    })
}
