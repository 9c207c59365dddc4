//! `nearhead doctor`: looks at what a service would meet on this machine and at its nodes, and says
//! what to change.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | what is looked at |
//! | `judge` | what follows from it; the time is passed in |
//! | `certificate` | the same of the files of TLS |
//! | `disk` | the same of the data folder |
//! | `chain_options` | the same of `--genesis`, `--chain` and `--forward` |
//! | `fleet` | the same of the store of a fleet, and its key |
//! | `finding` | one line of the result |

mod certificate;
mod chain_options;
mod disk;
mod finding;
mod fleet;
mod judge;

use std::{
    net::{SocketAddr, TcpListener},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nearhead_actors::upstream::{Endpoint, NodeFacts, probe};
use tokio::time::timeout;

pub use self::finding::{Finding, Verdict};
use self::{certificate::Certificate, judge::Nodes};
use crate::{
    config::{AdminListen, Config, SourceKind},
    connections::descriptors,
    listeners::besides_clients,
    rpc::Forwarding,
    tls::{TlsFiles, read_pair},
};

/// Longest wait for each answer of a node.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for all answers of a node, for the files of the chain, and for a file system.
const LONGEST: Duration = Duration::from_secs(20);

/// Looks at what this configuration needs, and reports each finding as it is there. It must be
/// called inside a tokio runtime, which a file system that does not answer may keep.
pub async fn examine(config: &Config, mut report: impl FnMut(Finding)) {
    let needed = descriptors::needed(config.max_connections, besides_clients(config));
    report(judge::descriptors(needed, descriptors::most()));
    // All are held until the last one is: two may be the same.
    let mut held = Vec::new();
    for (option, address) in addresses(config) {
        let bound = TcpListener::bind(address);
        let error = bound.as_ref().err().map(ToString::to_string);
        report(judge::address(option, address, error));
        held.extend(bound);
    }
    drop(held);
    if let Some(files) = config.tls_files() {
        let read = read_certificate(&files, config.public_url.as_deref());
        report(certificate::judge(read, SystemTime::now().into()));
    }
    let read = chain_options::read(config, LONGEST).await;
    if let Some(read) = &read {
        let is_chain = config.source == SourceKind::Files;
        report(chain_options::judge(read, is_chain));
    }
    let forwarded = Forwarding::new(&config.forward).map(|_| config.forward.len());
    chain_options::forward(forwarded)
        .into_iter()
        .for_each(&mut report);
    if let Some(secret) = &config.fleet.key {
        let read = secret.read().map(|bytes| bytes.len());
        report(fleet::key(read.map_err(|error| error.to_string())));
        let asked = fleet::ask(&config.fleet).await;
        fleet::store(asked).into_iter().for_each(&mut report);
    }
    let nodes = config
        .nodes
        .iter()
        .filter(|_| config.source == SourceKind::Node);
    // All at the same time: one may not answer.
    let asked = nodes.map(|node| (node.to_string(), tokio::spawn(ask(node.clone()))));
    let asked: Vec<_> = asked.collect();
    let mut facts = Vec::with_capacity(asked.len());
    for (node, asked) in asked {
        let answered = asked.await.unwrap_or_else(|error| Err(error.to_string()));
        facts.push((node, answered));
    }
    report(disk::judge(&disk::look(config, &facts, LONGEST).await));
    if facts.is_empty() {
        return;
    }
    let nodes = Nodes {
        pins: chain_options::pins(config, read),
        quorum: config.quorum,
        head_age_max: config.head_age_max,
        facts,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    judge::nodes(&nodes, now.unwrap_or_default().as_secs())
        .into_iter()
        .for_each(report);
}

/// What the files of TLS have, all of which are read as at the start.
fn read_certificate(files: &TlsFiles, public_url: Option<&str>) -> Result<Certificate, String> {
    let pair = read_pair(files).map_err(|error| error.to_string())?;
    let host = public_url.and_then(host_of);
    Ok(Certificate {
        not_before: pair.not_before,
        not_after: pair.not_after,
        host: host.map(|host| (host.clone(), pair.is_for(&host))),
    })
}

/// The host of a URL, an IPv6 address without its brackets.
fn host_of(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    let host = url.host_str()?;
    Some(
        host.trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned(),
    )
}

async fn ask(endpoint: Endpoint) -> Result<NodeFacts, String> {
    let probed = timeout(LONGEST, probe(endpoint, NODE_TIMEOUT)).await;
    probed.unwrap_or_else(|_| Err(format!("not within {} s", LONGEST.as_secs())))
}

/// The addresses that have to be free, each with its option.
fn addresses(config: &Config) -> impl Iterator<Item = (&'static str, SocketAddr)> {
    let admin = match config.admin_listen {
        AdminListen::At(address) => Some(address),
        // Another one is taken if this one is not free.
        AdminListen::Default | AdminListen::Off => None,
    };
    let all = [
        ("--listen", Some(config.listen)),
        ("--admin-listen", admin),
        ("--metrics-listen", config.metrics_listen),
    ];
    all.into_iter()
        .filter_map(|(option, address)| Some((option, address?)))
}
