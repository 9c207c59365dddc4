//! A node that lies: it stands before a real one, and names blocks that it has invented.
//!
//! It is honest until the test gives it [`Claims`]: it passes every call on. Then it answers for
//! its invented blocks itself, and passes on the rest, so that its chain is the real one up to the
//! block that the first invented one is on. It speaks HTTP.
//!
//! | file | what it is |
//! |---|---|
//! | `invented` | a block that no chain has, and that is consistent in itself |

mod invented;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    io::{self, BufReader},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use alloy_consensus::Header;
use alloy_primitives::B256;
use nearhead_chain::remote::StatedBlock;
use serde_json::{Value, json};

use super::{
    http::{Message, connect},
    quantity,
};
use crate::harness::Connection;

pub(crate) use self::invented::{INVENTED_ACCOUNT, INVENTED_TOKEN, InventedBlock};

/// The invented blocks that a lying node claims to have.
#[derive(Clone, Default)]
pub(crate) struct Claims {
    /// What it calls its head; the real node's if there is none.
    pub(crate) latest: Option<Arc<InventedBlock>>,
    /// The same for the safe block.
    pub(crate) safe: Option<Arc<InventedBlock>>,
    /// The same for the finalized block.
    pub(crate) finalized: Option<Arc<InventedBlock>>,
    /// All invented blocks. Each takes the place of the real one with its number.
    pub(crate) blocks: Vec<Arc<InventedBlock>>,
    /// Whether blocks without transactions are given in the four members that lead to them, so that
    /// the answer is short.
    pub(crate) is_brief: bool,
}

impl Claims {
    /// An invented chain, whose last block is the head.
    pub(crate) fn chain(blocks: &[Arc<InventedBlock>]) -> Self {
        Self {
            latest: blocks.last().cloned(),
            blocks: blocks.to_vec(),
            ..Self::default()
        }
    }

    /// The block that a tag or a number means; `None` if that is the real node's. The inner `None`
    /// means that there is no such block.
    fn at(&self, block: &Value) -> Option<Option<&InventedBlock>> {
        let named = match block.as_str()? {
            "latest" => self.latest.as_deref(),
            "safe" => self.safe.as_deref(),
            "finalized" => self.finalized.as_deref(),
            number if number.starts_with("0x") && number.len() < 66 => {
                return self.at_number(quantity(block));
            }
            _ => self.with_hash(block),
        };
        named.map(Some)
    }

    fn at_number(&self, number: u64) -> Option<Option<&InventedBlock>> {
        let mut blocks = self.blocks.iter().rev();
        let found = blocks.find(|block| block.header.number == number);
        let head = self.latest.as_ref().map(|head| head.header.number);
        match found {
            Some(block) => Some(Some(block)),
            None => head.is_some_and(|head| number > head).then_some(None),
        }
    }

    fn with_hash(&self, hash: &Value) -> Option<&InventedBlock> {
        let hash: B256 = hash.as_str()?.parse().ok()?;
        let mut blocks = self.blocks.iter();
        blocks
            .find(|block| block.hash == hash)
            .map(|block| &**block)
    }

    /// The answer to a call, as JSON; `None` if the real node gives it.
    fn answer(&self, method: &str, params: &Value) -> Option<String> {
        let block = match method {
            "eth_getBlockByNumber" | "eth_getBlockByHash" | "eth_getBlockReceipts" => &params[0],
            "eth_getProof" => &params[2],
            _ => return None,
        };
        let Some(block) = self.at(block)? else {
            return Some("null".to_owned());
        };
        Some(match (method, &params[1]) {
            ("eth_getBlockReceipts", _) => block.receipts_json(),
            ("eth_getProof", slots) => invented::proof_json(&params[0], slots),
            (_, Value::Bool(false)) if self.is_brief => block.brief_json(),
            (_, is_full) => block.json(*is_full == true),
        })
    }
}

/// A running lying node. Dropping it closes all connections.
pub(crate) struct LyingNode {
    pub(crate) address: SocketAddr,
    /// The real node.
    upstream: SocketAddr,
    chain_id: u64,
    state: Arc<State>,
}

#[derive(Default)]
struct State(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    claims: Option<Claims>,
    /// Whether the real node is no longer asked.
    is_cut_off: bool,
    /// What the real node last answered, by method and parameters.
    remembered: HashMap<String, Value>,
    heads_named: usize,
    blocks_given: usize,
    connections: Vec<TcpStream>,
    has_ended: bool,
}

