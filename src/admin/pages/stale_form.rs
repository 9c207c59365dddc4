use nearhead_tenants::administration::Version;

use super::{
    form::Form,
    page_error::PageError,
    settings_form::{LIMITS, LISTS, QUOTAS},
};
use crate::thousands::thousands;

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
    let texts = names.into_iter().chain(lists);
    let texts = texts.map(|(name, label)| (name, label, shown as fn(&str) -> String));
    let numbers = QUOTAS.iter().chain(&LIMITS);
    let numbers = numbers.map(|number| (number.name, number.label, shown_number as _));
    let fields = texts.chain(numbers).filter(|(name, ..)| typed.has(name));
    let both = fields.map(|(name, label, shown)| Difference {
        label,
        stored: shown(stored.get(name)),
        typed: shown(typed.get(name)),
    });
    both.filter(|field| field.stored != field.typed).collect()
}

/// A number as people read it, or what was typed in its place.
fn shown_number(text: &str) -> String {
    match text.trim().parse() {
        Ok(number) => thousands(number),
        Err(_) => shown(text),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_shown_as_people_read_it() {
        let number = LIMITS[0].name;
        let form = |fields: &[(&str, &str)]| {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Form::from(fields.collect::<Vec<_>>())
        };
        let difference = |field: &str, stored: &str, typed: &str| {
            let found = differences(&form(&[(field, stored)]), &form(&[(field, typed)]));
            let found = found.into_iter().map(|field| (field.stored, field.typed));
            found.collect::<Vec<_>>()
        };
        let pair = |stored: &str, typed: &str| vec![(stored.to_owned(), typed.to_owned())];
        for (field, stored, typed, expected) in [
            (number, "2500000", "1000", pair("2,500,000", "1,000")),
            (number, "2500000", "", pair("2,500,000", "nothing")),
            (number, "1000", "many", pair("1,000", "many")),
            (number, "1000", " 1000 ", Vec::new()),
            ("name", "2500", "2600", pair("2500", "2600")),
            (
                "origins",
                "https://a\nhttps://b",
                "",
                pair("https://a, https://b", "nothing"),
            ),
        ] {
            let found = difference(field, stored, typed);
            assert_eq!(found, expected, "{field}: {stored:?} {typed:?}");
        }
    }
}
