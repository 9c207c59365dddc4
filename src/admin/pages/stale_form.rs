use nearhead_tenants::administration::Version;

use super::{
    form::Form,
    page_error::PageError,
    settings_form::{LIMITS, LISTS, QUOTAS},
};

/// A field of which somebody typed something else than is stored.
pub(super) struct Difference {
    pub(super) label: &'static str,
    pub(super) stored: String,
    pub(super) typed: String,
}

/// What a form says of the version that it changes, and of what has changed since.
pub(super) struct StaleForm {
    /// The version that the form sends back.
    pub(super) version: String,
    /// What differs from what is stored, if somebody has changed that since the form was opened.
    pub(super) differences: Vec<Difference>,
}

impl StaleForm {
    /// Of the form that is shown: what is stored, with what `typed` has if something is wrong with
    /// that.
    pub(super) fn new(
        stored: &Form,
        typed: &Form,
        version: Option<&Version>,
        error: Option<&PageError>,
    ) -> Self {
        let is_stale = error.is_some_and(PageError::is_stale);
        let sent = typed.get("version");
        let version = match version {
            // To save once more is meant, because both are shown.
            Some(version) if is_stale || sent.is_empty() => version.to_string(),
            _ => sent.to_owned(),
        };
        let differences = match is_stale {
            true => differences(stored, typed),
            false => Vec::new(),
        };
        Self {
            version,
            differences,
        }
    }
}

fn differences(stored: &Form, typed: &Form) -> Vec<Difference> {
    let names = [("name", "Name"), ("expires", "Expires")];
    let lists = LISTS.iter().map(|list| (list.name, list.label));
    let numbers = QUOTAS.iter().chain(&LIMITS);
    let numbers = numbers.map(|number| (number.name, number.label));
    let fields = names.into_iter().chain(lists).chain(numbers);
    let fields = fields.filter(|(name, _)| typed.has(name));
    let both = fields.map(|(name, label)| Difference {
        label,
        stored: shown(stored.get(name)),
        typed: shown(typed.get(name)),
    });
    both.filter(|field| field.stored != field.typed).collect()
}

/// The entries of a field in one line.
fn shown(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.collect();
    match lines.is_empty() {
        true => "nothing".to_owned(),
        false => lines.join(", "),
    }
}
