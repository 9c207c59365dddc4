use std::time::Duration;

use super::scene::*;
use crate::{UnixMillis, administration::*, secret::SecretDigest};

fn log_in(scene: &mut Scene, name: &str) -> NewLogin {
    let verified = VerifiedPassword {
        account: name.parse().unwrap(),
        hash: hash(),
    };
    let lifetime = Duration::from_secs(3_600);
    scene
        .run(BeginLogin { verified, lifetime }, &nobody())
        .unwrap()
}

fn after(seconds: u64) -> UnixMillis {
    UnixMillis(NOW.0 + seconds * 1_000)
}

#[test]
fn a_cookie_says_who_it_is_until_it_ends() {
    let mut scene = Scene::new();
    let login = log_in(&mut scene, "ann");
    assert_eq!(login.expires, after(3_600));
    let cookie = SecretDigest::of(login.cookie.expose());
    let ask = Authenticate(Credential::Cookie(cookie));
    for (seconds, is_known) in [(0, true), (3_599, true), (3_600, false)] {
        let found = scene.run(ask, &at(nobody(), after(seconds))).unwrap();
        assert_eq!(found.is_some(), is_known, "after {seconds} s");
        assert!(found.is_none_or(|found| found == login.identity));
    }
    // Neither the cookie itself nor another credential is its digest.
    let token = Authenticate(Credential::Token(cookie));
    assert_eq!(scene.run(token, &nobody()), Ok(None));
    scene.run(EndLogin { cookie }, &nobody()).unwrap();
    assert_eq!(scene.run(ask, &nobody()), Ok(None));
    let other = log_in(&mut scene, "ann");
    scene.done(RemoveAccount {
        name: "ann".parse().unwrap(),
    });
    let cookie = SecretDigest::of(other.cookie.expose());
    let ask = Authenticate(Credential::Cookie(cookie));
    assert_eq!(scene.run(ask, &nobody()), Ok(None));
}

/// Each time that a login is seen would be a write: one a minute is enough.
#[test]
fn a_login_is_seen_once_a_minute() {
    let mut scene = Scene::new();
    let login = log_in(&mut scene, "ann");
    let cookie = SecretDigest::of(login.cookie.expose());
    let ask = Authenticate(Credential::Cookie(cookie));
    for (seconds, seen) in [(59, 0), (60, 60), (100, 60), (120, 120)] {
        scene.run(ask, &at(nobody(), after(seconds))).unwrap();
        let mut reopened = open(&scene.store);
        let accounts = ListAccounts {}
            .run(&mut reopened, &admin())
            .unwrap()
            .accounts;
        assert_eq!(
            accounts[0].last_seen,
            Some(after(seen)),
            "after {seconds} s"
        );
    }
    // A store that fails locks nobody out.
    *scene.store.fails.lock().unwrap() = true;
    let found = scene.run(ask, &at(nobody(), after(600))).unwrap();
    assert_eq!(found, Some(login.identity));
}

#[test]
fn what_is_over_is_removed() {
    let mut scene = Scene::new();
    log_in(&mut scene, "ann");
    scene.administration.expire(after(3_599)).unwrap();
    assert_eq!(scene.administration.accounts.logins().len(), 1);
    scene.administration.expire(after(3_600)).unwrap();
    assert_eq!(scene.administration.accounts.logins().len(), 0);
}

#[test]
fn the_first_account_is_claimed_once() {
    let mut administration = open(&SharedStore::default());
    let mut has = || HasAccounts.run(&mut administration, &nobody());
    assert_eq!(has(), Ok(false));
    let claim = |administration: &mut Administration, name: &str| {
        let name = name.parse().unwrap();
        let password = hash();
        ClaimFirstAccount { name, password }.run(administration, &nobody())
    };
    let made = claim(&mut administration, "root").unwrap();
    assert_eq!(made.role, RoleName::Admin);
    assert_eq!(
        claim(&mut administration, "eve"),
        Err(AdminError::HasAccounts)
    );
    assert_eq!(HasAccounts.run(&mut administration, &nobody()), Ok(true));
}
