//! The alloy client: see ../README.md.

#![expect(clippy::unwrap_used, reason = "a client of the tests")]

/// The example of docs/min-block.md, as it is printed there.
#[expect(unreachable_pub, reason = "readers may make it a module of their own")]
mod seen;

use std::{env, fs, sync::Arc, time::Duration};

use alloy_primitives::{U64, U256};
use alloy_provider::{
    Provider, ProviderBuilder, RootProvider, WsConnect,
    network::Ethereum,
    transport::{RpcError, TransportResult, impl_future},
};
use alloy_pubsub::{ConnectionHandle, PubSubConnect};
use alloy_rpc_client::RpcClient;
use alloy_rpc_types_eth::{BlockId, Filter, TransactionRequest, TransactionTrait as _};
use alloy_signer_local::PrivateKeySigner;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
};

use seen::SeenTransport;

/// The error code of a request that is to be repeated.
const REFUSED: i64 = -32002;

type AnyResult<T> = Result<T, Box<dyn std::error::Error>>;

/// Reports a step to the test, in one line.
fn report(step: &str, members: Value) {
    let mut line = json!({ "step": step });
    line.as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    println!("{line}");
}

/// Decodes a JSON-RPC parameter to alloy's type.
fn parameter<T: DeserializeOwned>(params: &Value, index: usize) -> AnyResult<T> {
    Ok(serde_json::from_value(params[index].clone())?)
}

/// Decodes the second parameter, an index in a block.
fn index_in_block(params: &Value) -> AnyResult<u64> {
    let index: String = parameter(params, 1)?;
    Ok(u64::from_str_radix(index.trim_start_matches("0x"), 16)?)
}

/// Makes a call with alloy's own method; returns the method's name and the answer.
async fn call(
    provider: &impl Provider,
    method: &str,
    params: &Value,
) -> AnyResult<(&'static str, Value)> {
    Ok(match method {
        "eth_getStorageAt" => {
            let call = provider.get_storage_at(parameter(params, 0)?, parameter(params, 1)?);
            let value = call.block_id(parameter(params, 2)?).await?;
            // alloy has a number where JSON-RPC has 32 bytes.
            ("get_storage_at", json!(format!("{value:#066x}")))
        }
        "eth_getLogs" => {
            let filter: Filter = parameter(params, 0)?;
            ("get_logs", json!(provider.get_logs(&filter).await?))
        }
        "eth_getBlockByHash" => {
            let call = provider.get_block_by_hash(parameter(params, 0)?);
            let is_full = parameter(params, 1)?;
            let call = if is_full { call.full() } else { call.hashes() };
            ("get_block_by_hash", json!(call.await?))
        }
        "eth_getUncleByBlockHashAndIndex" => {
            let block = BlockId::hash(parameter(params, 0)?);
            let call = provider.get_uncle(block, index_in_block(params)?);
            ("get_uncle", json!(call.await?))
        }
        "eth_getTransactionByBlockNumberAndIndex" => {
            let block = parameter(params, 0)?;
            let index = usize::try_from(index_in_block(params)?)?;
            let call = provider.get_transaction_by_block_number_and_index(block, index);
            let by = "get_transaction_by_block_number_and_index";
            (by, json!(call.await?))
        }
        "eth_getTransactionReceipt" => {
            let call = provider.get_transaction_receipt(parameter(params, 0)?);
            ("get_transaction_receipt", json!(call.await?))
        }
        "eth_getProof" => {
            let call = provider.get_proof(parameter(params, 0)?, parameter(params, 1)?);
            let call = call.block_id(parameter(params, 2)?);
            ("get_proof", json!(call.await?))
        }
        "eth_call" => {
            let call = provider.call(parameter(params, 0)?);
            ("call", json!(call.block(parameter(params, 1)?).await?))
        }
        "eth_estimateGas" => {
            let gas = provider.estimate_gas(parameter(params, 0)?).await?;
            ("estimate_gas", json!(format!("{gas:#x}")))
        }
        "eth_gasPrice" => {
            let price = provider.get_gas_price().await?;
            ("get_gas_price", json!(format!("{price:#x}")))
        }
        "eth_maxPriorityFeePerGas" => {
            let fee = provider.get_max_priority_fee_per_gas().await?;
            ("get_max_priority_fee_per_gas", json!(format!("{fee:#x}")))
        }
        "eth_feeHistory" => {
            let count: U64 = parameter(params, 0)?;
            let percentiles: Vec<f64> = parameter(params, 2)?;
            let call = provider.get_fee_history(count.to(), parameter(params, 1)?, &percentiles);
            ("get_fee_history", json!(call.await?))
        }
        _ => return Err(format!("no such method: {method}").into()),
    })
}

