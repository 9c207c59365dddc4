//! A store that fails while the service runs.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    process::Command,
    time::Duration,
};

use nearhead_tenants::{
    id::KeyId,
    record::KeySettings,
    usage::{UsageCell, Used},
};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::client::Admin;
use crate::{
    harness::{Connection, Server, check, json as parse, scratch, serving, wait_until},
    tenants::prepared_store::{PreparedStore, now},
    websocket::client::Client,
};

/// Starts a program whose writes to files fail at their size limit, as on a full disk. The signal
/// would end it.
fn start() -> Server {
    let program = serving(&["--block-time", "0s"]);
    let mut command = Command::new("bash");
    command
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args())
        .env_clear()
        .current_dir(env!("CARGO_TARGET_TMPDIR"));
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    Server::of(&mut command)
}

/// Lets files have this many bytes at most.
fn limit_files(server: &Server, bytes: Option<u64>) {
    let pid = Pid::from_raw(server.process.id().try_into().unwrap());
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

/// Why the store fails, as the probe of the admin listener says; the service is ready.
fn failure(server: &Server) -> Value {
    let ready = server.get_admin("/ready");
    check("ready", &ready.status, &200);
    parse(&ready.body)["store"].clone()
}

#[test]
fn clients_are_served_while_the_store_fails() {
    let server = start();
    let mut admin = Admin::start(&server);
    admin.tenant("Acme");
    let (id, key) = admin.key("Acme", "before");
    let path = format!("/v3/{key}");
    let call = || {
        let chain = Connection::open(server.address, &path).result("eth_chainId", &json!([]));
        assert!(chain.is_string(), "{chain}");
    };
    call();
    check("works", &failure(&server), &Value::Null);

    limit_files(&server, Some(0));
    let new = json!({"tenant": "Acme", "name": "new"});
    for (verb, path, body) in [
        ("POST", "/keys".to_owned(), &new),
        ("POST", format!("/keys/{id}/revoke"), &Value::Null),
        ("PATCH", format!("/keys/{id}"), &json!({"name": "other"})),
        ("POST", "/tenants".to_owned(), &json!({"name": "Other"})),
        ("DELETE", "/tenants/Acme".to_owned(), &Value::Null),
    ] {
        admin.refused(verb, &path, body, 503, "store_failed");
        // What failed has changed nothing: clients are served, and sessions open.
        call();
        let mut session = Client::open(server.address, &format!("/ws/v3/{key}"));
        assert!(session.call("eth_chainId", &json!([]))["result"].is_string());
    }
    let reason = failure(&server);
    let says = reason.as_str().unwrap_or_default();
    assert!(says.contains("tenants.sqlite"), "{reason}");
    let failing = "nearhead_tenant_store_failing";
    check("metric", &server.metric(failing), &1.0);
    check("public", &server.get("/ready").status, &200);
    // Administrators still get in, and see what there is.
    check("keys", &admin.get("/keys")["total"], &json!(2));
    check(
        "name",
        &admin.get(&format!("/keys/{id}"))["name"],
        &json!("before"),
    );

    limit_files(&server, None);
    let (_, new) = admin.key("Acme", "new");
    Connection::open(server.address, &format!("/v3/{new}")).result("eth_chainId", &json!([]));
    // Usage that could not be written is written now.
    wait_until("the store works", || {
        admin.get("/usage?last=15m");
        failure(&server) == Value::Null
    });
    check("metric", &server.metric(failing), &0.0);
    wait_until("all usage is written", || {
        let usage = admin.get(&format!("/usage?last=15m&key={id}"));
        usage["rows"][0]["requests"] == json!(11)
    });
    admin.done("POST", &format!("/keys/{id}/revoke"), &Value::Null, 200);
    let mut refused = Connection::open(server.address, &path);
    let body = crate::harness::request(1, "eth_chainId", &json!([])).to_string();
    check("revoked", &refused.post(body).status, &401);
}

/// Usage of the last 10 hours: more than what the database keeps in memory.
fn much_usage(key: KeyId) -> Vec<UsageCell> {
    let end = now();
    let cells = (0..600_u64).flat_map(|minute| (0..60).map(move |method| (minute, method)));
    let cell = |(minute, method)| UsageCell {
        minute: end.before(Duration::from_secs(60 * minute)),
        key,
        owner: None,
        method: format!("method {method}").into(),
        outcome: "ok".into(),
        last: end,
        used: Used {
            requests: 1,
            ..Used::default()
        },
    };
    cells.map(cell).collect()
}

/// A file that is damaged while the service runs is noticed when it is read.
#[test]
fn clients_are_served_while_the_store_is_damaged() {
    const TOKEN: &str = "token-of-the-test";
    let mut store = PreparedStore::default();
    let key = store.key("before", KeySettings::default());
    store.api_token(TOKEN);
    store.usage(much_usage(key));
    let root = scratch("store-damaged");
    let file = store.write(&root).join("usage.sqlite");
    let server = Server::on_data(&root, &[]);
    let mut admin = Admin::nobody(&server);
    admin.with_token(TOKEN);
    let mut connection = Connection::open(server.address, "/v3/before");
    connection.result("eth_chainId", &json!([]));
    check("works", &failure(&server), &Value::Null);

    let length = fs::metadata(&file).unwrap().len();
    let damaged = File::options().write(true).open(&file).unwrap();
    let garbage = vec![0xa5; usize::try_from(length).unwrap() - 4_096];
    damaged.write_all_at(&garbage, 4_096).unwrap();
    let path = "/usage?last=12h&by=time,method";
    let expected = format!("{} is damaged (", file.display());
    // What the service itself reads of the file may still be in memory, and then it works.
    wait_until("the failure is shown", || {
        admin.refused("GET", path, &Value::Null, 503, "store_failed");
        let reason = failure(&server);
        reason
            .as_str()
            .is_some_and(|says| says.starts_with(&expected))
    });
    connection.result("eth_chainId", &json!([]));
    let mut session = Client::open(server.address, "/ws/v3/before");
    assert!(session.call("eth_chainId", &json!([]))["result"].is_string());
    // Keys are in the other file, which works.
    let (_, new) = admin.key("before", "new");
    Connection::open(server.address, &format!("/v3/{new}")).result("eth_chainId", &json!([]));
}
