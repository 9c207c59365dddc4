//! What administrators send.

use std::net::IpAddr;

use nearhead_tenants::{
    UnixMillis,
    administration::{
        AdminError, Administration, AdministrationSetup, CreateAccount, CreateKey, CreateTenant,
        CreateToken, GetKey, GetTenant, Identity, KeyView, ListTokens, Operation, Requester,
        RotateKey, SetPassword, TenantView, UpdateKey, UpdateTenant,
    },
    allowlists::ENTRIES_MAX,
    bounds::OVERLAP_MAX,
    limits::WEIGHT_MAX,
    public_key::PUBLIC_KEYS_MAX,
    store::MemoryStore,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// When everything is done.
const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

/// A body that is accepted is written as it was read, what it asks for is in force, and it is
/// within the bounds; one that is refused changes nothing.
///
/// The first line of the input names the call, as the API's document does; the rest is the body.
pub fn admin_body(input: &[u8]) {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return;
    };
    // As the API reads a body: its members, and then the call.
    let Ok(members) = serde_json::from_slice::<Map<String, Value>>(&input[end + 1..]) else {
        return;
    };
    match &input[..end] {
        b"createTenant" => create_tenant(members),
        b"updateTenant" => update_tenant(members),
        b"createKey" => create_key(members),
        b"updateKey" => update_key(members),
        b"rotateKey" => rotate_key(members),
        b"createToken" => create_token(members),
        // A password is hashed, which takes too long here.
        b"createAccount" => drop(read::<CreateAccount>(members)),
        b"setPassword" => drop(read::<SetPassword>(members)),
        _ => {}
    }
}

/// Reads a call. It can be written and read again, and nothing that was given is lost.
fn read<O>(members: Map<String, Value>) -> Option<O>
where
    O: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug,
{
    let given = Value::Object(members);
    let call: O = serde_json::from_value(given.clone()).ok()?;
    let written = serde_json::to_value(&call).unwrap();
    check_written("", &given, &written);
    let again: O = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(again, call);
    assert_eq!(serde_json::to_value(&again).unwrap(), written);
    Some(call)
}

/// Every value of the body is in what is written: text of addresses in lower case, lists without
/// what is in them twice, spans, networks and origins in their shortest form.
fn check_written(name: &str, given: &Value, written: &Value) {
    match (given, written) {
        (Value::Object(given), Value::Object(written)) => {
            for (name, value) in given {
                match written.get(name) {
                    Some(written) => check_written(name, value, written),
                    None => assert!(value.is_null(), "{name} is lost: {value}"),
                }
            }
        }
        (Value::Array(given), Value::Array(written)) => {
            assert!(written.len() <= given.len(), "{name}");
            if written.len() == given.len() {
                for (given, written) in given.iter().zip(written) {
                    check_written(name, given, written);
                }
            }
        }
        (Value::String(given), Value::String(written)) => {
            let is_same = match name {
                "contracts" => digits(given) == digits(written),
                "origins" => origin(given) == *written,
                "overlap" | "networks" => true,
                _ => given == written,
            };
            assert!(is_same, "{name}: {given:?} became {written:?}");
        }
        _ => assert_eq!(given, written, "{name}"),
    }
}

/// The digits of an address, in lower case, without `0x` or `0X`.
fn digits(address: &str) -> String {
    let address = address.to_ascii_lowercase();
    address.trim_start_matches("0x").to_owned()
}

/// An origin as browsers write it: in lower case, without the port that its scheme has anyway.
fn origin(given: &str) -> String {
    let origin = given.to_ascii_lowercase();
    let shorter = match origin.split_once(':') {
        Some(("http", _)) => origin.strip_suffix(":80"),
        Some(("https", _)) => origin.strip_suffix(":443"),
        _ => None,
    };
    shorter.unwrap_or(&origin).to_owned()
}

/// Who may do everything.
fn root() -> Requester {
    let from = IpAddr::from([192, 0, 2, 1]);
    Requester::new(Identity::command_line(), Some(from), NOW)
}

