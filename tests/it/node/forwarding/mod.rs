//! Calls that are passed to real nodes, with `--forward`.
//!
//! | file | what it tests |
//! |---|---|
//! | `sending` | transactions: mined and read back, sent twice, refused here before a node sees them |
//! | `failing` | nodes that hang, cut, refuse and lie, and how much may be in progress |
//! | `clients` | five libraries send two transactions in a row |
//! | `passing` | other methods: marked, counted, kept from narrowed keys |

mod clients;
mod failing;
mod passing;
mod sending;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U256};
use serde_json::{Value, json};

use crate::{
    harness::{Connection, Response, Server, json as parse, request},
    upstreams::{Anvil, Wallet},
};

const SEND: &str = "eth_sendRawTransaction";

/// The options of a service that sends transactions.
const SENDS: [&str; 2] = ["--forward", SEND];

/// The header of answers that have what a node says.
fn is_marked(response: &Response) -> bool {
    match response.header("x-nearhead-verified") {
        Some(text) => {
            assert_eq!(text, "no");
            true
        }
        None => false,
    }
}

/// Calls a method; the status, the answer, and whether it is marked.
fn call(ours: &mut Connection, method: &str, params: &Value) -> (u16, Value, bool) {
    let response = ours.post(request(1, method, params).to_string());
    (response.status, parse(&response.body), is_marked(&response))
}

/// A transfer with this nonce.
fn transfer(wallet: &Wallet, chain_id: u64, nonce: u64) -> Bytes {
    wallet.sign(TxEip1559 {
        chain_id,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: TxKind::Call(Address::repeat_byte(0x77)),
        value: U256::from(nonce + 1),
        ..TxEip1559::default()
    })
}

/// An anvil that makes blocks when the test says so, and the wallet of an account that has ether.
fn anvil() -> (Anvil, Wallet) {
    let mut anvil = Anvil::start(&["--no-mining", "--chain-id", "77"]);
    anvil.mine(1);
    (anvil, Wallet::of(crate::upstreams::FIRST_KEY))
}

/// The calls of this kind that are counted.
fn forwarded(server: &Server, method: &str, outcome: &str) -> u64 {
    let labels = format!("{{method=\"{method}\",outcome=\"{outcome}\"}} ");
    super::counted(server, &format!("nearhead_forwarded_calls_total{labels}"))
}

/// The parameters of one address at the block that waits.
fn pending(address: Address) -> Value {
    json!([address, "pending"])
}