impl LyingNode {
    /// Starts a node before this one. It is honest at first.
    pub(crate) fn before(upstream: SocketAddr) -> Self {
        let chain_id = Connection::open(upstream, "/").result("eth_chainId", &json!([]));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if !shared.keep(&client) {
                    break;
                }
                let state = Arc::clone(&shared);
                std::thread::spawn(move || {
                    // An error ends the connection, which the other side sees.
                    let _ = serve(&state, &client, upstream);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Self {
            address,
            upstream,
            chain_id: quantity(&chain_id),
            state,
        }
    }

    /// The header of a block of the real node.
    pub(crate) fn real_header(&self, number: u64) -> Header {
        let params = json!([format!("{number:#x}"), true]);
        let block = Connection::open(self.upstream, "/").result("eth_getBlockByNumber", &params);
        let stated = StatedBlock::read(block.to_string().as_bytes()).unwrap();
        stated.header().clone()
    }

    /// Invents a block on top of this one. `edit` changes its header, except for what follows from
    /// its body and its receipts.
    pub(crate) fn invent(
        &self,
        parent: &Header,
        edit: impl FnOnce(&mut Header),
    ) -> Arc<InventedBlock> {
        Arc::new(InventedBlock::on(self.chain_id, parent, edit))
    }

    /// Invents as many blocks, the first on top of this one.
    pub(crate) fn invent_chain(&self, parent: &Header, blocks: usize) -> Vec<Arc<InventedBlock>> {
        let mut parent = parent.clone();
        let chain = (0..blocks).map(|_| {
            let block = self.invent(&parent, |_| {});
            parent = block.header.clone();
            block
        });
        chain.collect()
    }

    /// Makes these claims from now on, and counts anew.
    pub(crate) fn claim(&self, claims: Claims) {
        let mut inner = self.state.0.lock().unwrap();
        inner.claims = Some(claims);
        (inner.heads_named, inner.blocks_given) = (0, 0);
    }

    /// Passes every call on from now on.
    pub(crate) fn be_honest(&self) {
        let mut inner = self.state.0.lock().unwrap();
        (inner.claims, inner.is_cut_off) = (None, false);
    }

    /// Stops asking the real node: what is not invented is answered as the real node answered it
    /// before.
    pub(crate) fn cut_off(&self) {
        self.state.0.lock().unwrap().is_cut_off = true;
    }

    /// How often it has named an invented block as its head since the last claims.
    pub(crate) fn heads_named(&self) -> usize {
        self.state.0.lock().unwrap().heads_named
    }

    /// How many invented blocks it has given in full since the last claims.
    pub(crate) fn blocks_given(&self) -> usize {
        self.state.0.lock().unwrap().blocks_given
    }
}

impl Drop for LyingNode {
    fn drop(&mut self) {
        let mut inner = self.state.0.lock().unwrap();
        inner.has_ended = true;
        for connection in &inner.connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(inner);
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    /// Registers a connection so that it can be closed; `false` when the node has ended.
    fn keep(&self, client: &TcpStream) -> bool {
        let mut inner = self.0.lock().unwrap();
        inner.connections.extend(client.try_clone());
        !inner.has_ended
    }

    /// The answer to a call about an invented block.
    fn invented(&self, call: &Value) -> Option<String> {
        let (method, params) = (call["method"].as_str()?, &call["params"]);
        let claims = self.0.lock().unwrap().claims.clone()?;
        // Without the lock: a block may be large.
        let answer = claims.answer(method, params)?;
        let mut inner = self.0.lock().unwrap();
        inner.heads_named += usize::from(params[0] == "latest");
        inner.blocks_given +=
            usize::from(method.starts_with("eth_getBlockBy") && params[1] == true);
        Some(answer)
    }
}

/// Serves a connection to its end.
fn serve(state: &State, mut client: &TcpStream, upstream: SocketAddr) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut requests = BufReader::new(client);
    let mut real = None;
    while let Some(request) = Message::read(&mut requests)? {
        let call: Value = serde_json::from_slice(&request.body)?;
        let answer = match state.invented(&call) {
            Some(result) => Some(answer_to(&call, &result)),
            None => forward(state, upstream, &mut real, &call, request)?,
        };
        let Some(answer) = answer else {
            break;
        };
        answer.write(&mut client)?;
    }
    Ok(())
}

fn answer_to(call: &Value, result: &str) -> Message {
    let id = &call["id"];
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    Message::answer("200 OK", &[], body.as_bytes())
}

/// The real node's answer, or what is remembered of it; `None` if there is none.
fn forward(
    state: &State,
    upstream: SocketAddr,
    real: &mut Option<BufReader<TcpStream>>,
    call: &Value,
    request: Message,
) -> io::Result<Option<Message>> {
    let key = format!("{} {}", call["method"], call["params"]);
    let inner = state.0.lock().unwrap();
    if inner.is_cut_off {
        let result = inner.remembered.get(&key);
        return Ok(result.map(|result| answer_to(call, &result.to_string())));
    }
    drop(inner);
    let real = match real {
        Some(real) => real,
        None => real.insert(connect(upstream)?),
    };
    // A compressed answer could not be parsed.
    request
        .without(&["accept-encoding"])
        .write(real.get_mut())?;
    let answer = Message::read(real)?;
    if let Some(answer) = &answer {
        let mut answer: Value = serde_json::from_slice(&answer.body)?;
        if let Some(result) = answer.get_mut("result") {
            let mut inner = state.0.lock().unwrap();
            inner.remembered.insert(key, result.take());
        }
    }
    Ok(answer)
}
