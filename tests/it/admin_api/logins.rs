//! How often passwords may be tried, and how often people may log in.

use serde_json::{Value, json};

use super::client::{Admin, PASSWORD, send};
use crate::harness::{Server, check, scratch};

/// Requests come from the addresses that the tests choose.
const PROXIED: [&str; 4] = ["--block-time", "0s", "--trusted-proxy", "127.0.0.1"];

/// Where the owner of `root` logs in.
const HOME: &str = "203.0.113.1";

/// Networks that are tried before all strangers together have to wait.
const STRANGERS: usize = 60;

/// A server that knows the home of its only account.
fn server() -> Server {
    let server = Server::start(&PROXIED);
    drop(Admin::first(&server));
    log_in(&server, HOME).expect("the owner logs in at home");
    server
}

/// Logs `root` in from an address.
///
/// # Errors
/// The status and the code of the refusal.
fn log_in(server: &Server, from: &str) -> Result<(), (u16, Value)> {
    try_password(server, "root", PASSWORD, from)
}

fn try_password(
    server: &Server,
    name: &str,
    password: &str,
    from: &str,
) -> Result<(), (u16, Value)> {
    let mut nobody = Admin::nobody(server);
    nobody.headers = vec![format!("x-forwarded-for: {from}")];
    let body = json!({"name": name, "password": password});
    let (response, answer) = nobody.send("POST", "/login", &body);
    match response.status {
        200 => Ok(()),
        status => {
            let is_throttled = status == 429;
            check(
                "a wait",
                &response.header("retry-after").is_some(),
                &is_throttled,
            );
            Err((status, answer["error"]["code"].clone()))
        }
    }
}

/// Guesses until that has to wait; more are allowed only if this takes long.
fn guess(case: &str, at_once: usize, guess: impl Fn(usize) -> Result<(), (u16, Value)>) {
    for at in 0..2 * at_once {
        let found = guess(at);
        if found == throttled() {
            assert!(at >= at_once, "{case}: {at}");
            return;
        }
        check(case, &found, &Err((401, json!("wrong_login"))));
    }
    panic!("{case}: nothing has to wait");
}

/// Guesses from a network of its own each time, until all of them have to wait.
fn guess_from_everywhere(server: &Server, name: &str) {
    guess(name, STRANGERS, |at| {
        try_password(
            server,
            name,
            "a wrong password",
            &format!("2001:db8:{at:x}::1"),
        )
    });
}

/// Checks that the owner has to wait elsewhere. From time to time, one attempt is allowed.
fn check_elsewhere_waits(server: &Server) {
    let mut networks = 1..5;
    let waits = networks.any(|at| log_in(server, &format!("192.0.2.{at}")) == throttled());
    assert!(waits, "strangers have used up what is allowed");
}

fn throttled() -> Result<(), (u16, Value)> {
    Err((429, json!("throttled")))
}

#[test]
fn many_networks_guess_slowly_and_keep_no_owner_out() {
    let server = server();
    // Whether there is an account shows nowhere.
    for name in ["root", "nobody"] {
        guess_from_everywhere(&server, name);
    }
    // The page of the log-in is no way around it.
    let page = |at: usize| {
        let headers = [
            format!("x-forwarded-for: 198.51.100.{at}"),
            "content-type: application/x-www-form-urlencoded".to_owned(),
        ];
        let form = b"name=root&password=a+wrong+password";
        send(server.admin.unwrap(), "POST", "/login", &headers, form)
    };
    let page = (1..5).map(page).find(|page| page.status == 429);
    assert!(page.expect("pages wait").header("retry-after").is_some());
    // Even the right password waits where nobody has logged in before; at home it does not.
    check_elsewhere_waits(&server);
    check("at home", &log_in(&server, HOME), &Ok(()));
}

#[test]
fn one_network_guesses_slowly() {
    let server = server();
    for (from, name) in [
        ("192.0.2.1", "root"),
        ("192.0.2.2", "nobody"),
        (HOME, "root"),
    ] {
        guess(from, 10, |_| {
            try_password(&server, name, "a wrong password", from)
        });
    }
    // One that guesses keeps nobody else out.
    check("elsewhere", &log_in(&server, "198.51.100.1"), &Ok(()));
    // One network tries many accounts.
    guess("many", 30, |at| {
        let name = format!("account {at}");
        try_password(&server, &name, "a wrong password", "192.0.2.3")
    });
}

/// Home is known after a restart, too.
#[test]
fn a_restart_lets_strangers_keep_nobody_out() {
    let folder = scratch("known-networks");
    let arguments = ["--trusted-proxy", "127.0.0.1"];
    let server = Server::on_data(&folder, &arguments);
    drop(Admin::first(&server));
    check("at home", &log_in(&server, HOME), &Ok(()));
    server.process.terminate();
    assert!(server.process.wait().0.success());
    let server = Server::on_data(&folder, &arguments);
    guess_from_everywhere(&server, "root");
    check_elsewhere_waits(&server);
    check("at home", &log_in(&server, HOME), &Ok(()));
}

/// Someone with an account writes no more entries of the audit by logging in again and again.
#[test]
fn logins_are_limited() {
    let server = server();
    let mut done = 1;
    while done < 60 && log_in(&server, HOME) == Ok(()) {
        done += 1;
    }
    assert!((30..60).contains(&done), "{done}");
    // From another network as well.
    check_elsewhere_waits(&server);
}

/// An account that is removed while its password is verified: the login fails, or it ends.
#[test]
fn a_login_does_not_outlive_its_account() {
    let server = Server::start(&PROXIED);
    let mut admin = Admin::start(&server);
    for round in 0..8 {
        let account = json!({"name": "gone", "password": PASSWORD, "role": "admin"});
        admin.done("POST", "/accounts", &account, 201);
        let from = format!("192.0.2.{round}");
        std::thread::scope(|scope| {
            let logins: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut other = Admin::nobody(&server);
                        other.headers = vec![format!("x-forwarded-for: {from}")];
                        let body = json!({"name": "gone", "password": PASSWORD});
                        let (response, answer) = other.send("POST", "/login", &body);
                        let refused = &answer["error"]["code"];
                        let is_known = response.status == 200 || refused == "wrong_login";
                        assert!(is_known, "{} {answer}", response.status);
                        super::client::cookie_of(&response).map(|cookie| (other, cookie))
                    })
                })
                .collect();
            admin.done("DELETE", "/accounts/gone", &Value::Null, 204);
            for login in logins {
                if let Some((mut other, cookie)) = login.join().unwrap() {
                    other.with_cookie(&cookie);
                    other.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
                }
            }
        });
    }
}
