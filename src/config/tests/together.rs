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

/// A fleet has a key and one chain, and no source but nodes. A process of it may have no nodes.
#[test]
fn a_fleet_is_refused_without_what_it_needs() {
    let key = format!("--fleet-key={}", "1".repeat(64));
    let [fleet, other] = ["--fleet=redis://h1", "--fleet=redis://h2"];
    let [mainnet, sentinel] = ["--network=mainnet", "--fleet-sentinel=m"];
    let cases: [(&[&str], &str); 13] = [
        (&[fleet, &key, mainnet], ""),
        (
            &[fleet, &key, "--genesis=g.json", "--node=http://127.0.0.1:1"],
            "",
        ),
        (&[fleet, &key, mainnet, "--fleet=redis://h2", sentinel], ""),
        (
            &[fleet, &key, mainnet, other],
            "several --fleet are sentinels: add --fleet-sentinel NAME, or give one",
        ),
        (
            &[fleet, mainnet],
            "--fleet needs --fleet-key: give all its processes the same secret",
        ),
        (
            &[&key, mainnet, "--node=http://127.0.0.1:1"],
            "--fleet-key is given without a fleet: add --fleet URL",
        ),
        (
            &[sentinel, mainnet, "--node=http://127.0.0.1:1"],
            "--fleet-sentinel is given without a fleet: add --fleet URL",
        ),
        (
            &[fleet, &key, mainnet, "--source=dev"],
            "--fleet shares what is followed of a chain: it needs --source node",
        ),
        (
            &[fleet, &key, mainnet, "--forward=eth_sendRawTransaction"],
            "--forward passes methods to nodes: it needs --source node",
        ),
        (
            &[fleet, &key, mainnet, "--quorum=2"],
            "--quorum 2 is more than the number of nodes, 0: add --node URL, or lower --quorum",
        ),
        (
            &[fleet, &key, "--chain-id=7"],
            "--fleet needs the chain's genesis, so that no process of another chain joins: add \
             --network, --genesis, or --chain-id and --trusted-block 0:HASH",
        ),
        (
            &[fleet, "--fleet-key=1234"],
            "--fleet-key (hidden): expected at least 64 hex digits, or the path of a file that has \
             them",
        ),
        (
            &["--fleet=http://me:secret@h"],
            "--fleet (hidden): expected a URL such as redis://127.0.0.1:6379 or \
             rediss://user:password@redis.example.org, at most 16 of them",
        ),
    ];
    for (flags, error) in cases {
        let source: &[&str] = match flags.contains(&"--source=dev") {
            true => &[],
            false => &["--source=node"],
        };
        let found = command(&[source, flags].concat(), &[], None);
        let found = found.err().map(|error| error.to_string());
        assert_eq!(found.unwrap_or_default(), error, "{flags:?}");
    }
    // Without --source, it would be ignored.
    let found = command(&[fleet, &key, mainnet], &[], None);
    let found = found.err().map(|error| error.to_string());
    let unused = "--fleet is given, but the source is dev (the default): add --source node";
    assert_eq!(found.as_deref(), Some(unused));
}
