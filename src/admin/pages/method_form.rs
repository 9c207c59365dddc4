//! A form for each method, made from the OpenRPC document.

use serde_json::{Map, Value};

use super::form::{Form, InvalidField};

/// The methods of a document.
pub(super) struct Methods {
    document: Value,
}

/// A method as a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MethodForm {
    pub(super) name: String,
    pub(super) summary: String,
    /// What a call costs, in words.
    pub(super) price: String,
    pub(super) parameters: Vec<Parameter>,
}

/// A parameter as a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    /// The field's name.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) is_required: bool,
    pub(super) field: Field,
    /// What is accepted.
    pub(super) hint: String,
    /// What the first example has.
    example: String,
}

/// How a parameter is filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// One of these words.
    Choice(Vec<String>),
    /// A text, or JSON that begins with a brace or a bracket.
    Text,
    /// JSON.
    Json,
}

impl Methods {
    /// Reads a document.
    pub(super) fn of(document: &[u8]) -> Option<Self> {
        let document = serde_json::from_slice(document).ok()?;
        Some(Self { document })
    }

    fn methods(&self) -> impl Iterator<Item = &Value> {
        self.document["methods"].as_array().into_iter().flatten()
    }

    /// The names of the methods with a tag.
    pub(super) fn tagged(&self, tag: &str) -> Vec<String> {
        let end = format!("/{tag}");
        let has_tag = |method: &&Value| {
            let mut tags = method["tags"].as_array().into_iter().flatten();
            tags.any(|tag| tag["$ref"].as_str().is_some_and(|tag| tag.ends_with(&end)))
        };
        let methods = self.methods().filter(has_tag);
        methods.map(|method| text(&method["name"])).collect()
    }

    /// The form of a method.
    pub(super) fn form(&self, name: &str) -> Option<MethodForm> {
        let method = self.methods().find(|method| method["name"] == name)?;
        let example = &method["examples"][0]["params"];
        let parameters = method["params"].as_array().into_iter().flatten();
        let parameters = parameters.enumerate().map(|(index, parameter)| {
            let mut values = example.as_array().into_iter().flatten();
            let value = values.find(|value| value["name"] == parameter["name"]);
            self.parameter(index, parameter, value.map(|value| &value["value"]))
        });
        Some(MethodForm {
            name: name.to_owned(),
            summary: text(&method["summary"]),
            price: price(&method["x-units"]),
            parameters: parameters.collect(),
        })
    }

    fn parameter(&self, index: usize, parameter: &Value, example: Option<&Value>) -> Parameter {
        let mut accepted = Accepted::default();
        self.accept(&parameter["schema"], &mut accepted);
        let field = match accepted {
            Accepted { text: true, .. } => Field::Text,
            Accepted { json: true, .. } => Field::Json,
            Accepted { words, .. } => Field::Choice(words),
        };
        Parameter {
            id: format!("parameter-{index}"),
            name: text(&parameter["name"]),
            is_required: parameter["required"] == true,
            hint: self.hint(&parameter["schema"]),
            example: match (&field, example) {
                (_, None) => String::new(),
                (_, Some(Value::String(text))) => text.clone(),
                (Field::Json, Some(value)) => format!("{value:#}"),
                (_, Some(value)) => value.to_string(),
            },
            field,
        }
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let pointer = schema["$ref"].as_str().and_then(|of| of.strip_prefix('#'));
        let found = pointer.and_then(|pointer| self.document.pointer(pointer));
        found.unwrap_or(schema)
    }

    /// What a schema accepts, and those that it refers to.
    fn accept(&self, schema: &Value, accepted: &mut Accepted) {
        let schema = self.resolved(schema);
        for name in ["anyOf", "oneOf"] {
            for one in schema[name].as_array().into_iter().flatten() {
                self.accept(one, accepted);
            }
        }
        match (schema["enum"].as_array(), schema["type"].as_str()) {
            (Some(words), _) => accepted.words.extend(words.iter().map(text)),
            (None, Some("boolean")) => accepted.words.extend(["false", "true"].map(str::to_owned)),
            (None, Some("string")) => accepted.text = true,
            (None, Some("null")) => {}
            (None, Some(_)) => accepted.json = true,
            (None, None) => {}
        }
    }

    fn hint(&self, schema: &Value) -> String {
        let schema = self.resolved(schema);
        let alternatives = schema["anyOf"].as_array();
        // A parameter that may be null is what else it may be.
        let or_null = alternatives.and_then(|alternatives| match &alternatives[..] {
            [one, other] if one["type"] == "null" => Some(other),
            _ => None,
        });
        let schema = or_null.map_or(schema, |schema| self.resolved(schema));
        match (schema["title"].as_str(), schema["description"].as_str()) {
            (_, Some(one)) | (Some(one), None) => one.to_owned(),
            (None, None) => String::new(),
        }
    }
}

