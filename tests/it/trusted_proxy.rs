//! The address of a client behind proxies, in allowlists of networks and in the access log.

use std::{net::SocketAddr, time::SystemTime};

use actix_web::{App, test};
use nearhead::{
    access::{Access, AccessSource, ConfiguredKeys, GuessThrottle, ServiceLimits, SessionCaps},
    http::{self, ServerSettings, ServerState, TrustedProxies},
    metrics::Metrics,
    tenants::StoreState,
};
use nearhead_actors::{freshness::HeadAgeMax, read::ReadResources};
use nearhead_chain::{chain_file::read_genesis, encode::EncodeOptions};
use nearhead_tenants::{
    command::{Command, NewKey},
    directory::Directory,
    id::{KeyId, TenantId},
    limits::TenantLimits,
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
    usage::UsedToday,
};
use serde_json::{Value, json};

use crate::{
    harness::{Server, check, json as parse, vectors},
    in_process::{InProcess, readiness},
};

/// One key, whose requests have to come from 192.0.2.0/24.
fn access() -> Access {
    let mut directory = Directory::default();
    let now = SystemTime::now().into();
    let settings: KeySettings =
        serde_json::from_value(json!({"allow": {"networks": ["192.0.2.0/24"]}})).unwrap();
    let tenant = TenantId::of_configured("alice");
    for command in [
        Command::CreateTenant {
            id: tenant,
            name: "alice".parse().unwrap(),
            limits: TenantLimits::default(),
        },
        Command::CreateKey {
            key: NewKey {
                id: KeyId::of_configured("secret"),
                prefix: KeyPrefix::of("secret"),
                digest: SecretDigest::of("secret"),
            },
            tenant,
            name: "key".parse().unwrap(),
            expires: None,
            settings,
        },
    ] {
        for change in directory.plan(command, now).unwrap() {
            directory.make(change);
        }
    }
    let limits = ServiceLimits {
        sessions: 10,
        ..ServiceLimits::default()
    };
    Access::new(AccessSource {
        directory: &directory,
        configured: &ConfiguredKeys::default(),
        limits: &limits,
        used_today: &UsedToday::default(),
        now,
        desk: None,
    })
}

/// Names and values.
type HeaderLines = [(&'static str, &'static str)];

/// The peer, the header lines, and whether the request is let in, with proxies in 10.0.0.0/8.
const CASES: &[(&str, &HeaderLines, bool)] = &[
    ("192.0.2.1:1", &[], true),
    ("192.0.3.1:1", &[], false),
    ("10.0.0.1:1", &[], false),
    ("10.0.0.1:1", &[("x-forwarded-for", "192.0.2.1")], true),
    (
        "10.0.0.1:1",
        &[("x-forwarded-for", "192.0.2.1, 10.1.1.1")],
        true,
    ),
    (
        "10.0.0.1:1",
        &[("x-forwarded-for", "192.0.2.1, 192.0.3.1")],
        false,
    ),
    (
        "10.0.0.1:1",
        &[("x-forwarded-for", "192.0.2.1, unknown")],
        false,
    ),
    (
        "10.0.0.1:1",
        &[("forwarded", "for=192.0.2.1;proto=https")],
        true,
    ),
    (
        "10.0.0.1:1",
        &[("forwarded", "for=192.0.2.1, for=192.0.3.1")],
        false,
    ),
    (
        "10.0.0.1:1",
        &[
            ("forwarded", "for=192.0.2.1"),
            ("x-forwarded-for", "192.0.3.1"),
        ],
        false,
    ),
    (
        "10.0.0.1:1",
        &[
            ("forwarded", "for=192.0.2.1"),
            ("x-forwarded-for", "192.0.2.1"),
        ],
        true,
    ),
    ("192.0.3.1:1", &[("x-forwarded-for", "192.0.2.1")], false),
    (
        "[::ffff:10.0.0.1]:1",
        &[("x-forwarded-for", "192.0.2.1")],
        true,
    ),
];

