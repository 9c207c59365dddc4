use std::{fmt::Display, num::NonZeroU64, str::FromStr};

use nearhead_tenants::{UnixMillis, UtcTime};

/// The fields of a form, or the parameters of a query: what somebody typed, as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

/// What somebody typed cannot be used: says in which field, and what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub(super) struct InvalidField {
    field: &'static str,
    reason: String,
}

impl InvalidField {
    pub(super) fn new(field: &'static str, reason: impl Display) -> Self {
        Self {
            field,
            reason: reason.to_string(),
        }
    }
}

impl From<Vec<(String, String)>> for Form {
    fn from(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }
}

impl Form {
    /// A field without the spaces around it; empty if there is none of this name.
    pub(super) fn get(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// A field as it is.
    pub(super) fn raw(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map_or("", |(_, value)| value)
    }

    /// Whether it has a field of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    /// Adds a field, as if somebody had typed it.
    pub(super) fn set(&mut self, name: &str, value: impl Display) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    /// Adds a field if there is a value.
    pub(super) fn set_some(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// These fields, and those of `other` of which it has none.
    pub(super) fn over(&self, other: Self) -> Self {
        let mut fields = self.0.clone();
        fields.extend(other.0);
        Self(fields)
    }

    /// Whether a box is ticked.
    pub(super) fn is_ticked(&self, name: &str) -> bool {
        !self.get(name).is_empty()
    }

    /// Whether something else is filled in than the tenant, the name and the end of a key.
    pub(super) fn has_settings(&self) -> bool {
        let is_first = |name: &str| matches!(name, "tenant" | "name" | "expires");
        self.0
            .iter()
            .any(|(name, value)| !is_first(name) && !value.trim().is_empty())
    }

    /// A field that has to be filled in.
    pub(super) fn required<T>(&self, name: &str, label: &'static str) -> Result<T, InvalidField>
    where
        T: FromStr<Err: Display>,
    {
        let text = self.get(name);
        text.parse()
            .map_err(|error| InvalidField::new(label, error))
    }

    /// A field that may be empty.
    pub(super) fn optional<T>(
        &self,
        name: &str,
        label: &'static str,
    ) -> Result<Option<T>, InvalidField>
    where
        T: FromStr<Err: Display>,
    {
        match self.get(name) {
            "" => Ok(None),
            _ => self.required(name, label).map(Some),
        }
    }

    /// A whole number from 1 on, or nothing.
    pub(super) fn number<T>(
        &self,
        name: &str,
        label: &'static str,
    ) -> Result<Option<T>, InvalidField>
    where
        T: TryFrom<NonZeroU64>,
    {
        let invalid = || InvalidField::new(label, "a whole number from 1 on, or nothing");
        match self.get(name) {
            "" => Ok(None),
            text => {
                let number: NonZeroU64 = text.parse().map_err(|_| invalid())?;
                let number = T::try_from(number).map_err(|_| {
                    InvalidField::new(label, format!("{number} is too large a number"))
                })?;
                Ok(Some(number))
            }
        }
    }

    /// One entry a line.
    pub(super) fn lines<T>(&self, name: &str, label: &'static str) -> Result<Vec<T>, InvalidField>
    where
        T: FromStr<Err: Display>,
    {
        let lines = self.raw(name).lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty())
            .map(|line| {
                let invalid = |error| InvalidField::new(label, format!("“{line}”: {error}"));
                line.parse().map_err(invalid)
            })
            .collect()
    }

    /// A time in UTC, as a browser's field for one has it.
    pub(super) fn time(
        &self,
        name: &str,
        label: &'static str,
    ) -> Result<Option<UnixMillis>, InvalidField> {
        let text = match self.get(name) {
            "" => return Ok(None),
            text if text.contains(['T', ' ']) && !text.ends_with('Z') => format!("{text}Z"),
            text => text.to_owned(),
        };
        match text.parse::<UtcTime>() {
            Ok(time) => Ok(Some(time.into())),
            Err(error) => Err(InvalidField::new(label, error)),
        }
    }
}

/// A time as a browser's field for one has it, to the minute.
pub(super) fn time_field(at: UnixMillis) -> String {
    let text = UtcTime::from(at).to_string();
    text.get(..16).unwrap_or_default().to_owned()
}
