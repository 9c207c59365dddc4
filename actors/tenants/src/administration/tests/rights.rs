use std::collections::BTreeSet;

use super::scene::*;
use crate::administration::*;

/// Runs an operation in a scene of its own; `ok`, or the code of the error.
type Case = Box<dyn Fn(&mut Scene, &Requester) -> &'static str>;

fn case<O: Operation>(make: impl Fn(&mut Scene) -> O + 'static) -> Case {
    Box::new(move |scene, by| {
        let operation = make(scene);
        scene
            .run(operation, by)
            .map_or_else(|error| error.code(), |_| "ok")
    })
}

/// The operation about the tenant alice or its key; what the administrator, its holder, the holder
/// of another tenant and nobody get.
fn table() -> Vec<(&'static str, Case, [&'static str; 4])> {
    let alice = || "alice".parse::<TenantRef>().unwrap();
    let name = |name: &str| name.parse().unwrap();
    let tenant = ["ok", "ok", "unknown_tenant", "not_logged_in"];
    let key = ["ok", "ok", "unknown_key", "not_logged_in"];
    let own = ["ok", "ok", "ok", "not_logged_in"];
    let admin = ["ok", "not_allowed", "not_allowed", "not_logged_in"];
    let anybody = ["ok"; 4];
    vec![
        ("list tenants", case(|_| ListTenants::default()), own),
        (
            "get tenant",
            case(move |_| GetTenant { id: alice() }),
            tenant,
        ),
        ("create tenant", case(|_| create_tenant("carol")), admin),
        (
            "update tenant",
            case(move |_| UpdateTenant {
                if_version: None,
                id: alice(),
                name: None,
                limits: LimitsPatch::default(),
            }),
            admin,
        ),
        (
            "remove tenant",
            case(move |_| RemoveTenant { id: alice() }),
            admin,
        ),
        ("list keys", case(|_| ListKeys::default()), own),
        (
            "list keys of a tenant",
            case(move |_| ListKeys {
                tenant: Some(alice()),
                ..ListKeys::default()
            }),
            tenant,
        ),
        (
            "get key",
            case(|scene| GetKey {
                id: scene.alice.view.id,
            }),
            key,
        ),
        (
            "create key",
            case(|_| create_key("alice", "another")),
            admin,
        ),
        (
            "update key",
            case(|scene| update_key(scene.alice.view.id)),
            admin,
        ),
        (
            "rotate key",
            case(|scene| RotateKey {
                id: scene.alice.view.id,
                overlap: None,
            }),
            key,
        ),
        (
            "revoke key",
            case(|scene| RevokeKey {
                id: scene.alice.view.id,
            }),
            admin,
        ),
        (
            "remove key",
            case(|scene| {
                let id = scene.alice.view.id;
                scene.done(RevokeKey { id });
                RemoveKey { id }
            }),
            admin,
        ),
        ("get usage", case(|_| GetUsage::default()), own),
        (
            "get usage of a tenant",
            case(move |_| GetUsage {
                tenant: Some(alice()),
                ..GetUsage::default()
            }),
            tenant,
        ),
        (
            "get usage of a key",
            case(|scene| GetUsage {
                key: Some(scene.alice.view.id),
                ..GetUsage::default()
            }),
            key,
        ),
        ("list audit", case(|_| ListAudit::default()), own),
        (
            "list audit of a tenant",
            case(move |_| ListAudit {
                tenant: Some(alice()),
                ..ListAudit::default()
            }),
            tenant,
        ),
        ("list accounts", case(|_| ListAccounts {}), admin),
        (
            "create account",
            case(move |_| PreparedAccount {
                name: name("carl"),
                password: hash(),
                role: RoleName::Admin,
                tenant: None,
            }),
            admin,
        ),
        (
            "remove account",
            case(move |_| RemoveAccount { name: name("ann") }),
            admin,
        ),
        (
            // Holders set their own, which asks for the present one.
            "set password of ann",
            case(move |_| PreparedPassword {
                name: name("ann"),
                password: hash(),
                verified: None,
            }),
            ["ok", "wrong_password", "not_allowed", "not_logged_in"],
        ),
        (
            "set own password of ann",
            case(move |_| PreparedPassword {
                name: name("ann"),
                password: hash(),
                verified: Some(VerifiedPassword {
                    account: name("ann"),
                    hash: hash(),
                }),
            }),
            ["ok", "ok", "not_allowed", "not_logged_in"],
        ),
        ("list tokens", case(|_| ListTokens {}), admin),
        (
            "create token",
            case(move |_| CreateToken {
                name: name("ci"),
                role: RoleName::Admin,
                tenant: None,
                expires: None,
            }),
            admin,
        ),
        (
            "remove token",
            case(move |scene| {
                scene.done(CreateToken {
                    name: name("ci"),
                    role: RoleName::Admin,
                    tenant: None,
                    expires: None,
                });
                RemoveToken { name: name("ci") }
            }),
            admin,
        ),
        ("who am I", case(|_| WhoAmI {}), own),
        ("has accounts", case(|_| HasAccounts), anybody),
        (
            "find password",
            case(|_| FindPassword {
                name: "ann".to_owned(),
            }),
            anybody,
        ),
        (
            "refuse login",
            case(|_| RefuseLogin {
                name: "ann".to_owned(),
            }),
            anybody,
        ),
        (
            "claim",
            case(move |_| ClaimFirstAccount {
                name: name("eve"),
                password: hash(),
            }),
            ["has_accounts"; 4],
        ),
    ]
}

