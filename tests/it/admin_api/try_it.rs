//! The page that tries methods calls in the name of its visitor.

use serde_json::json;

use super::client::{Admin, id_and_key, send};
use crate::harness::{Connection, Server, check, request, scratch};

/// Makes an API token of a holder, or of an administrator without a tenant.
fn token(admin: &mut Admin, name: &str, tenant: Option<&str>) -> String {
    let body = match tenant {
        Some(tenant) => json!({"name": name, "role": "holder", "tenant": tenant}),
        None => json!({"name": name, "role": "admin"}),
    };
    let token = admin.done("POST", "/tokens", &body, 201);
    token["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_visitor_is_judged_by_who_and_where_they_are() {
    let folder = scratch("try-it");
    // Without --api-key, the key `dev` is there.
    let server = Server::on_data(&folder, &["--trusted-proxy", "127.0.0.1"]);
    let mut admin = Admin::start(&server);
    for tenant in ["Own", "Other", "dev"] {
        admin.tenant(tenant);
    }
    let narrow = json!({"allow": {"networks": ["192.0.2.0/24"]}});
    let body = json!({"tenant": "Own", "name": "narrow", "settings": narrow});
    let (_, narrow) = id_and_key(&admin.done("POST", "/keys", &body, 201));
    let (_, own) = admin.key("Own", "wide");
    let (_, other) = admin.key("Other", "theirs");
    let root = token(&mut admin, "root", None);
    let holder = token(&mut admin, "holder", Some("Own"));
    let developer = token(&mut admin, "developer", Some("dev"));
    let address = server.admin.unwrap();
    let good = "<dd class=\"good\">200</dd>";
    let not_listed = "the IP address is not on the allowlist";
    for (token, from, key, status, expected) in [
        (&holder, "192.0.2.7", &*own, 200, good),
        (&holder, "192.0.2.7", &*narrow, 200, good),
        // Not the address of the admin listener, which makes the call.
        (&holder, "198.51.100.1", &narrow, 200, not_listed),
        (&root, "198.51.100.1", &narrow, 200, not_listed),
        (&holder, "127.0.0.1", &narrow, 200, not_listed),
        (&holder, "192.0.2.7", &other, 403, "none of your tenant’s"),
        (&root, "192.0.2.7", &other, 200, good),
        (&holder, "192.0.2.7", "unknown", 200, "invalid project id"),
        (&holder, "127.0.0.1", "dev", 403, "none of your tenant’s"),
        (
            &developer,
            "192.0.2.7",
            "dev",
            403,
            "the machine of nearhead alone",
        ),
        (&developer, "127.0.0.1", "dev", 200, good),
        (&developer, "::ffff:127.0.0.1", "dev", 200, good),
        (&root, "192.0.2.7", "dev", 200, good),
    ] {
        let headers = [
            format!("authorization: Bearer {token}"),
            format!("x-forwarded-for: {from}"),
            "content-type: application/x-www-form-urlencoded".to_owned(),
        ];
        let form = format!("key={key}");
        let path = "/try?method=eth_chainId";
        let page = send(address, "POST", path, &headers, form.as_bytes());
        let case = format!("{from} {key}: {}", page.text());
        check(&case, &page.status, &status);
        assert!(page.text().contains(expected), "{case}");
    }
    // Nobody else says for whom a call is.
    let forged = format!("x-nearhead-visitor: {} 192.0.2.7", "A".repeat(43));
    let mut connection = Connection::open(server.address, &format!("/v3/{narrow}"));
    let body = request(1, "eth_chainId", &json!([])).to_string();
    for lines in [&[&*forged][..], &["x-nearhead-visitor: 192.0.2.7"]] {
        let request = connection.request(lines, body.as_bytes());
        connection.send(&request);
        check("forged", &connection.receive().status, &403);
    }
}
