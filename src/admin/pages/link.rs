//! Addresses with parameters, and the pages of a list.

use std::fmt::{Display, Write as _};

/// An address with these parameters, without those that are empty.
pub(super) fn link(path: &str, parameters: &[(&str, &dyn Display)]) -> String {
    let mut link = path.to_owned();
    let mut between = '?';
    for (name, value) in parameters {
        let value = value.to_string();
        if value.is_empty() {
            continue;
        }
        link.push(between);
        link.push_str(name);
        link.push('=');
        encode(&mut link, &value);
        between = '&';
    }
    link
}

fn encode(link: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b',' => {
                link.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(link, "%{byte:02X}")),
        }
    }
}

/// Where in a list a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paging {
    /// The numbers of the first and the last entry, from 1 on.
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) total: usize,
    pub(super) previous: Option<String>,
    pub(super) next: Option<String>,
}

impl Paging {
    /// Of the page that has `shown` entries from `offset` on. `to` makes the address of another
    /// one.
    pub(super) fn new(
        (offset, shown, total): (usize, usize, usize),
        of_page: usize,
        to: impl Fn(usize) -> String,
    ) -> Self {
        let last = offset.saturating_add(shown);
        Self {
            first: offset.saturating_add(1).min(last),
            last,
            total,
            previous: (offset > 0).then(|| to(offset.saturating_sub(of_page))),
            next: (last < total && shown > 0).then(|| to(last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_may_be_any_number() {
        for (offset, shown, first, last) in [
            (0, 0, 0, 0),
            (0, 3, 1, 3),
            (50, 3, 51, 53),
            (usize::MAX, 0, usize::MAX, usize::MAX),
        ] {
            let paging = Paging::new((offset, shown, 60), 50, |offset| offset.to_string());
            assert_eq!(
                (paging.first, paging.last),
                (first, last),
                "{offset} {shown}"
            );
        }
    }

    #[test]
    fn parameters_are_encoded() {
        let found = link(
            "/keys",
            &[("search", &"a b&c=é\"<"), ("state", &""), ("offset", &50)],
        );
        assert_eq!(found, "/keys?search=a%20b%26c%3D%C3%A9%22%3C&offset=50");
        assert_eq!(link("/keys", &[]), "/keys");
    }

    #[test]
    fn pages_lead_to_each_other() {
        let to = |offset: usize| offset.to_string();
        for (place, first, last, previous, next) in [
            ((0, 50, 120), 1, 50, None, Some("50")),
            ((50, 50, 120), 51, 100, Some("0"), Some("100")),
            ((100, 20, 120), 101, 120, Some("50"), None),
            ((0, 3, 3), 1, 3, None, None),
            ((500, 0, 120), 500, 500, Some("450"), None),
        ] {
            let paging = Paging::new(place, 50, to);
            let links = (paging.previous.as_deref(), paging.next.as_deref());
            assert_eq!(
                (paging.first, paging.last, links),
                (first, last, (previous, next))
            );
        }
    }
}
