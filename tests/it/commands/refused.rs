//! What is refused, with exit code and message.

use std::{fs, process::Command};

use super::place::{PASSWORD, Place, Ran, ran};
use crate::harness::{UnusedPort, nearhead, scratch};

/// A command, its exit code, and a part of its message.
type Row = (&'static str, i32, &'static str);

/// A tenant and keys that the rows name.
const BEFORE: [&str; 6] = [
    "tenant create acme",
    "key create --tenant acme --name web",
    "key create --tenant acme --name twin",
    "key create --tenant acme --name twin",
    "key create --tenant acme --name over",
    "key revoke over --yes",
];

/// Refusals that are the same on a data folder and on a running service.
const ROWS: &[Row] = &[
    // What does not exist.
    ("key show nothing", 1, "there is no key nothing"),
    (
        "key show 0123456789abcdef",
        1,
        "there is no key 0123456789abcdef",
    ),
    ("key create --tenant nobody", 1, "there is no tenant nobody"),
    ("key list --tenant nobody", 1, "there is no tenant nobody"),
    ("tenant show nobody", 1, "there is no tenant nobody"),
    ("tenant remove nobody --yes", 1, "there is no tenant nobody"),
    (
        "admin remove-account nobody --yes",
        1,
        "there is no account nobody",
    ),
    (
        "admin token remove nothing --yes",
        1,
        "there is no API token nothing",
    ),
    // What does not fit to what there is.
    ("tenant create acme", 1, "another tenant has the name acme"),
    ("key rotate over", 1, "was revoked"),
    ("key remove web --yes", 1, "revoke it before"),
    ("key limit over --units-per-day 5", 1, "was revoked"),
    (
        "key show twin",
        2,
        "twin stands for 2 keys: give the id of one of",
    ),
    // What makes no sense.
    ("key no-such-verb", 2, "no-such-verb"),
    (
        "key create",
        2,
        "--tenant <TENANT>; see nearhead key create --help",
    ),
    (
        "key create --tenant acme --expires 2020-01-01",
        2,
        "give a later one",
    ),
    ("key create --tenant acme --expires soon", 2, "90d"),
    (
        "key create --tenant acme --origin app.example.org",
        2,
        "SCHEME://HOST",
    ),
    (
        "key create --tenant acme --method eth_getlogs",
        2,
        "docs/methods.md",
    ),
    ("key create --tenant acme --contract 0x12", 2, "--contract"),
    (
        "key create --tenant acme --network 10.0.0.0/33",
        2,
        "10.0.0.0/8",
    ),
    (
        "key create --tenant acme --requests-per-second 0",
        2,
        "a whole number from 1",
    ),
    (
        "key create --tenant acme --units-per-second 5:x",
        2,
        "100:500",
    ),
    (
        "key create --tenant acme --units-per-day -1",
        2,
        "--units-per-day",
    ),
    (
        "key create --tenant acme --secret maybe",
        2,
        "required, optional or exempting",
    ),
    (
        "key create --tenant acme --public-key k:HS256:file",
        2,
        "KID:ES256:FILE",
    ),
    (
        "key create --tenant acme --public-key k:ES256:/no/such/file",
        2,
        "/no/such/file",
    ),
    ("key list --state new", 2, "active, expired or revoked"),
    ("key list --sort color", 2, "last-used"),
    ("key list --limit 501", 2, "limit"),
    ("key limit web", 2, "give at least one option"),
    (
        "key limit web --origin https://a.example --no-origin",
        2,
        "--no-origin",
    ),
    ("key revoke web", 2, "give --yes"),
    ("key revoke", 2, "<KEY>..."),
    ("key remove over", 2, "give --yes"),
    ("key rotate web --old-expires 1", 2, "24h"),
    ("key usage web --last 90d", 2, "31d"),
    (
        "key usage web --by color",
        2,
        "time, key, method and outcome",
    ),
    ("tenant create", 2, "<NAME>"),
    ("tenant limit acme", 2, "give at least one option"),
    ("tenant limit acme --weight 0", 2, "--weight"),
    ("tenant limit acme --weight 1001", 2, "1 to 1000"),
    ("tenant remove acme", 2, "give --yes"),
    ("admin remove-account somebody", 2, "give --yes"),
    (
        "admin token create",
        2,
        "see nearhead admin token create --help",
    ),
    (
        "key list --chain-id 1 --admin-url http://127.0.0.1:1",
        2,
        "--data-dir",
    ),
];

