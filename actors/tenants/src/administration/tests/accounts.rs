use serde_json::json;

use super::scene::*;
use crate::{administration::*, audit::Author};

const PASSWORD: &str = "correct horse battery";

fn text(text: &str) -> SecretText {
    text.to_owned().into()
}

fn set(name: &str, password: &str, present: Option<&str>) -> SetPassword {
    SetPassword {
        name: name.parse().unwrap(),
        password: text(password),
        present: present.map(text),
    }
}

/// A login with this password, as the web has it.
fn log_in(scene: &mut Scene, name: &str, password: &str) -> Option<NewLogin> {
    let name = name.to_owned();
    let stored = scene.run(FindPassword { name }, &nobody()).unwrap();
    let verified = stored.verify(&text(password))?;
    let lifetime = std::time::Duration::from_secs(60);
    Some(
        scene
            .run(BeginLogin { verified, lifetime }, &nobody())
            .unwrap(),
    )
}

#[test]
fn people_have_passwords() {
    let mut scene = Scene::new();
    let create = json!({"name": "zoe", "password": PASSWORD, "role": "holder", "tenant": "bob"});
    let made = scene.done(of_json::<CreateAccount>(create));
    assert_eq!(made.tenant, Some(scene.bob.view.tenant.clone()));
    let listed = scene.done(ListAccounts {}).accounts;
    let names: Vec<_> = listed.iter().map(|account| account.name.as_str()).collect();
    assert_eq!(names, ["ann", "root", "zoe"]);
    assert!(log_in(&mut scene, "zoe", "correct horse batterY").is_none());
    assert!(log_in(&mut scene, "nobody", PASSWORD).is_none());
    let login = log_in(&mut scene, "zoe", PASSWORD).unwrap();
    let zoe = Requester::new(login.identity, None, NOW);
    assert_eq!(scene.run(WhoAmI {}, &zoe).unwrap().role, RoleName::Holder);
    let listed = scene.done(ListAccounts {}).accounts;
    assert_eq!(listed[2].last_seen, Some(NOW));
    // Where they logged in is for the service and for administrators.
    let list = ListLogins {
        before: None,
        limit: 10,
    };
    let address = nobody().from.unwrap();
    let logins = scene.done(list).logins;
    assert_eq!(logins, [("zoe".parse().unwrap(), address)]);
    assert_eq!(scene.run(list, &zoe), Err(AdminError::NotAllowed));
    // Whoever changes their own gives the present one.
    let new = "another horse battery";
    for (present, expected) in [
        (None, Err(AdminError::WrongPassword)),
        (
            Some("correct horse batterY"),
            Err(AdminError::WrongPassword),
        ),
        (Some(PASSWORD), Ok(())),
    ] {
        assert_eq!(
            scene.run(set("zoe", new, present), &zoe),
            expected,
            "{present:?}"
        );
    }
    assert!(log_in(&mut scene, "zoe", PASSWORD).is_none());
    assert!(log_in(&mut scene, "zoe", new).is_some());
    // An administrator gives that of others without it, but not their own.
    scene.done(set("zoe", PASSWORD, None));
    assert!(log_in(&mut scene, "zoe", PASSWORD).is_some());
    let own = scene.run(set("root", PASSWORD, None), &admin());
    assert_eq!(own, Err(AdminError::WrongPassword));
    scene
        .run(set("root", PASSWORD, None), &command_line())
        .unwrap();
    scene.done(set("root", new, Some(PASSWORD)));
    assert!(log_in(&mut scene, "root", new).is_some());
}

/// A password that was verified before it changed lets nobody in.
#[test]
fn a_proof_of_an_old_password_is_no_proof() {
    let mut scene = Scene::new();
    let verified = VerifiedPassword {
        account: "ann".parse().unwrap(),
        hash: hash(),
    };
    scene.done(set("ann", PASSWORD, None));
    let lifetime = std::time::Duration::from_secs(60);
    let begin = BeginLogin {
        verified: verified.clone(),
        lifetime,
    };
    assert_eq!(
        scene.run(begin, &nobody()).map(|_| ()),
        Err(AdminError::WrongPassword)
    );
    let set = PreparedPassword {
        name: "ann".parse().unwrap(),
        password: hash(),
        verified: Some(verified),
    };
    let ann = scene.ann();
    assert_eq!(scene.run(set, &ann), Err(AdminError::WrongPassword));
}

#[test]
fn the_last_administrator_stays() {
    let mut scene = Scene::new();
    let remove = |name: &str| RemoveAccount {
        name: name.parse().unwrap(),
    };
    scene.done(remove("ann"));
    let last = || Err(AdminError::LastAdministrator("root".parse().unwrap()));
    assert_eq!(scene.run(remove("root"), &admin()), last());
    assert_eq!(scene.run(remove("root"), &command_line()), last());
    scene.done(PreparedAccount {
        name: "second".parse().unwrap(),
        password: hash(),
        role: RoleName::Admin,
        tenant: None,
    });
    scene.done(remove("root"));
    assert!(scene.run(remove("second"), &admin()).is_err());
}

#[test]
fn programs_have_tokens() {
    let mut scene = Scene::new();
    let create = json!({"name": "ci", "role": "holder", "tenant": "alice", "expires": NOW.0 + 10});
    let made = scene.done(of_json::<CreateToken>(create));
    let presented = crate::secret::SecretDigest::of(made.token.expose());
    let ask = Authenticate(Credential::Token(presented));
    let identity = scene.run(ask, &nobody()).unwrap().unwrap();
    assert_eq!(identity.author, Author::Token("ci".parse().unwrap()));
    let program = Requester::new(identity, None, NOW);
    assert_eq!(scene.run(ListKeys::default(), &program).unwrap().total, 1);
    assert_eq!(
        scene.run(ListTokens {}, &program),
        Err(AdminError::NotAllowed)
    );
    assert_eq!(scene.done(ListTokens {}).tokens, [made.view]);
    let later = at(nobody(), crate::UnixMillis(NOW.0 + 10));
    assert_eq!(scene.run(ask, &later), Ok(None));
    scene.done(RemoveToken {
        name: "ci".parse().unwrap(),
    });
    assert_eq!(scene.run(ask, &nobody()), Ok(None));
}
