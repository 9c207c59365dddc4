//! The OpenAPI document: made from the table of routes and from `schemas.json`.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::routes::{ApiRoute, Call, ROUTES, Who};

/// The schemas of bodies and answers, by name (JSON Schema 2020-12).
const SCHEMAS: &str = include_str!("schemas.json");

/// The document. It stays the same while the program runs.
pub(super) static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.verb.name().to_ascii_lowercase()] = operation(route);
    }
    // A test reads the file.
    let schemas: Value = serde_json::from_str(SCHEMAS).unwrap_or_default();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "nearhead administration",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tenants, keys, accounts and usage of a nearhead, on its admin listener. \
                            Times are Unix milliseconds. A secret is in one answer alone: that of \
                            the call that makes it.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                "Error": {
                    "description": "It is refused; nothing has changed",
                    "content": json_of("Error"),
                },
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "An API token"},
                "login": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "nearhead_login",
                    "description": "A login; over TLS, the name begins with __Host-. A change \
                                    needs an Origin or Sec-Fetch-Site of the same origin",
                },
            },
        },
    })
}

fn operation(route: &ApiRoute) -> Value {
    let mut parameters: Vec<Value> = route
        .path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| {
            let schema = json!({"type": "string"});
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        })
        .collect();
    parameters.extend(
        route
            .parameters
            .iter()
            .map(|parameter| parameter.document()),
    );
    if route.is_conditional {
        parameters.push(json!({
            "name": "If-Match",
            "in": "header",
            "description": "The ETag of an answer: the change is refused with 412 if somebody has \
                            changed it since",
            "schema": {"type": "string"},
        }));
    }
    let mut success = json!({"description": "It is done"});
    if matches!(
        route.answer,
        Some("Tenant" | "Key" | "NewKey" | "ChangedKey")
    ) {
        let description = "The version in quotation marks, for If-Match";
        success["headers"]["ETag"] =
            json!({"description": description, "schema": {"type": "string"}});
    }
    if let Some(schema) = route.answer {
        success["content"] = json_of(schema);
    }
    if matches!(route.call, Call::Usage) {
        success["content"]["text/csv"] = json!({"schema": {"type": "string"}});
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            route.status.to_string(): success,
            "default": {"$ref": "#/components/responses/Error"},
        },
        "security": match route.who {
            Who::Anyone => json!([]),
            Who::Visitor | Who::Admin => json!([{"token": []}, {"login": []}]),
        },
    });
    if let Some(schema) = route.body {
        // Without a body, it has no members.
        operation["requestBody"] = json!({"content": json_of(schema)});
    }
    operation
}

/// The media types of a body with this schema.
fn json_of(schema: &str) -> Value {
    let reference = format!("#/components/schemas/{schema}");
    json!({"application/json": {"schema": {"$ref": reference}}})
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// All references within a value.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Object(members) => {
                for (name, member) in members {
                    match (name.as_str(), member) {
                        ("$ref", Value::String(target)) => drop(found.insert(target.clone())),
                        _ => references(member, found),
                    }
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_reference_has_a_target_and_every_schema_is_used() {
        let document: Value = serde_json::from_str(&DOCUMENT).unwrap();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for target in &found {
            let pointer = target.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
        let schemas = document["components"]["schemas"].as_object().unwrap();
        assert!(schemas.len() > 10);
        for name in schemas.keys() {
            let target = format!("#/components/schemas/{name}");
            assert!(found.contains(&target), "{name} is not used");
        }
    }

    #[test]
    fn every_route_is_in_it_under_its_own_name() {
        let document: Value = serde_json::from_str(&DOCUMENT).unwrap();
        let mut names = BTreeSet::new();
        for route in ROUTES {
            let verb = route.verb.name().to_ascii_lowercase();
            let operation = &document["paths"][route.path][&verb];
            assert_eq!(operation["operationId"], route.name);
            assert!(names.insert(route.name), "{} is there twice", route.name);
        }
        let operations = document["paths"].as_object().unwrap().values();
        let operations = operations.map(|path| path.as_object().unwrap().len());
        assert_eq!(operations.sum::<usize>(), ROUTES.len());
    }
}