/// The tenant alice with a key.
struct Scene {
    administration: Administration,
    tenant: TenantView,
    key: KeyView,
}

impl Scene {
    fn new() -> Self {
        let setup = AdministrationSetup {
            store: Box::new(MemoryStore::default()),
            configured: Vec::new(),
            methods: vec!["eth_call".to_owned(), "eth_chainId".to_owned()],
        };
        let mut administration = Administration::open(setup).unwrap();
        let create: CreateTenant = of_json(json!({"name": "alice"}));
        create.run(&mut administration, &root()).unwrap();
        let create: CreateKey = of_json(json!({"tenant": "alice", "name": "backend"}));
        let key = create.run(&mut administration, &root()).unwrap().view;
        let tenant = of_json(json!({"id": "alice"}));
        let tenant = GetTenant::run(tenant, &mut administration, &root()).unwrap();
        Self {
            administration,
            tenant,
            key,
        }
    }

    /// Runs a call. One that is refused changes nothing.
    fn run<O: Operation>(&mut self, call: O) -> Option<O::Answer> {
        let before = self.administration.directory().clone();
        match call.run(&mut self.administration, &root()) {
            Ok(answer) => Some(answer),
            Err(error) => {
                assert!(!matches!(error, AdminError::Store(_)), "{error}");
                assert!(!error.to_string().is_empty());
                assert_eq!(self.administration.directory(), &before, "{error}");
                None
            }
        }
    }

    /// The tenant is found as it was answered, can be stored, and sent back to no effect.
    fn check_tenant(&mut self, view: &TenantView) {
        assert!(view.limits.weight.get() <= WEIGHT_MAX);
        let id = json!({"id": view.id});
        let found = self.run::<GetTenant>(of_json(id));
        assert_eq!(found.as_ref(), Some(view));
        check_stored(&**self.administration.directory().tenant(view.id).unwrap());
        let [id, version] = [json!(view.id), json!(view.version)];
        let back =
            json!({"id": id, "name": view.name, "limits": view.limits, "ifVersion": version});
        let again = self.run::<UpdateTenant>(of_json(back));
        assert_eq!(again.as_ref(), Some(view));
    }

    /// The same of a key.
    fn check_key(&mut self, view: &KeyView) {
        let settings = &view.settings;
        let allow = serde_json::to_value(&settings.allow).unwrap();
        let lists = allow.as_object().unwrap().values();
        let longest = lists.filter_map(Value::as_array).map(Vec::len).max();
        assert!(longest.unwrap_or_default() <= ENTRIES_MAX);
        assert!(settings.public_keys.len() <= PUBLIC_KEYS_MAX);
        assert!(settings.secret.is_none() || settings.public_keys.is_empty());
        assert_eq!(self.run(GetKey { id: view.id }).as_ref(), Some(view));
        check_stored(&**self.administration.directory().key(view.id).unwrap());
        let mut settings = serde_json::to_value(settings).unwrap();
        // A secret is shown by its rights alone, and to set it makes another one.
        settings.as_object_mut().unwrap().remove("secret");
        let [id, version] = [json!(view.id), json!(view.version)];
        let back = json!({"id": id, "name": view.name, "settings": settings, "ifVersion": version});
        let again = self.run::<UpdateKey>(of_json(back)).unwrap();
        assert_eq!(&again.view, view);
    }
}

fn of_json<O: DeserializeOwned>(json: Value) -> O {
    serde_json::from_value(json).unwrap()
}

/// A record is read as it was written.
fn check_stored<R>(record: &R)
where
    R: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug,
{
    let json = serde_json::to_string(record).unwrap();
    assert_eq!(&serde_json::from_str::<R>(&json).unwrap(), record);
}

