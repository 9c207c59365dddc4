//! Every vector of ethereum/execution-apis, as strictly as Hive's rpc-compat: the whole body has to
//! match, apart from the order of keys; in an error, only `message` may differ.

use std::{fs, path::PathBuf};

use nearhead_chain::{
    chain_file::{self, ChainReader},
    encode::EncodeOptions,
};
use serde_json::Value;

use crate::{
    harness::{Connection, Server, check, json, vectors},
    in_process::InProcess,
};

/// The number of vector files in the folder: without it, a missing file would go unnoticed.
const FILES: usize = 212;

/// Folders of vectors that hold elsewhere, and why.
const ELSEWHERE: [(&str, &str); 1] = [(
    "eth_sendRawTransaction",
    "a transaction is taken by the pool of a node behind: node::forwarding",
)];

/// A request and its exact answer.
struct Exchange {
    /// File and line, for messages.
    name: String,
    request: String,
    answer: Value,
    /// Whether the vector is an example, whose schema alone counts.
    is_example: bool,
}

/// All exchanges of all files.
fn exchanges() -> Vec<Exchange> {
    let mut files: Vec<PathBuf> = fs::read_dir(vectors())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|folder| {
            fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
        })
        .collect();
    files.sort();
    assert_eq!(
        files.len(),
        FILES,
        "files of vectors in {}",
        vectors().display()
    );
    let is_elsewhere = |file: &&PathBuf| {
        ELSEWHERE
            .iter()
            .any(|(folder, _)| file.starts_with(vectors().join(folder)))
    };
    let here = files.iter().filter(|file| !is_elsewhere(file));
    here.flat_map(read).collect()
}

/// The requests of one folder of vectors, with their exact answers.
pub(crate) fn vectors_of(folder: &str) -> Vec<(Value, Value)> {
    let files = fs::read_dir(vectors().join(folder)).unwrap();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let exchanges = files.iter().flat_map(read);
    exchanges
        .map(|exchange| (json(exchange.request.as_bytes()), exchange.answer))
        .collect()
}

/// The requests of all files.
pub(crate) fn requests() -> Vec<Value> {
    let exchanges = exchanges().into_iter();
    exchanges
        .map(|exchange| json(exchange.request.as_bytes()))
        .collect()
}

/// The exchanges of one file, which has at least one.
fn read(file: &PathBuf) -> Vec<Exchange> {
    assert_eq!(
        file.extension().and_then(|e| e.to_str()),
        Some("io"),
        "{}",
        file.display()
    );
    let mut exchanges = Vec::new();
    let mut request = None;
    let text = fs::read_to_string(file).unwrap();
    let is_example = text.contains("// speconly:");
    for (index, line) in text.lines().enumerate() {
        let name = format!(
            "{}:{}",
            file.strip_prefix(vectors()).unwrap().display(),
            index + 1
        );
        match line.get(..2) {
            Some(">>") => assert!(
                request.replace(line[2..].trim().to_owned()).is_none(),
                "{name}: no answer"
            ),
            Some("<<") => {
                let request = request
                    .take()
                    .unwrap_or_else(|| panic!("{name}: an answer without a request"));
                exchanges.push(Exchange {
                    name,
                    request,
                    answer: json(line[2..].trim().as_bytes()),
                    is_example,
                });
            }
            Some("//") | None => {}
            Some(_) => panic!("{name}: not a request, an answer or a comment: {line}"),
        }
    }
    assert!(
        request.is_none(),
        "{}: the last request has no answer",
        file.display()
    );
    assert!(!exchanges.is_empty(), "{}: no request", file.display());
    exchanges
}

/// Removes `error.message`, the one member that may differ, from an error.
fn without_message(mut answer: Value) -> Value {
    if let Some(error) = answer.get_mut("error").and_then(Value::as_object_mut) {
        let message = error.remove("message");
        assert!(
            message.is_some_and(|message| message.is_string()),
            "an error without a message"
        );
    }
    answer
}

