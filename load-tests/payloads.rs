//! Blocks of a chain as a consensus client sends them to its execution client:
//! `load-tests/compare-node` feeds geth with them.
//!
//! `payloads GENESIS CHAIN` writes one line of JSON per block: method and params of the engine API.
//! It executes the blocks, because their RLP has only the hash of their requests (EIP-7685).

#[path = "../tests/it/upstreams/payload.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod payload;

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    sync::Arc,
};

use nearhead_chain::{
    block::{Block, RawBlock},
    chain_file::{ChainReader, read_genesis},
    encode::EncodeOptions,
    execute::execute,
    import::Importer,
};
use payload::Payload;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [genesis, chain] = &arguments[..] else {
        return Err("usage: payloads GENESIS CHAIN".into());
    };
    let genesis = read_genesis(&fs::read(genesis)?)?;
    let importer = Importer::new(&genesis, EncodeOptions::default())?;
    let mut parent = importer.genesis(&genesis.alloc)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for raw in ChainReader::new(File::open(chain)?)? {
        let (payload, block) = execute_on(&importer, &parent, raw?)?;
        parent = block;
        let line = json!({"method": payload.method, "params": payload.params});
        writeln!(out, "{line}")?;
    }
    out.flush().map_err(Into::into)
}

fn execute_on(
    importer: &Importer,
    parent: &Arc<Block>,
    raw: RawBlock,
) -> Outcome<(Payload, Arc<Block>)> {
    let transactions = raw.body.transactions.iter();
    let senders = transactions
        .map(|one| one.sender_source().address())
        .collect::<Option<Vec<_>>>()
        .ok_or("a signature is invalid")?;
    let executed = execute(importer.spec(), parent, &raw, &senders)?;
    let requests = executed.requests.clone();
    let block = importer.import_executed(&raw, &senders, executed, parent)?;
    Ok((Payload::of(raw, &requests), block))
}
