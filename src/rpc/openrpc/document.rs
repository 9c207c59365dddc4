//! Assembles the document.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    calls,
    documentation::{DOCUMENTATION, Documentation, SENDING},
    errors::{self, Error},
    examples::{Example, examples},
    parameters, results,
};
use crate::{
    access::MethodSet,
    rpc::{
        forwarding::Forwarding,
        price::{KEY_UNITS, NOTIFICATION_UNITS, RESULT_UNITS},
        registry::{METHODS, Method, SEND_RAW_TRANSACTION},
    },
};

/// The version of OpenRPC: https://spec.open-rpc.org.
const OPENRPC: &str = "1.4.1";

const DESCRIPTION: &str = "\
POST a request or a batch to /v3/<API_KEY>, or open a WebSocket session at /ws/v3/<API_KEY>. \
`x-units` is what a call costs: `price`, and what is added for each storage key after the first \
(`furtherKey`) and for each further started 64 KiB of the result (`further64KiB`). `x-contracts` \
is how a key that is narrowed to contracts may call it: always (`allowed`), with listed addresses \
alone (`checked`), or not (`refused`).";

/// The methods that name storage keys, which have a price of their own.
const WITH_KEYS: [&str; 2] = ["eth_getProof", "eth_getStorageValues"];

/// The OpenRPC document of all methods, as JSON: with `eth_sendRawTransaction` if that is served.
/// What is passed to nodes unread is not in it.
#[must_use]
pub fn document(forwarding: &Forwarding) -> Bytes {
    let examples = examples();
    let methods = METHODS.iter().filter_map(|method| {
        let documentation = DOCUMENTATION.iter();
        let of_method = |one: &&Documentation| one.method == method.name;
        let documentation = documentation.clone().find(of_method)?;
        Some(method_object(method, documentation, &examples))
    });
    let sending = forwarding
        .sends()
        .then(|| method_object(&SEND_RAW_TRANSACTION, &SENDING, &[]));
    let (mut errors, mut tags) = (errors::components(), tags());
    if sending.is_none() {
        errors.remove(&Error::Transaction.name());
        tags.remove(tag(MethodSet::Forwarded));
    }
    let methods: Vec<Value> = methods.chain(sending).collect();
    let mut schemas = parameters::components();
    schemas.extend(calls::components());
    schemas.extend(results::components());
    let document = json!({
        "openrpc": OPENRPC,
        "info": {
            "title": "nearhead",
            "description": DESCRIPTION,
            "version": env!("CARGO_PKG_VERSION"),
        },
        "methods": methods,
        "components": {
            "schemas": schemas,
            "errors": errors,
            "tags": tags,
        },
    });
    document.to_string().into()
}

fn method_object(method: &Method, documentation: &Documentation, examples: &[Example]) -> Value {
    let parameters = documentation.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "required": parameter.required,
            "schema": results::reference(parameter.schema),
        })
    });
    let (result, schema) = documentation.result;
    let mut errors: Vec<Error> = Error::OF_ALL_METHODS.to_vec();
    errors.extend(documentation.errors);
    let examples = examples.iter();
    let examples = examples.filter(|example| example.method == method.name);
    json!({
        "name": method.name,
        "summary": documentation.summary,
        "tags": [{"$ref": format!("#/components/tags/{}", tag(method.set))}],
        "paramStructure": "by-position",
        "params": parameters.collect::<Vec<_>>(),
        "result": {"name": result, "schema": results::reference(schema)},
        "errors": errors.into_iter().map(Error::reference).collect::<Vec<_>>(),
        "examples": examples
            .map(|example| pairing(documentation, example))
            .collect::<Vec<_>>(),
        "x-units": units(method),
        "x-contracts": method.contracts.label(),
    })
}

/// An example with the names of the parameters.
fn pairing(documentation: &Documentation, example: &Example) -> Value {
    let parameters = documentation.parameters.iter().zip(&example.params);
    let parameters =
        parameters.map(|(parameter, value)| json!({"name": parameter.name, "value": value}));
    json!({
        "name": example.name,
        "params": parameters.collect::<Vec<_>>(),
        "result": {"name": documentation.result.0, "value": example.result},
    })
}

