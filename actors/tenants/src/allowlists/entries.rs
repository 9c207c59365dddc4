use serde::{Deserialize, Serialize};

/// Most entries of one list.
pub const ENTRIES_MAX: usize = 30;

/// The entries of a list: at most [`ENTRIES_MAX`], none of them twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<T>", into = "Vec<T>")]
#[serde(bound(
    serialize = "T: Clone + Serialize",
    deserialize = "T: PartialEq + Deserialize<'de>"
))]
pub struct Entries<T>(
    /// `None` if there are none: most lists of most keys are empty, and cost one pointer.
    Option<Box<Box<[T]>>>,
);

/// A list has too many entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a list has at most {ENTRIES_MAX} entries")]
pub struct TooManyEntries;

impl<T> Entries<T> {
    /// Whether it allows everything.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The entries.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        match &self.0 {
            Some(entries) => entries.iter(),
            None => [].iter(),
        }
    }

    /// Whether one of them fits, or there is none.
    pub(super) fn allow(&self, fits: impl FnMut(&T) -> bool) -> bool {
        self.is_empty() || self.iter().any(fits)
    }
}

impl<'a, T> IntoIterator for &'a Entries<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> TryFrom<Vec<T>> for Entries<T> {
    type Error = TooManyEntries;

    fn try_from(entries: Vec<T>) -> Result<Self, TooManyEntries> {
        let mut kept: Vec<T> = Vec::new();
        for entry in entries {
            if !kept.contains(&entry) {
                if kept.len() == ENTRIES_MAX {
                    return Err(TooManyEntries);
                }
                kept.push(entry);
            }
        }
        let kept = (!kept.is_empty()).then(|| Box::new(kept.into_boxed_slice()));
        Ok(Self(kept))
    }
}

impl<T> From<Entries<T>> for Vec<T> {
    fn from(entries: Entries<T>) -> Self {
        entries
            .0
            .map(|entries| entries.into_vec())
            .unwrap_or_default()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{super::entry::MethodName, *};

    #[test]
    fn a_list_is_bounded_and_has_no_entry_twice() {
        let names = |count: usize| (0..count).map(|at| format!("m{at}")).collect::<Vec<_>>();
        let list = |names: Vec<String>| {
            let parsed: Vec<MethodName> = names.iter().map(|name| name.parse().unwrap()).collect();
            Entries::try_from(parsed)
        };
        assert_eq!(list(names(31)), Err(TooManyEntries));
        let twice = [names(30), names(30)].concat();
        assert_eq!(list(twice).unwrap().iter().len(), 30);
    }
}