async fn answer(over: &str, provider: &impl Provider, calls: &[Value]) -> AnyResult<()> {
    for (index, request) in calls.iter().enumerate() {
        let method = request["method"].as_str().unwrap_or_default();
        let (by, value) = call(provider, method, &request["params"]).await?;
        report(
            "answer",
            json!({ "over": over, "call": index, "by": by, "value": value }),
        );
    }
    Ok(())
}

async fn answers(http: &str, ws: &str, calls: &str) -> AnyResult<()> {
    let calls: Vec<Value> = serde_json::from_slice(&fs::read(calls)?)?;
    let over_http = RootProvider::<Ethereum>::new_http(http.parse()?);
    answer("http", &over_http, &calls).await?;
    let over_ws = ProviderBuilder::new()
        .connect_ws(WsConnect::new(ws))
        .await?;
    answer("ws", &over_ws, &calls).await
}

/// alloy's own connector, which has each reconnect reported before it is made: what came over the
/// old connection is reported before that, and what comes over the new one after it.
struct ReportingConnect {
    connector: WsConnect,
    lost: mpsc::Sender<oneshot::Sender<()>>,
}

impl PubSubConnect for ReportingConnect {
    fn is_local(&self) -> bool {
        self.connector.is_local()
    }

    fn connect(&self) -> impl_future!(<Output = TransportResult<ConnectionHandle>>) {
        self.connector.connect()
    }

    fn try_reconnect(&self) -> impl_future!(<Output = TransportResult<ConnectionHandle>>) {
        async {
            let (reported, is_reported) = oneshot::channel();
            if self.lost.send(reported).await.is_ok() {
                let _ = is_reported.await;
            }
            self.connector.try_reconnect().await
        }
    }
}

/// alloy reconnects and subscribes again by itself.
async fn follow(ws: &str) -> AnyResult<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let (losing, mut lost) = mpsc::channel(1);
    let connector = ReportingConnect {
        connector: WsConnect::new(ws),
        lost: losing,
    };
    let provider = ProviderBuilder::new()
        .connect_pubsub_with(connector)
        .await?;
    report(
        "subscribed",
        json!({ "to": "heads", "by": "subscribe_blocks" }),
    );
    let heads = provider.subscribe_blocks().channel_size(4096).await?;
    report(
        "subscribed",
        json!({ "to": "logs", "by": "subscribe_logs" }),
    );
    let logs = provider
        .subscribe_logs(&Filter::new())
        .channel_size(4096)
        .await?;
    let subscriptions = [*heads.local_id(), *logs.local_id()];
    let (mut heads, mut logs) = (heads.into_stream(), logs.into_stream());
    loop {
        tokio::select! {
            biased;
            _ = terminated.recv() => break,
            Some(head) = heads.next() => report("head", json!({ "value": head })),
            Some(log) = logs.next() => report("log", json!({ "value": log })),
            Some(reported) = lost.recv() => {
                report("lost", json!({ "by": "PubSubConnect::try_reconnect" }));
                let _ = reported.send(());
            }
            else => return Err("the subscriptions ended".into()),
        }
    }
    drop(lost);
    for subscription in subscriptions {
        provider.unsubscribe(subscription).await?;
    }
    report("unsubscribed", json!({ "by": "unsubscribe" }));
    Ok(())
}

