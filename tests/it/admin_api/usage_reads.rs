//! Somebody who reads usage as fast as they can.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use nearhead_tenants::{
    id::{KeyId, TenantId},
    limits::TenantLimits,
    record::KeySettings,
    usage::{KeyOwner, UsageCell, Used},
};
use serde_json::{Value, json};

use super::client::{Admin, ROOT};
use crate::{
    harness::{Connection, check, request, wait_until},
    tenants::prepared_store::{PreparedStore, now},
};

/// Connections that read at the same time: more than one visitor may.
const READERS: usize = 12;

/// The token of the administrator.
const TOKEN: &str = "an API token of administration";

/// Usage of the last 10 hours: as much as 60 keys with 5 methods have.
fn usage(keys: &[KeyId], tenant: TenantId) -> Vec<UsageCell> {
    let end = now();
    let mut cells = Vec::new();
    for minute in 0..600 {
        let minute = end.before(Duration::from_secs(60 * minute));
        for key in keys {
            cells.extend((0..5).map(|method| UsageCell {
                minute,
                key: *key,
                owner: Some(KeyOwner {
                    tenant,
                    chain: None,
                }),
                method: format!("method {method}").into(),
                outcome: "ok".into(),
                last: end,
                used: Used {
                    requests: 1,
                    ..Used::default()
                },
            }));
        }
    }
    cells
}

#[test]
fn reads_of_usage_hold_up_no_revocation() {
    let mut store = PreparedStore::default();
    let tenant = store.tenant("Own", TenantLimits::default());
    let keys: Vec<_> = (0..60)
        .map(|number| {
            let name = format!("key-{number}");
            store.key_of(tenant, &name, None, KeySettings::default())
        })
        .collect();
    store.api_token(TOKEN);
    store.usage(usage(&keys, tenant));
    let server = store.serve("usage-reads", &[]);
    let mut admin = Admin::nobody(&server);
    admin.with_token(TOKEN);
    let body = json!({"name": "holder", "role": "holder", "tenant": "Own"});
    let holder = admin.done("POST", "/tokens", &body, 201);
    let holder = holder["token"].as_str().unwrap();
    let address = server.admin.unwrap();
    let (done, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    let read = || {
        let mut connection = Connection::open(address, "");
        let get = format!(
            "GET {ROOT}/usage?last=12h&by=time,method HTTP/1.1\r\nhost: {address}\r\n\
             authorization: Bearer {holder}\r\n\r\n"
        );
        while !is_over.load(Ordering::Relaxed) {
            connection.send(get.as_bytes());
            let response = connection.receive();
            match response.status {
                200 => done.fetch_add(1, Ordering::Relaxed),
                status => {
                    check("too many", &status, &429);
                    check("wait", &response.header("retry-after"), &Some("1"));
                    refused.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
    };
    let revoke = |admin: &mut Admin, number: usize| {
        let id = keys[number];
        let body = request(1, "eth_chainId", &json!([])).to_string();
        let path = format!("/v3/key-{number}");
        let mut client = Connection::open(server.address, &path);
        check("before", &client.post(&body).status, &200);
        let began = Instant::now();
        admin.done("POST", &format!("/keys/{id}/revoke"), &Value::Null, 200);
        check("after", &client.post(&body).status, &401);
        began.elapsed()
    };
    let mut took = thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(read);
        }
        let is_reading = || done.load(Ordering::Relaxed) > 0 && refused.load(Ordering::Relaxed) > 0;
        wait_until("they read", is_reading);
        let took: Vec<_> = (0..5).map(|number| revoke(&mut admin, number)).collect();
        is_over.store(true, Ordering::Relaxed);
        took
    });
    // Not the slowest one: other tests have the processors, too.
    took.sort();
    assert!(took[2] < Duration::from_secs(1), "{took:?}");
}
