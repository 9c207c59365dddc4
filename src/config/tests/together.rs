//! Values that are valid one by one, but not together.

use super::*;

/// A source node with this many nodes and these flags.
fn following(nodes: usize, flags: &[&str]) -> Result<Command, CommandError> {
    let nodes: Vec<String> = (1..=nodes)
        .map(|at| format!("--node=http://127.0.0.{at}:1"))
        .collect();
    let mut all = vec!["--source=node", "--api-key=k"];
    all.extend(
        nodes
            .iter()
            .map(String::as_str)
            .chain(flags.iter().copied()),
    );
    command(&all, &[], None)
}

/// Sixty-four times the same hex digit.
fn hash(digit: char) -> String {
    format!("0x{}", digit.to_string().repeat(64))
}

#[test]
fn a_quorum_is_at_most_all_nodes() {
    for (nodes, quorum, error) in [
        (1, "auto", ""),
        (1, "1", ""),
        (3, "1", ""),
        (3, "3", ""),
        (16, "16", ""),
        (
            1,
            "2",
            "--quorum 2 is more than the number of nodes, 1: add --node URL, or lower --quorum",
        ),
        (
            3,
            "4",
            "--quorum 4 is more than the number of nodes, 3: add --node URL, or lower --quorum",
        ),
        (
            16,
            "17",
            r#"--quorum "17": expected auto or a whole number from 1 to the number of nodes"#,
        ),
    ] {
        let found = following(nodes, &["--quorum", quorum]);
        let found = found.err().map(|error| error.to_string());
        assert_eq!(found.unwrap_or_default(), error, "{quorum} of {nodes}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    use nearhead_chain::network::Network::{Mainnet, Sepolia};
    let [a, b] = ['1', '2'].map(hash);
    let genesis = Sepolia.genesis_hash();
    let sixteen: Vec<String> = (0..16).map(|at| format!("{at}:{a}")).collect();
    let seventeen = [sixteen.join(","), format!("16:{a}")].join(",");
    let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
    let trusted = |value: &str| flag("trusted-block", &value);
    let cases: [(&[String], &str); 11] = [
        (&[flag("network", &Sepolia)], ""),
        (
            &[flag("network", &Sepolia), flag("chain-id", &11_155_111)],
            "",
        ),
        (
            &[flag("network", &Sepolia), flag("chain-id", &1)],
            "--chain-id 1 contradicts --network sepolia, whose chain id is 11155111: give one of them",
        ),
        (
            &[
                flag("network", &Sepolia),
                trusted(&format!("0:{genesis}, 5:{a}")),
            ],
            "",
        ),
        (
            &[flag("network", &Mainnet), trusted(&format!("5:{a},0:{b}"))],
            "--trusted-block 0:0x2222222222222222222222222222222222222222222222222222222222222222 \
             contradicts --network mainnet, whose genesis is \
             0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3: give one of them",
        ),
        (&[trusted(&format!("0:{b}"))], ""),
        (
            &[
                trusted(&format!("5:{a}")),
                trusted(&format!("5:{a}")),
                trusted(&format!("6:{b}")),
            ],
            "",
        ),
        (
            &[
                trusted(&format!("5:{a}")),
                trusted(&format!("6:{a}")),
                trusted(&format!("5:{b}")),
            ],
            "--trusted-block gives two hashes for block 5: give the right one",
        ),
        (&[trusted(&sixteen.join(","))], ""),
        (
            &[trusted(&[sixteen.join(","), format!("3:{a}")].join(","))],
            "",
        ),
        (&[trusted(&seventeen)], "--trusted-block \""),
    ];
    for (flags, error) in cases {
        let texts: Vec<&str> = flags.iter().map(String::as_str).collect();
        let found = following(1, &texts).err().map(|error| error.to_string());
        let found = found.unwrap_or_default();
        match error.ends_with('"') {
            true => assert!(found.starts_with(error), "{flags:?}: {found}"),
            false => assert_eq!(found, error, "{flags:?}"),
        }
    }
}

#[test]
fn a_trusted_block_is_a_number_and_a_hash() {
    let a = hash('a');
    let block = |number| (number, B256::repeat_byte(0xaa));
    for (text, expected) in [
        (format!("0:{a}"), Some(vec![block(0)])),
        (format!("{}:{a}", u64::MAX), Some(vec![block(u64::MAX)])),
        (format!(" 7:{a} , 5:{a}"), Some(vec![block(7), block(5)])),
        (String::new(), None),
        (a.clone(), None),
        (format!(":{a}"), None),
        (format!("-1:{a}"), None),
        (format!("18446744073709551616:{a}"), None),
        (format!("0x5:{a}"), None),
        (format!("5:{}", &a[2..]), None),
        (format!("5:{a}0"), None),
        (format!("5:0x{}", "g".repeat(64)), None),
        (format!("5:{a},"), None),
    ] {
        let found = trusted_blocks(std::slice::from_ref(&text));
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_proxy_that_names_accounts_has_to_be_trusted() {
    let header = "--admin-proxy-header=X-User";
    for (flags, error) in [
        (&[header, "--trusted-proxy=10.0.0.1"][..], None),
        (
            &[header],
            Some(
                "--admin-proxy-header is read in requests of trusted proxies alone: add --trusted-proxy",
            ),
        ),
        (&["--proxy-protocol", "--trusted-proxy=10.0.0.1"], None),
        (
            &["--proxy-protocol"],
            Some("with --proxy-protocol, only trusted proxies may connect: add --trusted-proxy"),
        ),
    ] {
        let found = command(flags, &[], None)
            .err()
            .map(|error| error.to_string());
        assert_eq!(found.as_deref(), error, "{flags:?}");
    }
}

#[test]
fn tls_needs_a_certificate_and_its_key() {
    let [cert, key, ca] = ["--tls-cert=c", "--tls-key=k", "--admin-client-ca=a"];
    for (flags, missing) in [
        (&[cert, key][..], None),
        (&[cert, key, ca], None),
        (&[cert], Some("tls-key")),
        (&[cert, ca], Some("tls-key")),
        (&[key], Some("tls-cert")),
        (&[key, ca], Some("tls-cert")),
        (&[ca], Some("tls-cert")),
    ] {
        let found = command(flags, &[], None).err();
        let found = found.map(|error| error.to_string());
        let error = missing
            .map(|missing| format!("TLS needs a certificate and its key: add --{missing} FILE"));
        assert_eq!(found, error, "{flags:?}");
    }
}