/// Over HTTP, alloy asks filters. It has no function that removes those of its streams.
async fn poll(http: &str) -> AnyResult<()> {
    const INTERVAL: Duration = Duration::from_millis(50);
    let mut terminated = signal(SignalKind::terminate())?;
    let provider = RootProvider::<Ethereum>::new_http(http.parse()?);
    report("subscribed", json!({ "to": "logs", "by": "watch_logs" }));
    let mut logs = provider.watch_logs(&Filter::new()).await?;
    logs.set_poll_interval(INTERVAL);
    report(
        "subscribed",
        json!({ "to": "blocks", "by": "watch_blocks" }),
    );
    let mut blocks = provider.watch_blocks().await?;
    blocks.set_poll_interval(INTERVAL);
    let (mut logs, mut blocks) = (logs.into_stream(), blocks.into_stream());
    loop {
        tokio::select! {
            Some(found) = logs.next() => {
                found.iter().for_each(|log| report("log", json!({ "value": log })));
            }
            Some(found) = blocks.next() => {
                found.iter().for_each(|hash| report("block", json!({ "value": hash })));
            }
            _ = terminated.recv() => return Ok(()),
            else => return Err("the filters ended".into()),
        }
    }
}

/// Sends two transactions in a row, with alloy's own nonces, gas and fees.
async fn send(http: &str, key: &str) -> AnyResult<()> {
    let signer: PrivateKeySigner = key.parse()?;
    let address = signer.address();
    let provider = ProviderBuilder::new()
        // Each nonce from the count that is pending; by default alloy counts on by itself.
        .with_simple_nonce_management()
        .wallet(signer)
        .connect_http(http.parse()?);
    let mut sent = Vec::new();
    for value in [1, 2] {
        let request = TransactionRequest::default().to(address);
        let request = request.value(U256::from(value));
        sent.push(provider.send_transaction(request).await?);
    }
    for pending in sent {
        let hash = *pending.tx_hash();
        let receipt = pending.get_receipt().await?;
        let transaction = provider.get_transaction_by_hash(hash).await?;
        let nonce = transaction.ok_or("it is not found")?.nonce();
        let status = u8::from(receipt.status());
        report(
            "sent",
            json!({ "nonce": format!("{nonce:#x}"), "status": format!("{status:#x}") }),
        );
    }
    Ok(())
}

/// Reads the head again and again, and passes on what it has seen.
async fn reads(http: &str) -> AnyResult<()> {
    let transport = SeenTransport {
        client: reqwest::Client::new(),
        url: http.parse()?,
        seen: Arc::default(),
    };
    let provider = ProviderBuilder::new().connect_client(RpcClient::new(transport, false));
    for _ in 0..8 {
        // The service has waited before it refuses.
        let number = loop {
            let read = provider.get_block_number().await;
            let refused = read.as_ref().err().and_then(RpcError::as_error_resp);
            if refused.is_none_or(|error| error.code != REFUSED) {
                break read?;
            }
        };
        report("read", json!({ "value": number }));
    }
    Ok(())
}

/// The version of alloy-provider in the lock file.
fn version() -> &'static str {
    let (_, package) = include_str!("../../../Cargo.lock")
        .split_once("name = \"alloy-provider\"\nversion = \"")
        .unwrap();
    package.split('"').next().unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> AnyResult<()> {
    // reqwest is built as for nearhead's tests: without a choice of TLS implementation.
    let provider = rustls::crypto::ring::default_provider();
    provider
        .install_default()
        .map_err(|_| "a TLS implementation is installed already")?;
    report(
        "client",
        json!({ "value": format!("alloy-provider {}", version()) }),
    );
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["answers", http, ws, calls] => answers(http, ws, calls).await?,
        ["follow", ws] => follow(ws).await?,
        ["poll", http] => poll(http).await?,
        ["reads", http] => reads(http).await?,
        ["send", http, key] => send(http, key).await?,
        _ => {
            return Err(
                "usage: answers HTTP WS CALLS, follow WS, poll HTTP, reads HTTP, or send HTTP KEY"
                    .into(),
            );
        }
    }
    report("end", json!({}));
    Ok(())
}