/// Runs all exchanges through `answer` and lists every one that does not match.
fn run(answer: impl Fn(&Exchange) -> Value) {
    let mut failures = Vec::new();
    let exchanges = exchanges();
    for exchange in &exchanges {
        let actual = answer(exchange);
        // Schemas are checked by the tests of the OpenRPC document.
        let expected = &exchange.answer;
        let matches = match exchange.is_example {
            false => without_message(actual.clone()) == without_message(expected.clone()),
            true => actual.get("result").is_some() == expected.get("result").is_some(),
        };
        if !matches {
            failures.push(format!(
                "{}\n {}\n expected {}\n   actual {actual}",
                exchange.name, exchange.request, expected
            ));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} exchanges\n{}",
        failures.len(),
        exchanges.len(),
        failures.join("\n")
    );
}

fn post(connection: &mut Connection, exchange: &Exchange) -> Value {
    let response = connection.post(&exchange.request);
    check(&exchange.name, &response.status, &200);
    check(
        &exchange.name,
        &response.header("content-type"),
        &Some("application/json"),
    );
    json(&response.body)
}

#[test]
fn every_vector_matches_over_http() {
    let server = Server::execution_apis(&["--omit-total-difficulty"]);
    let connection = std::cell::RefCell::new(server.connect());
    run(|exchange| post(&mut connection.borrow_mut(), exchange));
}

#[test]
fn every_vector_matches_in_process() {
    let [genesis, chain] =
        ["genesis.json", "chain.rlp"].map(|name| fs::read(vectors().join(name)).unwrap());
    let system = actix::System::new();
    let service = system.block_on(async {
        let options = EncodeOptions {
            omit_total_difficulty: true,
        };
        let mut service = InProcess::start(&chain_file::read_genesis(&genesis).unwrap(), options);
        let blocks: Vec<_> = ChainReader::new(chain.as_slice())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        service.advance(0, &blocks, true).await;
        service
    });
    run(|exchange| json(&system.block_on(service.answer(&exchange.request))));
}

/// With the default options, the only additional member is a block's `totalDifficulty`.
#[test]
fn total_difficulty_is_the_only_additional_member() {
    let server = Server::execution_apis(&[]);
    let connection = std::cell::RefCell::new(server.connect());
    let seen = std::cell::Cell::new(0);
    run(|exchange| {
        let mut answer = post(&mut connection.borrow_mut(), exchange);
        let is_block = exchange.request.contains("\"eth_getBlockBy");
        if let Some(block) = answer
            .get_mut("result")
            .and_then(Value::as_object_mut)
            .filter(|_| is_block)
        {
            let total = block
                .remove("totalDifficulty")
                .unwrap_or_else(|| panic!("{}: no totalDifficulty", exchange.name));
            let number = block["number"].as_str().unwrap();
            check(
                &exchange.name,
                &total,
                &Value::from(total_difficulty(number)),
            );
            seen.set(seen.get() + 1);
        }
        answer
    });
    assert!(
        seen.get() >= 10,
        "only {} vectors answered with a block",
        seen.get()
    );
}

/// The sum of the difficulties up to the block, computed from the chain file.
fn total_difficulty(number: &str) -> String {
    let number = u64::from_str_radix(number.trim_start_matches("0x"), 16).unwrap();
    let genesis: Value = json(&fs::read(vectors().join("genesis.json")).unwrap());
    let first = u64::from_str_radix(
        genesis["difficulty"]
            .as_str()
            .unwrap()
            .trim_start_matches("0x"),
        16,
    )
    .unwrap();
    let sum = first
        + difficulties()
            .iter()
            .take(usize::try_from(number).unwrap())
            .sum::<u64>();
    format!("{sum:#x}")
}

/// The header difficulty of blocks 1, 2, … of chain.rlp: the eighth field of each header.
fn difficulties() -> Vec<u64> {
    use alloy_rlp::{Decodable, Header};
    let file = fs::read(vectors().join("chain.rlp")).unwrap();
    let mut rest = file.as_slice();
    let mut difficulties = Vec::new();
    while !rest.is_empty() {
        let mut block = Header::decode_bytes(&mut rest, true).unwrap();
        let mut header = Header::decode_bytes(&mut block, true).unwrap();
        for _ in 0..7 {
            Header::decode_bytes(&mut header, false).unwrap();
        }
        difficulties.push(u64::decode(&mut header).unwrap());
    }
    difficulties
}