#[actix::test]
async fn allowlists_of_networks_are_about_the_client() {
    let genesis = std::fs::read(vectors().join("genesis.json")).unwrap();
    let genesis = read_genesis(&genesis).unwrap();
    let mut system = InProcess::start(&genesis, EncodeOptions::default());
    system.advance(0, [], false).await;
    let proxies = TrustedProxies::new(&["10.0.0.0/8".parse().unwrap()]);
    let mut settings = ServerSettings::default();
    settings.trusted_proxies = proxies;
    let state = ServerState {
        tracker: system.tracker.clone(),
        session_caps: SessionCaps::new(10),
        wait_caps: Default::default(),
        access: access(),
        guesses: GuessThrottle::default(),
        tenants: None,
        tenant_store: StoreState::default(),
        reads: ReadResources::start(1, 1 << 30, None).unwrap(),
        filters: system.dispatcher.filters.clone(),
        forwarding: Default::default(),
        openrpc: nearhead::rpc::document(&Default::default()),
        metrics: Metrics::new(nearhead::rpc::method_names()).unwrap(),
        settings,
        traces: Default::default(),
        readiness: readiness(system.dispatcher.readiness.head.clone(), HeadAgeMax::Off),
    };
    let app = App::new().configure(|routes| http::configure(&state, routes));
    let app = test::init_service(app).await;
    for (peer, lines, is_let_in) in CASES {
        let post = test::TestRequest::post()
            .uri("/v3/secret")
            .insert_header(("content-type", "application/json"))
            .set_payload(r#"{"jsonrpc":"2.0","id":1,"method":"web3_clientVersion"}"#);
        let open = test::TestRequest::get()
            .uri("/ws/v3/secret")
            .insert_header(("connection", "upgrade"))
            .insert_header(("upgrade", "websocket"))
            .insert_header(("sec-websocket-version", "13"))
            .insert_header(("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="));
        for (mut request, is_session) in [(post, false), (open, true)] {
            let peer: SocketAddr = peer.parse().unwrap();
            request = request.peer_addr(peer);
            for line in *lines {
                request = request.append_header(*line);
            }
            let response = test::call_service(&app, request.to_request()).await;
            let case = format!("{peer} {lines:?}, session: {is_session}");
            let status = response.status().as_u16();
            check(&case, &(status != 403), is_let_in);
            // The request is used again, and would keep the buffer that it was read from.
            let request = response.request();
            check(&case, &(request.path(), request.headers().len()), &("/", 0));
            if status == 403 {
                let body = parse(&test::read_body(response).await);
                let message = "the IP address is not on the allowlist of this project ID";
                check(&case, &body["error"]["message"], &json!(message));
            }
        }
    }
}

#[test]
fn the_access_log_has_the_client_behind_a_proxy() {
    let server = Server::start(&[
        "--block-time",
        "0s",
        "--trusted-proxy",
        "127.0.0.0/8",
        "--log-format",
        "json",
        "--log-filter",
        "info,nearhead::access=debug",
    ]);
    for (id, header, client) in [
        ("behind", "x-forwarded-for: 192.0.2.1", json!("192.0.2.1")),
        (
            "forwarded",
            "forwarded: for=\"[2001:db8::1]:1\"",
            json!("2001:db8::1"),
        ),
        (
            "malformed",
            "x-forwarded-for: 192.0.2.1, unknown",
            Value::Null,
        ),
        ("direct", "x-other: 192.0.2.1", Value::Null),
    ] {
        let mut connection = server.connect();
        let id_line = format!("x-request-id: {id}");
        let request =
            connection.request(&["content-type: application/json", &id_line, header], b"");
        connection.send(&request);
        connection.receive();
        let line = server.process.output.wait_for(id, |text| {
            let id = format!(r#""request_id":"{id}""#);
            let line = text.lines().find(|line| line.contains(&id))?;
            Some(parse(line.as_bytes()))
        });
        check(id, &line["client"], &client);
        assert!(
            line["peer"].as_str().unwrap().starts_with("127.0.0.1:"),
            "{line}"
        );
    }
}
