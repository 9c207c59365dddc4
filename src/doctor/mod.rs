//! `nearhead doctor`: looks at what a service would meet on this machine and at its nodes, and says
//! what to change.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | what is looked at |
//! | `judge` | what follows from it; the time is passed in |
//! | `finding` | one line of the result |

mod finding;
mod judge;

use std::{
    fs::{self, File},
    io::Write as _,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nearhead_actors::{
    data_folder::DataRoot,
    upstream::{Endpoint, NodeFacts, probe},
};
use rustix::fs::statvfs;

pub use self::finding::{Finding, Verdict};
use self::judge::{Disk, Nodes};
use crate::{
    config::{AdminListen, Config, SourceKind},
    connections::descriptors,
    listeners::besides_clients,
};

/// Longest wait for each answer of a node.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);

/// Looks at everything that this configuration needs. It must be called inside a tokio runtime.
pub async fn examine(config: &Config) -> Vec<Finding> {
    let needed = descriptors::needed(config.max_connections, besides_clients(config));
    let mut findings = vec![judge::descriptors(needed, descriptors::most())];
    findings.extend(addresses(config).map(|(option, address)| {
        let taken = TcpListener::bind(address).err();
        judge::address(option, address, taken.map(|error| error.to_string()))
    }));
    findings.push(judge::data_folder(&disk(&config.data_dir)));
    if config.source == SourceKind::Node {
        // All at the same time: one may not answer.
        let asked: Vec<_> = config
            .nodes
            .iter()
            .map(|node| tokio::spawn(ask(node.clone())))
            .collect();
        let mut facts = Vec::with_capacity(asked.len());
        for (node, asked) in config.nodes.iter().zip(asked) {
            let facts_of = asked.await.unwrap_or_else(|error| Err(error.to_string()));
            facts.push((node.to_string(), facts_of));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nodes = Nodes {
            network: config.network,
            chain_id: config.chain_id,
            quorum: config.quorum,
            facts,
        };
        findings.extend(judge::nodes(&nodes, now.unwrap_or_default().as_secs()));
    }
    findings
}

async fn ask(endpoint: Endpoint) -> Result<NodeFacts, String> {
    probe(endpoint, NODE_TIMEOUT).await
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

/// Whether a file can be made in a folder. It is removed at once. Permissions do not say it: root
/// has all of them on a disk that is read-only.
fn is_writable(folder: &Path) -> bool {
    let file = folder.join(format!(".nearhead-doctor-{}", process::id()));
    let made = File::create_new(&file).and_then(|mut made| made.write_all(b"doctor"));
    // It is there only if it was made.
    let _ = fs::remove_file(&file);
    made.is_ok()
}

/// What the data folder has. It may not be there yet: then where it would be made.
fn disk(root: &DataRoot) -> Disk {
    let folder = match root {
        DataRoot::Memory | DataRoot::Auto(None) => return Disk::None,
        DataRoot::Auto(Some(folder)) | DataRoot::Given(folder) => folder,
    };
    let there = folder.ancestors().find(|folder| folder.is_dir());
    let there = there.map_or_else(|| PathBuf::from("."), Path::to_owned);
    Disk::Folder {
        path: folder.clone(),
        is_writable: is_writable(&there),
        free: statvfs(&there).map_or(0, |figures| figures.f_frsize * figures.f_bavail),
    }
}