/// What a schema accepts.
#[derive(Default)]
struct Accepted {
    text: bool,
    json: bool,
    words: Vec<String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The price of a method, such as `2 units, and more for long answers`.
fn price(units: &Value) -> String {
    let price = units["price"].as_u64().unwrap_or(0);
    let plural = if price == 1 { "unit" } else { "units" };
    let more = match units["furtherKey"].is_null() {
        true => "more for a long result",
        false => "more for further keys and a long result",
    };
    format!("{price} {plural}; {more}")
}

impl MethodForm {
    /// The form as it is at first: with the first example.
    pub(super) fn filled(&self) -> Form {
        let mut form = Form::default();
        for parameter in &self.parameters {
            form.set(&parameter.id, &parameter.example);
        }
        form
    }

    /// The request that the form makes.
    pub(super) fn request(&self, form: &Form) -> Result<Value, InvalidField> {
        let mut parameters = Vec::new();
        for parameter in &self.parameters {
            let text = form.get(&parameter.id);
            if text.is_empty() {
                // Only the last ones may be left out.
                parameters.push(Value::Null);
                continue;
            }
            parameters.push(parameter.value(text)?);
        }
        while parameters.last().is_some_and(Value::is_null) {
            parameters.pop();
        }
        let members = [
            ("jsonrpc", "2.0".into()),
            ("id", 1.into()),
            ("method", self.name.as_str().into()),
            ("params", parameters.into()),
        ];
        let members = members.map(|(name, value)| (name.to_owned(), value));
        Ok(Value::Object(Map::from_iter(members)))
    }
}

impl Parameter {
    fn value(&self, text: &str) -> Result<Value, InvalidField> {
        let is_json = match &self.field {
            Field::Choice(_) => text == "true" || text == "false",
            Field::Text => text.starts_with(['{', '[']) || text == "null",
            Field::Json => true,
        };
        if !is_json {
            return Ok(text.into());
        }
        let value = serde_json::from_str(text);
        value.map_err(|error| InvalidField::new("A parameter", format!("{}: {error}", self.name)))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rpc::document;

    /// Every method of the document can be called from its form as it is at first.
    #[test]
    fn every_method_has_a_form() {
        let document = document(&Default::default());
        let methods = Methods::of(&document).unwrap();
        let names = [methods.tagged("core"), methods.tagged("companion")].concat();
        assert_eq!(names.len(), methods.methods().count());
        for name in names {
            let form = methods.form(&name).unwrap();
            let request = form.request(&form.filled()).unwrap();
            let method = methods
                .methods()
                .find(|method| method["name"] == *name)
                .unwrap();
            let example = method["examples"][0]["params"].as_array();
            let values: Vec<Value> = example
                .into_iter()
                .flatten()
                .map(|parameter| parameter["value"].clone())
                .collect();
            assert_eq!(request["params"], json!(values), "{name}");
            assert!(!form.summary.is_empty() && !form.price.is_empty(), "{name}");
        }
    }

    #[test]
    fn fields_fit_their_schemas() {
        let document = document(&Default::default());
        let methods = Methods::of(&document).unwrap();
        let field = |method: &str, index: usize| {
            let form = methods.form(method).unwrap();
            form.parameters[index].field.clone()
        };
        let words = |words: &[&str]| Field::Choice(words.iter().map(|&word| word.into()).collect());
        assert_eq!(field("eth_getBlockByHash", 0), Field::Text);
        assert_eq!(field("eth_getBlockByHash", 1), words(&["false", "true"]));
        assert_eq!(field("eth_getLogs", 0), Field::Json);
        assert_eq!(field("eth_getProof", 2), Field::Text);
    }

    #[test]
    fn what_is_typed_becomes_a_request() {
        let document = document(&Default::default());
        let form = Methods::of(&document)
            .unwrap()
            .form("eth_getStorageAt")
            .unwrap();
        for (block, expected) in [
            ("", Ok(json!(["0x1", "0x2"]))),
            ("latest", Ok(json!(["0x1", "0x2", "latest"]))),
            (
                r#"{"blockHash":"0x3"}"#,
                Ok(json!(["0x1", "0x2", {"blockHash": "0x3"}])),
            ),
            ("{", Err(())),
        ] {
            let mut typed = Form::default();
            for (index, text) in ["0x1", "0x2", block].into_iter().enumerate() {
                typed.set(&format!("parameter-{index}"), text);
            }
            let request = form
                .request(&typed)
                .map(|request| request["params"].clone());
            assert_eq!(request.map_err(drop), expected);
        }
    }
}
