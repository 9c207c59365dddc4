//! The command line with a chain from files.

use std::{fs, process::Command};

use super::{file, run};
use serde_json::json;

use crate::harness::{
    Connection, KEY, Process, Server, check, json as parse, nearhead, request, vectors,
};

/// Only the dev chain on loopback has a key of its own.
#[test]
fn without_a_key_nobody_is_let_in() {
    let [genesis, chain] =
        ["genesis.json", "chain.rlp"].map(|name| vectors().join(name).display().to_string());
    let files = [
        "--source",
        "files",
        "--genesis",
        &genesis,
        "--chain",
        &chain,
    ];
    for (listen, source, admin) in [
        ("0.0.0.0:0", &["--block-time", "0s"][..], "127.0.0.1:0"),
        ("127.0.0.1:0", &files, "127.0.0.1:0"),
        ("127.0.0.1:0", &files, "off"),
    ] {
        let mut command = nearhead(["--listen", listen, "--admin-listen", admin]);
        let server = Server::of(command.args(source));
        let place = match server.admin {
            Some(address) => format!("http://{address}"),
            None => "--admin-listen".to_owned(),
        };
        let line = server.process.output.wait_for("keys", |text| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix("keys "));
            lines.next().map(str::to_owned)
        });
        assert!(
            line.contains(&place) && line.contains("--api-key"),
            "{line}"
        );
        for key in ["", "dev", "none"] {
            let mut connection = Connection::open(server.address, &format!("/v3/{key}"));
            let status = connection.post(request(1, "eth_chainId", &json!([])).to_string());
            check(&format!("{listen} {key:?}"), &status.status, &401);
        }
    }
}

/// The greeting names source, head and URL, and a command to try, without the key.
#[test]
fn the_greeting_names_source_head_and_url_but_no_key() {
    let [genesis, chain] =
        ["genesis.json", "chain.rlp"].map(|name| vectors().join(name).display().to_string());
    let files = [
        "--source",
        "files",
        "--genesis",
        &genesis,
        "--chain",
        &chain,
    ];
    let dev = ["--block-time", "0s", "--seed", "9"];
    for (name, source, key) in [
        ("dev, seed 9", &dev[..], None),
        ("dev, seed 9", &dev, Some(KEY)),
        ("files", &files, Some(KEY)),
    ] {
        for methods in ["companion", "core"] {
            let mut command = nearhead(["--listen", "127.0.0.1:0", "--methods", methods]);
            command.args(source);
            command.args(key.into_iter().flat_map(|key| ["--api-key", key]));
            check_greeting(&Server::of(&mut command), name, methods, key);
        }
    }
}

fn check_greeting(server: &Server, source: &str, methods: &str, key: Option<&str>) {
    let printed = |name: &str| {
        server.process.output.wait_for(name, |text| {
            let lines = text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'));
            let mut values = lines.filter_map(|line| line.strip_prefix(name));
            values.next().map(|value| value.trim_start().to_owned())
        })
    };
    check(
        "version",
        &printed("nearhead ").as_str(),
        &env!("CARGO_PKG_VERSION"),
    );
    check("source", &printed("source ").as_str(), &source);
    let head = printed("head ");
    let (number, hash) = head.split_once(' ').unwrap();
    let url = format!("http://{}/v3", server.address);
    check("url", &printed("url "), &format!("{url}/<API_KEY>"));

    // The user types the key; the command works when pasted.
    let (prompt, shown) = match key {
        Some(_) => ("printf 'key: '; read -r KEY; ", "$KEY"),
        None => ("", "dev"),
    };
    let line = printed("try ");
    let start = format!("{prompt}curl -s {url}/{shown} ");
    assert!(
        line.starts_with(&start),
        "{line} does not begin with {start}"
    );
    let script = format!("{{ {line}; }} <<< '{}'", key.unwrap_or_default());
    let (status, answer) = Process::start(Command::new("bash").args(["-c", &script])).wait();
    assert!(status.success(), "{script}: {answer}");
    let answer = parse(&answer.as_bytes()[answer.find('{').unwrap()..]);
    let number = format!("{:#x}", number.parse::<u64>().unwrap());
    let result = &answer["result"];
    match methods {
        "core" => check(
            "head",
            &(&result["hash"], &result["number"]),
            &(&hash.into(), &number.into()),
        ),
        _ => check("head", result, &number.into()),
    }
}

/// A chain file with one bad block: exit code 1, the message names block and check, nothing is
/// served.
#[test]
fn a_bad_block_stops_the_import() {
    let good = fs::read(vectors().join("chain.rlp")).unwrap();
    let blocks = offsets(&good);
    let flipped = |block: usize, field: usize| {
        let mut bytes = good.clone();
        let at = blocks[block - 1].fields[field];
        bytes[at + 5] ^= 1;
        bytes
    };
    let without = |block: usize| {
        [
            &good[..blocks[block - 1].start],
            &good[blocks[block].start..],
        ]
        .concat()
    };
    let cases = [
        ("parent", flipped(7, 0), "block 7", "parent"),
        ("ommers", flipped(7, 1), "block 7", "ommers"),
        ("state-root", flipped(20, 3), "block 20", "state root"),
        (
            "transactions-root",
            flipped(8, 4),
            "block 8",
            "transactions root",
        ),
        ("receipts-root", flipped(30, 5), "block 30", "receipts root"),
        ("bloom", flipped(2, 6), "block 2", "bloom"),
        (
            "withdrawals-root",
            flipped(45, 16),
            "block 45",
            "withdrawals root",
        ),
        (
            "requests-hash",
            flipped(54, 20),
            "block 54",
            "requests hash",
        ),
        ("missing", without(10), "block 11", "parent"),
        (
            "truncated",
            good[..good.len() - 10].to_vec(),
            "block 54",
            "",
        ),
        (
            "garbage",
            [&good[..blocks[20].start], &[0x83, 1, 2]].concat(),
            "block 21",
            "",
        ),
    ];
    for (name, chain, block, checked) in cases {
        let chain = file(&format!("{name}.rlp"), chain);
        let genesis = vectors().join("genesis.json");
        let files = [
            "--genesis",
            genesis.to_str().unwrap(),
            "--chain",
            chain.to_str().unwrap(),
        ];
        let fixed = [
            "--listen",
            "127.0.0.1:0",
            "--api-key",
            "k",
            "--source",
            "files",
        ];
        let (code, text) = run(&[&fixed[..], &files[..]].concat());
        check(&format!("{name}: {text}"), &code, &Some(1));
        for part in [block, checked] {
            assert!(text.contains(part), "{name}: {part:?} is not in: {text}");
        }
        assert!(
            !text.contains("http://"),
            "{name}: the program serves: {text}"
        );
    }
}

/// The offsets of a block and of its header fields' content in the file.
struct BlockOffsets {
    start: usize,
    fields: Vec<usize>,
}

fn offsets(file: &[u8]) -> Vec<BlockOffsets> {
    use alloy_rlp::Header;
    let mut blocks = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let start = file.len() - rest.len();
        let mut block = Header::decode_bytes(&mut rest, true).unwrap();
        let mut header = Header::decode_bytes(&mut block, true).unwrap();
        let mut fields = Vec::new();
        while !header.is_empty() {
            let content = Header::decode_bytes(&mut header, false).unwrap();
            fields.push(content.as_ptr() as usize - file.as_ptr() as usize);
        }
        blocks.push(BlockOffsets { start, fields });
    }
    blocks
}