fn units(method: &Method) -> Value {
    let mut units = json!({"price": method.price, "further64KiB": RESULT_UNITS});
    if WITH_KEYS.contains(&method.name) {
        units["furtherKey"] = KEY_UNITS.into();
    }
    if method.name == "eth_subscribe" {
        units["notification"] = NOTIFICATION_UNITS.into();
    }
    units
}

const fn tag(set: MethodSet) -> &'static str {
    match set {
        MethodSet::Core => "core",
        MethodSet::Companion => "companion",
        MethodSet::Forwarded => "forwarded",
    }
}

fn tags() -> Map<String, Value> {
    let tags = [
        (MethodSet::Core, "one of the seven core methods"),
        (
            MethodSet::Companion,
            "a method that real clients call along with the core methods",
        ),
        (
            MethodSet::Forwarded,
            "a method that nodes answer, which nothing verifies",
        ),
    ];
    let tags = tags.into_iter().map(|(set, description)| {
        let name = tag(set);
        let object = json!({"name": name, "description": description});
        (name.to_owned(), object)
    });
    tags.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_method_has_documentation_a_price_and_an_example() {
        let names = METHODS.iter().map(|method| method.name);
        let documented = DOCUMENTATION.iter().map(|one| one.method);
        assert!(names.eq(documented), "the registry has another order");
        let document = document(&Forwarding::default());
        let document: Value = serde_json::from_slice(&document).unwrap();
        let methods = document["methods"].as_array().unwrap();
        assert_eq!(methods.len(), METHODS.len());
        for method in methods {
            assert!(method["x-units"]["price"].as_u64() > Some(0), "{method}");
            // The example of rpc.discover would contain itself.
            let has_example = !method["examples"].as_array().unwrap().is_empty();
            assert_eq!(has_example, method["name"] != "rpc.discover", "{method}");
        }
    }

    #[test]
    fn every_example_is_of_a_method_and_names_all_its_parameters() {
        for example in examples() {
            let of_method = |one: &&Documentation| one.method == example.method;
            let documentation = DOCUMENTATION.iter().find(of_method).unwrap();
            let required = documentation.parameters.iter().filter(|one| one.required);
            let given = example.params.len();
            assert!(given >= required.count(), "{example:?}");
            assert!(given <= documentation.parameters.len(), "{example:?}");
        }
    }

    #[test]
    fn the_errors_of_a_method_have_different_codes() {
        for documentation in DOCUMENTATION.iter().chain([&SENDING]) {
            let mut errors = Error::OF_ALL_METHODS.to_vec();
            errors.extend(documentation.errors);
            let codes: BTreeSet<i32> = errors.iter().map(|error| error.code()).collect();
            assert_eq!(codes.len(), errors.len(), "{}", documentation.method);
        }
    }

    /// Every schema is used, and every name that is used has a schema.
    #[test]
    fn references_and_components_match() {
        for (forwarded, methods) in [
            (&[][..], METHODS.len()),
            (&["txpool_status"], METHODS.len()),
            (&["eth_sendRawTransaction"], METHODS.len() + 1),
        ] {
            let names: Vec<Box<str>> = forwarded.iter().copied().map(Into::into).collect();
            let document = document(&Forwarding::new(&names).unwrap());
            let text = String::from_utf8(document.to_vec()).unwrap();
            let document: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(document["methods"].as_array().unwrap().len(), methods);
            let mut named = BTreeSet::new();
            for (kind, components) in document["components"].as_object().unwrap() {
                let names = components.as_object().unwrap().keys();
                named.extend(names.map(|name| format!("#/components/{kind}/{name}")));
            }
            let references = text.split(r##""$ref":""##).skip(1);
            let references = references.map(|rest| rest.split('"').next().unwrap().to_owned());
            assert_eq!(references.collect::<BTreeSet<_>>(), named, "{forwarded:?}");
        }
    }
}