#[test]
fn refusals_are_exact() {
    let public_key = scratch("commands-refused").join("key.pem");
    fs::write(&public_key, "no public key").unwrap();
    let key = format!("k:ES256:{}", public_key.display());
    for place in Place::both("commands-refused") {
        for line in BEFORE {
            let ran = place.run(&words(line));
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line}");
        }
        for row in ROWS {
            check_row(&place.run(&words(row.0)), row);
        }
        let origins = (0..31).map(|number| format!("--origin=https://{number}.example"));
        let mut many: Vec<String> = words("key limit web")
            .iter()
            .map(ToString::to_string)
            .collect();
        many.extend(origins);
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        check_row(&place.run(&many), &("31 origins", 2, "at most 30 entries"));
        let pem = ["key", "limit", "web", "--public-key", &key];
        check_row(&place.run(&pem), &("a file", 2, "in PEM"));
        check_passwords(&place);
        // Nothing of all that was done.
        let keys = place.json(&["key", "list", "--tenant", "acme"]);
        assert_eq!(keys["total"], 4, "{keys}");
        let web = place.json(&["key", "show", "web"]);
        let settings = web["settings"].to_string();
        assert_eq!(settings, r#"{"allow":{},"publicKeys":[],"quota":{}}"#);
    }
}

fn check_passwords(place: &Place) {
    let create = words("admin create-account alice");
    for (password, code, part) in [
        ("too short", 2, "at least 12 characters"),
        ("", 2, "at least 12 characters"),
        (PASSWORD, 0, ""),
        (PASSWORD, 1, "the name alice is in use already"),
    ] {
        check_row(
            &place.run_with(&create, password),
            &("create-account alice", code, part),
        );
    }
    let reset = words("admin reset-password bob");
    check_row(
        &place.run_with(&reset, PASSWORD),
        &("reset-password bob", 1, "there is no account bob"),
    );
    let remove = words("admin remove-account alice --yes");
    check_row(
        &place.run(&remove),
        &("remove-account alice", 1, "the only administrator"),
    );
}

