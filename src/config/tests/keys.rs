//! Keys that the configuration names.

use super::*;

#[test]
fn a_flag_holds_one_key_and_a_variable_several() {
    let keys = |resolved: &Resolved| {
        let keys = resolved.config.api_keys.iter();
        keys.map(|key| (key.tenant.clone(), key.secret().to_owned()))
            .collect::<Vec<_>>()
    };
    let expected = [("alice", "a"), ("key-2", "b"), ("alice", "c")]
        .map(|(name, secret)| (name.into(), secret.into()));
    let flags = [
        "--api-key",
        "alice=a",
        "--api-key",
        "b",
        "--api-key",
        "alice=c",
    ];
    assert_eq!(keys(&resolved(&flags, &[], None)), expected);
    assert_eq!(
        keys(&resolved(
            &[],
            &[("NEARHEAD_API_KEY", "alice=a, b,alice=c")],
            None
        )),
        expected
    );
}

#[test]
fn an_unnamed_key_joins_no_other_tenant() {
    for (given, expected) in [
        ("key-2=a,b", "key-2, key-3"),
        ("a,key-1=b", "key-2, key-1"),
        ("a,b,key-2=c,d", "key-1, key-3, key-2, key-4"),
        ("alice=a,bob=b,alice=c", "alice, bob"),
    ] {
        let resolved = resolved(&["--api-key", given], &[], None);
        let count = given.split(',').count();
        let shown = format!("{count} hidden ({expected})");
        assert_eq!(setting(&resolved, "api-key").value, shown, "{given}");
    }
}

#[test]
fn the_dev_key_is_added_only_on_loopback_addresses() {
    for listen in ["127.0.0.1:0", "127.3.2.1:0", "[::1]:0"] {
        let resolved = resolved(&["--listen", listen], &[], None);
        assert_eq!(
            resolved.config.api_keys,
            [ApiKey::default_dev()],
            "{listen}"
        );
    }
    // Without a key, nobody is let in until one is made.
    let files = ["--source=files", "--genesis=g", "--chain=c"];
    let node = ["--source=node", "--node=http://127.0.0.1:1"];
    for arguments in [
        &["--listen", "0.0.0.0:1"][..],
        &["--listen", "[::]:1"],
        &files,
        &node,
    ] {
        let resolved = resolved(arguments, &[], None);
        assert_eq!(resolved.config.api_keys, [], "{arguments:?}");
    }
    let given = resolved(&["--api-key", "dev=dev"], &[], None);
    assert_eq!(given.config.api_keys, [ApiKey::new("dev", "dev")]);
    assert!(
        !given.config.api_keys[0].is_default(),
        "it is like any other"
    );
    let given = resolved(&["--api-key", "alice=a"], &[], None);
    assert_eq!(
        given.config.api_keys,
        [ApiKey::new("alice", "a")],
        "a key that is given takes its place"
    );
}