fn create_tenant(members: Map<String, Value>) {
    let limits = members.get("limits").cloned().unwrap_or(json!({}));
    let Some(call) = read::<CreateTenant>(members) else {
        return;
    };
    let (name, mut scene) = (call.name.clone(), Scene::new());
    let Some(view) = scene.run(call) else {
        assert_eq!(name.as_str(), "alice", "any other name is free");
        return;
    };
    assert_eq!(view.name, name);
    assert_eq!(
        serde_json::to_value(view.limits).unwrap(),
        limits_of(&limits)
    );
    scene.check_tenant(&view);
}

/// What a new tenant may do by the limits of a body.
fn limits_of(given: &Value) -> Value {
    let mut limits = without_null(given);
    let mut quota = without_null(&given["quota"]);
    for rate in ["requests", "units"] {
        if let Some(rate) = quota.get_mut(rate) {
            let per_second = rate["perSecond"].clone();
            if rate["burst"].is_null() {
                rate["burst"] = per_second;
            }
        }
    }
    limits.insert("quota".to_owned(), Value::Object(quota));
    limits.entry("weight").or_insert(json!(1));
    Value::Object(limits)
}

/// The members that have a value.
fn without_null(given: &Value) -> Map<String, Value> {
    let members = given.as_object().into_iter().flatten();
    let members = members.filter(|(_, value)| !value.is_null());
    members
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn update_tenant(mut members: Map<String, Value>) {
    let mut scene = Scene::new();
    members.insert("id".to_owned(), json!(scene.tenant.id));
    let Some(call) = read::<UpdateTenant>(members) else {
        return;
    };
    let is_current = call.if_version.is_none() || call.if_version == scene.tenant.version;
    let again = UpdateTenant {
        if_version: None,
        ..call.clone()
    };
    let Some(view) = scene.run(call) else {
        assert!(!is_current, "nothing else is refused");
        return;
    };
    assert!(is_current);
    scene.check_tenant(&view);
    assert_eq!(scene.run(again), Some(view));
}

fn create_key(members: Map<String, Value>) {
    let Some(call) = read::<CreateKey>(members) else {
        return;
    };
    let (name, expires, mut scene) = (call.name.clone(), call.expires, Scene::new());
    let Some(made) = scene.run(call) else {
        return;
    };
    let view = &made.view;
    assert_eq!((&view.name, view.expires), (&name, expires));
    assert!(expires.is_none_or(|expires| expires > NOW));
    assert_eq!(made.secret.is_some(), view.settings.secret.is_some());
    scene.check_key(view);
}

fn update_key(mut members: Map<String, Value>) {
    let mut scene = Scene::new();
    members.insert("id".to_owned(), json!(scene.key.id));
    let Some(call) = read::<UpdateKey>(members) else {
        return;
    };
    let Some(changed) = scene.run(call) else {
        return;
    };
    let view = &changed.view;
    assert_eq!((view.id, &view.tenant), (scene.key.id, &scene.key.tenant));
    scene.check_key(view);
}

fn rotate_key(mut members: Map<String, Value>) {
    let mut scene = Scene::new();
    let old = scene.key.id;
    members.insert("id".to_owned(), json!(old));
    let Some(call) = read::<RotateKey>(members) else {
        return;
    };
    let is_short = call
        .overlap
        .is_none_or(|overlap| overlap.duration() <= OVERLAP_MAX);
    let Some(made) = scene.run(call) else {
        assert!(!is_short, "nothing else is refused");
        return;
    };
    assert!(is_short);
    let before = scene.run(GetKey { id: old }).unwrap();
    assert_eq!(before.replaced_by, Some(made.view.id));
    assert!(before.expires.unwrap() <= NOW.after(OVERLAP_MAX));
    assert_eq!(made.view.settings, before.settings);
    scene.check_key(&made.view);
}

fn create_token(members: Map<String, Value>) {
    let Some(call) = read::<CreateToken>(members) else {
        return;
    };
    let (name, mut scene) = (call.name.clone(), Scene::new());
    let Some(made) = scene.run(call) else {
        return;
    };
    assert_eq!(made.view.name, name);
    assert!(made.view.expires.is_none_or(|expires| expires > NOW));
    assert_eq!(scene.run(ListTokens {}).unwrap().tokens, [made.view]);
}