#[track_caller]
fn check_row(ran: &Ran, (line, code, part): &Row) {
    let Ran {
        code: found,
        out,
        err,
    } = ran;
    assert_eq!(*found, Some(*code), "{line}: {err}{out}");
    assert!(err.contains(part), "{line}: {part:?} is not in {err}");
    if *code != 0 {
        assert_eq!(
            (out.as_str(), err.lines().count()),
            ("", 1),
            "{line}: {err}"
        );
        assert!(err.starts_with("nearhead: "), "{line}: {err}");
    }
    assert!(!err.contains(PASSWORD), "{line}: {err}");
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// A group without a verb says which there are.
#[test]
fn groups_need_a_verb() {
    for (line, see) in [
        ("key", "nearhead key --help"),
        ("tenant", "nearhead tenant --help"),
        ("admin", "nearhead admin --help"),
        ("admin token", "nearhead admin token --help"),
    ] {
        let ran = ran(nearhead(words(line)), "");
        check_row(&ran, &(line, 2, "requires a subcommand"));
        assert!(ran.err.contains(see), "{}", ran.err);
    }
}

/// Where a command works.
#[test]
fn places_are_checked() {
    let service = Place::service("commands-places");
    let Place::Service {
        root,
        token,
        server,
    } = &service
    else {
        panic!("no service")
    };
    let root = root.to_str().unwrap();
    let live = format!("http://{}", server.admin.unwrap());
    let unused = UnusedPort::take();
    let [nobody, public] =
        [unused.address(), server.address].map(|address| format!("http://{address}"));
    let empty = scratch("commands-empty");
    let several = scratch("commands-several");
    for name in ["1-aaaaaaaa", "5-bbbbbbbb"] {
        fs::create_dir(several.join(name)).unwrap();
    }
    let [empty, several] = [&empty, &several].map(|path| path.to_str().unwrap());
    let file = scratch("commands-token").join("token");
    fs::write(&file, format!("{token}\n")).unwrap();
    let file = file.to_str().unwrap();
    for (arguments, code, part) in [
        // The right ways.
        (vec!["--admin-url", &live, "--token", token], 0, ""),
        (vec!["--admin-url", &live, "--token-file", file], 0, ""),
        // A running service has the folder.
        (
            vec!["--data-dir", root],
            2,
            "give its --admin-url instead of --data-dir",
        ),
        (
            vec!["--data-dir", empty],
            2,
            "has no data of a chain: give the --data-dir",
        ),
        (vec!["--data-dir", "/no/such/folder"], 2, "/no/such/folder"),
        (
            vec!["--data-dir", several],
            2,
            "give --chain-id, one of 1, 5",
        ),
        (
            vec!["--data-dir", several, "--chain-id", "7"],
            2,
            "no data of chain 7",
        ),
        (vec!["--data-dir", several, "--chain-id", "5"], 0, ""),
        (
            vec!["--data-dir", root, "--token", token],
            2,
            "cannot be used with",
        ),
        (
            vec!["--data-dir", root, "--admin-url", &live],
            2,
            "cannot be used with",
        ),
        (vec!["--admin-url", &live], 2, "an API token is needed for"),
        (
            vec!["--admin-url", &live, "--token", "a b"],
            2,
            "--token (hidden)",
        ),
        (
            vec!["--admin-url", &live, "--token-file", "/no/file"],
            2,
            "/no/file",
        ),
        (
            vec!["--admin-url", &live, "--token", "wrong"],
            1,
            "does not accept the API token",
        ),
        (
            vec!["--admin-url", &nobody, "--token", token],
            1,
            "no service answers at",
        ),
        (
            vec!["--admin-url", &public, "--token", token],
            1,
            "does not answer as an admin API",
        ),
        (
            vec!["--admin-url", "http://192.0.2.1", "--token", token],
            2,
            "in the clear",
        ),
        (
            vec!["--admin-url", "ftp://127.0.0.1", "--token", token],
            2,
            "https://",
        ),
        (
            vec!["--admin-url", "http://a:b@127.0.0.1", "--token", token],
            2,
            "https://",
        ),
        (vec!["--admin-url", "here", "--token", token], 2, "https://"),
    ] {
        let mut command: Command = nearhead(["key", "list"]);
        command.args(&arguments);
        let ran = ran(command, "");
        let line = arguments.join(" ");
        assert_eq!(ran.code, Some(code), "{line}: {}", ran.err);
        assert!(
            ran.err.contains(part),
            "{line}: {part:?} is not in {}",
            ran.err
        );
        assert!(!ran.err.contains(token.as_str()), "{line}: {}", ran.err);
    }
}

/// A holder sees and rotates the keys of one tenant, and does nothing else.
#[test]
fn holders_do_little() {
    let place = Place::service("commands-holder");
    for line in [
        "tenant create acme",
        "tenant create other",
        "key create --tenant acme --name own",
        "key create --tenant other --name theirs",
    ] {
        assert_eq!(place.run(&words(line)).code, Some(0), "{line}");
    }
    let holder = place.token(&["--holder-of", "acme"]);
    let Place::Service { server, root, .. } = place else {
        panic!("no service")
    };
    let token = holder;
    let place = Place::Service {
        server,
        token,
        root,
    };
    let keys = place.json(&["key", "list"]);
    assert_eq!(
        (&keys["total"], &keys["keys"][0]["name"]),
        (&1.into(), &"own".into())
    );
    let only = "only administrators may do this";
    for (line, code, part) in [
        ("key show own", 0, ""),
        ("key rotate own", 0, ""),
        ("key usage own", 0, ""),
        ("tenant show acme", 0, ""),
        ("key show theirs", 1, "there is no key theirs"),
        ("tenant show other", 1, "there is no tenant other"),
        ("key create --tenant acme", 1, only),
        ("key limit own --units-per-day 5", 1, only),
        ("key revoke own --yes", 1, only),
        ("key remove own --yes", 1, only),
        ("tenant create more", 1, only),
        ("tenant limit acme --sessions 5", 1, only),
        ("admin list", 1, only),
        ("admin token create more", 1, only),
    ] {
        check_row(&place.run(&words(line)), &(line, code, part));
    }
}
