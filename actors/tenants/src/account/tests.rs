#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

/// Argon2 is slow, and these tests verify no password.
const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdC4uLg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn account(named: &str, role: Role) -> Account {
    Account {
        name: name(named),
        role,
        password: HASH.to_owned().try_into().unwrap(),
        created: UnixMillis(1),
    }
}

fn login(number: u64, of: &str) -> Login {
    Login {
        digest: SecretDigest::of(&number.to_string()),
        account: name(of),
        created: UnixMillis(number),
        expires: UnixMillis(1_000 + number),
        last_seen: UnixMillis(number),
    }
}

fn token(named: &str, secret: &str, role: Role) -> ApiToken {
    ApiToken {
        name: name(named),
        digest: SecretDigest::of(secret),
        role,
        created: UnixMillis(1),
        expires: Some(UnixMillis(2_000)),
    }
}

fn make(accounts: &mut Accounts, changes: Vec<AccountChange>) {
    changes.into_iter().for_each(|change| accounts.make(change));
}

/// The administrator `ada`, and `bob`, a holder of tenant `t`, each with a token of the same name.
fn accounts() -> (Accounts, TenantId) {
    let tenant = TenantId::of_configured("t");
    let mut accounts = Accounts::default();
    for (named, role) in [("ada", Role::Admin), ("bob", Role::Holder(tenant))] {
        let made = accounts.plan_account(account(named, role)).unwrap();
        make(&mut accounts, made);
        let made = accounts.plan_token(token(named, named, role)).unwrap();
        make(&mut accounts, made);
    }
    (accounts, tenant)
}

#[test]
fn a_login_ends() {
    let (mut accounts, _) = accounts();
    let (one, other) = (login(1, "ada"), login(2, "bob"));
    for login in [one.clone(), other.clone()] {
        let begun = accounts.plan_login(login);
        make(&mut accounts, begun);
    }
    let found = accounts.login(one.digest, UnixMillis(1_000)).unwrap();
    assert_eq!((found.0, found.1.role), (&one, Role::Admin));
    assert!(accounts.login(one.digest, UnixMillis(1_001)).is_none());
    assert!(
        accounts
            .login(SecretDigest::of("x"), UnixMillis(1))
            .is_none()
    );
    let changed = accounts.plan_password("bob", HASH.to_owned().try_into().unwrap());
    make(&mut accounts, changed);
    assert!(
        accounts.login(other.digest, UnixMillis(2)).is_none(),
        "the password changed"
    );
    assert!(accounts.login(one.digest, UnixMillis(2)).is_some());
    let expired = accounts.plan_expiry(UnixMillis(1_001));
    assert_eq!(expired, [AccountChange::LoginEnded(one.digest)]);
    make(
        &mut accounts,
        vec![AccountChange::AccountRemoved(name("ada"))],
    );
    assert!(
        accounts.login(one.digest, UnixMillis(2)).is_none(),
        "the account is gone"
    );
    assert_eq!(accounts.logins().len(), 0);
    make(&mut accounts, vec![AccountChange::Login(Arc::new(one))]);
    assert_eq!(accounts.logins().len(), 0, "nobody has that login");
}

#[test]
fn a_new_login_ends_the_oldest() {
    let (mut accounts, _) = accounts();
    for number in 0..LOGINS_MAX as u64 + 2 {
        let begun = accounts.plan_login(login(number, "ada"));
        make(&mut accounts, begun);
    }
    let mut left: Vec<_> = accounts.logins().map(|login| login.created.0).collect();
    left.sort();
    assert_eq!(left, (2..LOGINS_MAX as u64 + 2).collect::<Vec<_>>());
}

#[test]
fn tokens_end_and_have_names_of_their_own() {
    let (mut accounts, tenant) = accounts();
    let of = |secret| SecretDigest::of(secret);
    assert_eq!(
        accounts.token(of("bob"), UnixMillis(1_999)).unwrap().name,
        name("bob")
    );
    assert!(accounts.token(of("bob"), UnixMillis(2_000)).is_none());
    for taken in [
        token("ada", "x", Role::Admin),
        token("x", "ada", Role::Admin),
    ] {
        let named = taken.name.clone();
        assert_eq!(
            accounts.plan_token(taken),
            Err(AccountError::NameTaken(named))
        );
    }
    let replaced = AccountChange::Token(Arc::new(token("bob", "new", Role::Holder(tenant))));
    make(&mut accounts, vec![replaced]);
    assert!(accounts.token(of("bob"), UnixMillis(1)).is_none());
    assert!(accounts.token(of("new"), UnixMillis(1)).is_some());
    assert_eq!(accounts.plan_expiry(UnixMillis(2_000)).len(), 2);
}

#[test]
fn holders_go_with_their_tenant() {
    let (mut accounts, tenant) = accounts();
    let removed = accounts.plan_removal_of(tenant);
    make(&mut accounts, removed);
    let names = |left: Vec<&Name>| left.into_iter().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(accounts.accounts().map(|one| &one.name).collect()),
        [name("ada")]
    );
    assert_eq!(
        names(accounts.tokens().map(|one| &one.name).collect()),
        [name("ada")]
    );
    assert!(
        accounts
            .token(SecretDigest::of("bob"), UnixMillis(1))
            .is_none()
    );
}

#[test]
fn accounts_are_bounded() {
    let mut accounts = Accounts::default();
    for number in 0..ACCOUNTS_MAX {
        let made = accounts
            .plan_account(account(&number.to_string(), Role::Admin))
            .unwrap();
        make(&mut accounts, made);
    }
    let error = accounts
        .plan_account(account("x", Role::Admin))
        .unwrap_err();
    assert_eq!(error, AccountError::TooMany(ACCOUNTS_MAX));
    let error = accounts
        .plan_account(account("1", Role::Admin))
        .unwrap_err();
    assert_eq!(error, AccountError::NameTaken(name("1")));
}