#[test]
fn everybody_may_do_what_the_table_says() {
    let mut codes = BTreeSet::new();
    for (what, case, expected) in table() {
        for (number, expected) in expected.into_iter().enumerate() {
            let mut scene = Scene::new();
            let requesters = [admin(), scene.ann(), scene.ben(), nobody()];
            let by = requesters[number].clone();
            let verbs = scene.verbs().len();
            let found = case(&mut scene, &by);
            assert_eq!(found, expected, "{what} by {by:?}");
            codes.insert(found);
            let is_prepared = matches!(what, "remove token" | "remove key");
            if found != "ok" && !is_prepared {
                assert_eq!(scene.verbs().len(), verbs, "{what}: nothing was done");
            }
        }
    }
    assert!(codes.len() > 5, "{codes:?}");
}

/// A program with an API token has the rights of its role, but no password.
#[test]
fn a_token_of_a_holder_sets_no_password() {
    let mut scene = Scene::new();
    let token = Requester {
        author: crate::audit::Author::Token("ann".parse().unwrap()),
        ..scene.ann()
    };
    let set = PreparedPassword {
        name: "ann".parse().unwrap(),
        password: hash(),
        verified: None,
    };
    assert_eq!(scene.run(set, &token), Err(AdminError::NotAllowed));
}

/// The command line may forget a password: it gives none of the present ones, also not of an
/// administrator. Where there is no administrator, it makes one.
#[test]
fn only_the_command_line_resets_a_password() {
    let mut scene = Scene::new();
    let reset = |name: &str| SetPassword {
        name: name.parse().unwrap(),
        password: "correct horse battery".to_owned().into(),
        present: None,
    };
    for (by, expected) in [
        (admin(), Err(AdminError::WrongPassword)),
        (scene.ann(), Err(AdminError::NotAllowed)),
        (nobody(), Err(AdminError::NotLoggedIn)),
        (command_line(), Ok(())),
    ] {
        assert_eq!(scene.run(reset("root"), &by), expected, "{by:?}");
    }
    let first = CreateAccount {
        name: "new".parse().unwrap(),
        password: "correct horse battery".to_owned().into(),
        role: RoleName::Admin,
        tenant: None,
    };
    scene.run(first, &command_line()).unwrap();
    let accounts = scene.done(ListAccounts {}).accounts;
    let new = accounts
        .iter()
        .find(|account| account.name.as_str() == "new");
    assert_eq!(new.map(|account| account.role), Some(RoleName::Admin));
}

#[test]
fn a_holder_sees_only_their_tenant() {
    let mut scene = Scene::new();
    let ann = scene.ann();
    let keys = scene.run(ListKeys::default(), &ann).unwrap();
    let ids: Vec<_> = keys.keys.iter().map(|key| key.id).collect();
    assert_eq!((ids, keys.total), (vec![scene.alice.view.id], 1));
    let tenants = scene.run(ListTenants::default(), &ann).unwrap();
    let names: Vec<_> = tenants
        .tenants
        .iter()
        .map(|tenant| tenant.name.as_str())
        .collect();
    assert_eq!((names, tenants.total), (vec!["alice"], 1));
    let audit = scene.run(ListAudit::default(), &ann).unwrap();
    let tenant = Some(scene.alice.view.tenant.id);
    assert!(audit.entries.iter().all(|entry| entry.tenant == tenant));
    assert!(audit.entries.iter().all(|entry| entry.from.is_none()));
    assert_eq!(audit.entries.len(), 3, "tenant, key and account");
}
