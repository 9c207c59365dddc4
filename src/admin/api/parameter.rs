//! The parameters in the query of a request.

use serde_json::{Map, Value, json};

use super::api_error::ApiError;
use crate::admin::path_pattern::pairs;

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub(in crate::admin) struct Parameter {
    pub(in crate::admin) name: &'static str,
    pub(in crate::admin) kind: Kind,
    /// What it is for, as a sentence.
    pub(in crate::admin) purpose: &'static str,
}

/// How a parameter's text is read.
#[derive(Clone, Copy, Debug)]
pub(in crate::admin) enum Kind {
    /// As it is.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
}

impl Parameter {
    /// Its value as JSON.
    fn read(&self, text: &str) -> Result<Value, ApiError> {
        let invalid = |accepted: &str| {
            let name = self.name;
            Err(ApiError::invalid(format!("{name}: expected {accepted}")))
        };
        match self.kind {
            Kind::Text => Ok(text.into()),
            Kind::Number => match text.parse::<u64>() {
                Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number.into()),
                _ => invalid("a whole number"),
            },
            Kind::Flag => match text {
                "true" => Ok(true.into()),
                "false" => Ok(false.into()),
                _ => invalid("true or false"),
            },
            Kind::Word(words) => match words.contains(&text) {
                true => Ok(text.into()),
                false => invalid(&words.join(", ")),
            },
        }
    }

    /// Its row in the OpenAPI document.
    pub(in crate::admin) fn document(&self) -> Value {
        let schema = match self.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Number => json!({"type": "integer", "minimum": 0}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Word(words) => json!({"enum": words}),
        };
        json!({
            "name": self.name,
            "in": "query",
            "description": self.purpose,
            "schema": schema,
        })
    }
}

/// The members that a query gives.
///
/// # Errors
/// It is malformed, has a parameter that is not known, or one twice.
pub(in crate::admin) fn members(
    parameters: &[Parameter],
    query: &str,
) -> Result<Map<String, Value>, ApiError> {
    let pairs = pairs(query).ok_or_else(|| ApiError::invalid("the query is malformed"))?;
    let mut members = Map::new();
    for (name, text) in pairs {
        let parameter = parameters.iter().find(|parameter| parameter.name == name);
        let Some(parameter) = parameter else {
            let known: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
            let message = match known.is_empty() {
                true => format!("unknown parameter {name:?}, there are none"),
                false => format!("unknown parameter {name:?}, there are {}", known.join(", ")),
            };
            return Err(ApiError::invalid(message));
        };
        // Fields of forms that are left empty say nothing.
        if text.is_empty() {
            continue;
        }
        if members.insert(name, parameter.read(&text)?).is_some() {
            let name = parameter.name;
            return Err(ApiError::invalid(format!("{name} is given twice")));
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_become_members() {
        let parameter = |name, kind| Parameter {
            name,
            kind,
            purpose: "",
        };
        let parameters = [
            parameter("search", Kind::Text),
            parameter("limit", Kind::Number),
            parameter("descending", Kind::Flag),
            parameter("state", Kind::Word(&["active", "revoked"])),
        ];
        for (query, expected) in [
            ("", Ok(json!({}))),
            ("search=a+b%26", Ok(json!({"search": "a b&"}))),
            ("search=", Ok(json!({}))),
            (
                "limit=10&descending=true",
                Ok(json!({"limit": 10, "descending": true})),
            ),
            ("state=active", Ok(json!({"state": "active"}))),
            ("state=x", Err("state: expected active, revoked")),
            ("limit=-1", Err("limit: expected a whole number")),
            ("limit=%2B1", Err("limit: expected a whole number")),
            (
                "limit=99999999999999999999",
                Err("limit: expected a whole number"),
            ),
            ("descending=yes", Err("descending: expected true or false")),
            ("search=a&search=b", Err("search is given twice")),
            (
                "other=1",
                Err("unknown parameter \"other\", there are search, limit, descending, state"),
            ),
            ("search=%ff", Err("the query is malformed")),
        ] {
            let found = members(&parameters, query).map(Value::Object);
            let found = found.map_err(|error| error.message.into_owned());
            assert_eq!(found, expected.map_err(str::to_owned), "{query}");
        }
    }
}
