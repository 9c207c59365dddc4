//! Every option, in one table: name, unit, default, accepted values and purpose.
//!
//! An option has one name in three forms: flag `--logs-deadline`, environment
//! `NEARHEAD_LOGS_DEADLINE`, key `logs-deadline` in the TOML file that `--config` names. A flag
//! overrides the environment, which overrides the file. The command line, the messages, `nearhead
//! check` and the test of docs/configuration.md all read [`OPTIONS`].
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the table, and what values have to be together |
//! | `option_spec`, `fleet` | what a row of the table is; the rows of a fleet's options |
//! | `command`, `command_line` | the commands; as clap knows them |
//! | `export`, `health` | `nearhead export`, `nearhead health` |
//! | `command_error`, `config_error`, `usage` | why a command cannot be resolved, or its values not together; clap's messages in one line |
//! | `written` | a configuration file, completions and a man page, written from the table |
//! | `resolved`, `given`, `config_file` | the configuration, each value from flag, environment or file |
//! | `value`, `api_key`, `fleet_values`, `public_url` | types of values, and those with rules of their own |
//! | `parse`, `show` | values from text, and as text |

mod api_key;
mod command;
mod command_error;
mod command_line;
mod config_error;
mod config_file;
mod export;
mod fleet;
mod fleet_values;
mod given;
mod health;
mod option_spec;
mod parse;
mod public_url;
mod resolved;
mod show;
mod usage;
mod value;
mod written;

#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use alloy_primitives::B256;
use nearhead_actors::upstream::StateFollow;
use nearhead_actors::{data_folder::DataRoot, freshness::HeadAgeMax, upstream::Endpoint};
use nearhead_chain::{dev::Profile, network::Network, verify::HeaderRulesMode};
use nearhead_tenants::allowlists;

use crate::{
    access::{Host, MethodSet},
    limits,
    tls::TlsFiles,
};

pub use self::{
    api_key::ApiKey,
    command::Command,
    command_error::CommandError,
    config_error::ConfigError,
    export::Export,
    fleet::FleetOptions,
    fleet_values::{FleetSecret, SecretError},
    health::Health,
    resolved::Resolved,
    value::{AdminListen, Cap, LogFormat, SourceKind},
    written::Init,
};
use self::{
    api_key::api_keys,
    fleet::fleet_options,
    option_spec::{OptionRow, joined, options},
    parse::{
        NODES_MAX, allowed_hosts, cap, collector, data_root, duration, forwarded, head_age_max,
        header_name, log_filter, nodes, parsed, path, ratio, trusted_blocks, trusted_proxies,
        whole, whole_seconds,
    },
    public_url::public_url,
    show::Show,
};

options! {
/// The configuration, each value checked by itself; `Config::complete` checks them together.
pub struct Config {
    /// The options of a fleet.
    pub fleet: FleetOptions,
}
fn own_options;
"Source":
    /// Where blocks come from: `dev` generates a chain, `files` imports one, `node` follows real
    /// nodes
    "source" source: SourceKind = SourceKind::Dev,
        "SOURCE", "dev, files or node", parsed;
    /// The chain's genesis.json, for source files. With source node it pins the chain that nodes
    /// have to be on, and the rules of its headers
    "genesis" genesis: Option<PathBuf> = None,
        "FILE", "the path of a file", path;
    /// Blocks to import, in the format of `geth export`, plain or gzipped
    "chain" chain: Option<PathBuf> = None,
        "FILE", "the path of a file", path;
"Nodes":
    /// A node to follow, over http, https, ws or wss. May be given several times; --quorum says how
    /// many of them have to agree. `user:password@` in the URL is sent as HTTP basic
    /// authentication, and the part after `#` as headers. Separate several with commas in the
    /// environment; use a list in the file
    "node" nodes: Vec<Endpoint> = Vec::new(),
        "URL[#HEADER=VALUE&...]", "a URL with http, https, ws or wss, at most 16 of them", nodes, secret;
    /// Maximum number of concurrent calls to one node for blocks, as many again for state, and as
    /// many that --forward passes on; a few more ask for its head
    "node-concurrency" node_concurrency: usize = 16,
        "CALLS", "a whole number from 1 to 1024", |text| whole(text, 1, 1_024);
    /// How long a node may take to answer a call
    "node-timeout" node_timeout: Duration = Duration::from_secs(10),
        "TIME", "a time from 100ms to 5m, such as 500ms, 12s or 1m",
        |text| duration(text, Duration::from_millis(100), Duration::from_secs(300));
    /// Calls to nodes a second that the requests of one tenant may cause, when they need state that
    /// is not held, or by --forward; 0 for no limit
    "node-calls-per-key" node_calls_per_key: u32 = 0,
        "CALLS", "a whole number from 0 to 1000000", |text| whole(text, 0, 1_000_000);
    /// Memory in bytes for state from nodes and for merging blocks into it; the least recently used
    /// state is dropped first. auto is a quarter of the memory of the machine or the cgroup, at
    /// most 1 GiB
    "state-bytes" state_bytes: Cap = Cap::Auto,
        "BYTES", "auto or a whole number from 1048576 to 1099511627776",
        |text| cap(text, 1 << 20, 1 << 40);
    /// How state that is held stays current while blocks arrive. auto: a block's access list
    /// (EIP-7928) or a node's tracer says what it changed, or if there is neither, as proofs;
    /// proofs: what a block names, and what was read last, is proven again; witness: as auto, with
    /// a witness in place of most proofs, for a near node; off: after a block, what is read is
    /// fetched again
    "state-follow" state_follow: StateFollow = StateFollow::Auto,
        "MODE", "auto, proofs, witness or off", parsed;
    /// A method to pass to nodes. Its answers are not verified, and say so in
    /// X-Nearhead-Verified. eth_sendRawTransaction is checked before it is sent, and makes the
    /// `pending` of eth_getTransactionCount that of the nodes. May be given several times. Separate
    /// several with commas; use a list in the file
    "forward" forward: Vec<Box<str>> = Vec::new(),
        "METHOD,...", "the name of a method such as eth_sendRawTransaction or txpool_status, at most 32 of them",
        forwarded;
"Trust":
    /// How many nodes have to agree on a block before it is served; auto is more than half of all
    /// nodes. With half of them or fewer, two forks can both have a quorum
    "quorum" quorum: Cap = Cap::Auto,
        "NODES", "auto or a whole number from 1 to the number of nodes",
        |text| cap(text, 1, NODES_MAX);
    /// The network that nodes have to be on: pins its chain id, its genesis hash and the rules of
    /// its headers
    "network" network: Option<Network> = None,
        "NETWORK", "mainnet, sepolia or hoodi", |text| parsed(text).map(Some);
    /// The chain id that nodes have to have. Without this, --network and --genesis, it is the one
    /// that a quorum of the nodes states at the start
    "chain-id" chain_id: Option<u64> = None,
        "NUMBER", "a whole number from 1 to 18446744073709551615",
        |text| whole(text, 1, u64::MAX).map(Some);
    /// A block that the chain has to contain. It replaces the finalized block in --data-dir, unless
    /// that is a later one. May be given several times. Separate several with commas in the
    /// environment; use a list in the file
    "trusted-block" trusted_blocks: Vec<(u64, B256)> = Vec::new(),
        "NUMBER:HASH", "NUMBER:HASH, with a whole number and 0x with 64 hex digits, at most 16 of them",
        trusted_blocks;
    /// Whether headers of nodes have to obey the rules of their fork. auto: on mainnet, Sepolia and
    /// Hoodi and with --genesis; on: always, so that a chain with unknown rules is refused; off:
    /// never
    "header-rules" header_rules: HeaderRulesMode = HeaderRulesMode::Auto,
        "MODE", "auto, on or off", parsed;
"Data":
    /// Folder for what outlives the process: tenants, keys and their usage, and with source node
    /// the window, its state and the newest safe and finalized block. auto is the folder that
    /// systemd names in STATE_DIRECTORY, else nearhead in the user's data folder ($XDG_DATA_HOME or
    /// ~/.local/share), for the chains that --genesis names and for known networks. none keeps all
    /// in memory
    "data-dir" data_dir: DataRoot = DataRoot::Auto(None),
        "FOLDER", "auto, none or the path of a folder", data_root;
"Dev chain":
    /// Seed of everything random: the same seed gives the same chain
    "seed" seed: u64 = 1,
        "NUMBER", "a whole number from 0 to 18446744073709551615", |text| whole(text, 0, u64::MAX);
    /// Size of the state and of the blocks: small, mainnet, p99 or adversarial
    "profile" profile: Profile = Profile::Small,
        "PROFILE", "small, mainnet, p99 or adversarial", parsed;
    /// Time between two blocks; with 0 the chain stays at its first 128 blocks
    "block-time" block_time: Duration = Duration::from_secs(1),
        "TIME", "a time from 0 to 1h, such as 500ms, 12s or 1m",
        |text| duration(text, Duration::ZERO, Duration::from_secs(3600));
    /// Blocks between two reorgs; 0 for no reorgs
    "reorg-every" reorg_every: u64 = 0,
        "BLOCKS", "a whole number from 0 to 1000000", |text| whole(text, 0, 1_000_000);
    /// Blocks that each reorg replaces
    "reorg-depth" reorg_depth: u64 = 1,
        "BLOCKS", "a whole number from 1 to 127", |text| whole(text, 1, 127);
"Serving":
    /// Address to listen on; port 0 takes a free one
    "listen" listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8545)),
        "ADDRESS:PORT", "an IP address and a port, such as 127.0.0.1:8545", parsed;
    /// Address for operators, with administration, metrics and the details of the probes; off for
    /// none. It has a thread and connections of its own. If the default is taken, it is a free port
    "admin-listen" admin_listen: AdminListen = AdminListen::Default,
        "ADDRESS:PORT", "off, or an IP address and a port, such as 127.0.0.1:8590", parsed;
    /// Address for metrics and probes alone, so that what scrapes them need not reach the admin
    /// listener. It has a thread and connections of its own
    "metrics-listen" metrics_listen: Option<SocketAddr> = None,
        "ADDRESS:PORT", "an IP address and a port, such as 127.0.0.1:9090",
        |text| parsed(text).map(Some);
    /// How long `/metrics` gives the same answer before the metrics are gathered again; 0 gathers
    /// them for each request
    "metrics-max-age" metrics_max_age: Duration = limits::METRICS_AGE_MAX,
        "TIME", "a time from 0 to 1m, such as 500ms, 12s or 1m",
        |text| duration(text, Duration::ZERO, Duration::from_secs(60));
    /// Threads that serve connections; the default is one per core
    "workers" workers: usize = cores(),
        "THREADS", "a whole number from 1 to 512", |text| whole(text, 1, 512);
    /// Threads for each of four kinds of work, in addition to the workers: light large queries,
    /// heavy ones, calls of contracts, and calls that take long; the default is one per core
    "pool-threads" pool_threads: usize = cores(),
        "THREADS", "a whole number from 1 to 512", |text| whole(text, 1, 512);
    /// Maximum number of open connections of the whole service, divided among the workers, at least
    /// one for each. When they run out, a new one takes the place of the one without an accepted
    /// key that connected first, or else of an idle one of the tenant that has most; without such
    /// a one it waits to be accepted. It is lowered if the process may not open that many file
    /// descriptors
    "max-connections" max_connections: usize = limits::CONNECTIONS_MAX,
        "CONNECTIONS", "a whole number from 1 to 10000000", |text| whole(text, 1, 10_000_000);
    /// Maximum number of open connections without an accepted key from one IPv4 address or IPv6 /64
    /// network, divided among the workers, at least one for each: the next one takes the place of
    /// the one that connected first. auto is a quarter of --max-connections, at
    /// least 64; 0 for no limit. Those of --trusted-proxy are not counted
    "connections-per-address" connections_per_address: Cap = Cap::Auto,
        "CONNECTIONS", "auto or a whole number from 0 to 10000000", |text| cap(text, 0, 10_000_000);
    // At least 1 s, because actix measures it with a clock that it reads twice a second.
    /// How long a request's headers may take to arrive, and a TLS handshake before the first one.
    /// Connections without an accepted key have 2s when they take three quarters of the
    /// --max-connections that are left for them, and 1s when they take nearly all
    "header-timeout" header_timeout: Duration = limits::HEADER_TIMEOUT,
        "TIME", "a time from 1s to 1h, such as 500ms, 12s or 1m",
        |text| duration(text, Duration::from_secs(1), Duration::from_secs(3600));
    /// How long a request's body, or a WebSocket message, may take to arrive
    "body-timeout" body_timeout: Duration = limits::BODY_TIMEOUT,
        "TIME", "a time from 100ms to 1h, such as 500ms, 12s or 1m",
        |text| duration(text, Duration::from_millis(100), Duration::from_secs(3600));
    /// How long an idle connection is kept
    "keep-alive" keep_alive: Duration = limits::KEEP_ALIVE,
        "TIME", "a time from 1s to 1h, such as 500ms, 12s or 1m",
        |text| duration(text, Duration::from_secs(1), Duration::from_secs(3600));
    /// Maximum number of open WebSocket sessions of the whole service; auto is three quarters of
    /// --max-connections, so that the rest is left for HTTP requests
    "max-sessions" max_sessions: Cap = Cap::Auto,
        "SESSIONS", "auto or a whole number from 0 to 10000000", |text| cap(text, 0, 10_000_000);
    /// Maximum number of open WebSocket sessions of one tenant; auto is half of --max-connections
    "max-sessions-per-key" max_sessions_per_key: Cap = Cap::Auto,
        "SESSIONS", "auto or a whole number from 0 to 10000000", |text| cap(text, 0, 10_000_000);
    /// Memory in bytes, for each WebSocket session, for answers and notifications that its client
    /// has not read; further ones wait until it reads
    "session-bytes" session_bytes: usize = limits::SESSION_BYTES_MAX,
        "BYTES", "a whole number from 524288 to 1073741824", |text| whole(text, 1 << 19, 1 << 30);
    /// Memory in bytes for large replies until their clients have taken them, shared among tenants.
    /// When it runs short, the slowest clients of the tenant that holds most lose their replies.
    /// auto is a sixteenth of the memory of the machine or the cgroup, from 64 MiB to 1 GiB
    "reply-bytes" reply_bytes: Cap = Cap::Auto,
        "BYTES", "auto or a whole number from 1048576 to 1099511627776",
        |text| cap(text, 1 << 20, 1 << 40);
    /// Age of the head from which it is stale, which `/ready` and eth_syncing report. auto is ten
    /// block times and at least 30s; off is for chains that make blocks on demand. Source files and
    /// a dev chain with block time 0 are never stale
    "head-age-max" head_age_max: HeadAgeMax = HeadAgeMax::Auto,
        "TIME", "auto, off or a time from 1s to 24h, such as 90s or 5m", head_age_max;
    /// How long the service serves after SIGTERM or SIGINT while /ready is 503, before it stops: as
    /// long as a load balancer takes to notice
    "shutdown-delay" shutdown_delay: Duration = Duration::ZERO,
        "TIME", "a time in whole seconds from 0 to 1h, such as 10s or 1m", whole_seconds;
    /// How long requests in progress, and sessions, may take to finish when the process stops
    "shutdown-grace" shutdown_grace: Duration = Duration::from_secs(10),
        "TIME", "a time in whole seconds from 0 to 1h, such as 10s or 1m",
        whole_seconds;
"TLS":
    /// Certificate of the public and the admin listener in PEM, followed by those between it and
    /// its authority: both then speak TLS alone. It is read again when the file changes, and at
    /// SIGHUP
    "tls-cert" tls_cert: Option<PathBuf> = None,
        "FILE", "the path of a file", path;
    /// Private key of --tls-cert in PEM, not encrypted. It is read again with it
    "tls-key" tls_key: Option<PathBuf> = None,
        "FILE", "the path of a file", path;
    /// Authorities in PEM: the admin listener lets in only clients with a certificate that one of
    /// them has signed. It is read again with --tls-cert
    "admin-client-ca" admin_client_ca: Option<PathBuf> = None,
        "FILE", "the path of a file", path;
"Access":
    /// A key that clients may use, with the name of its tenant. May be given several times.
    /// Separate several with commas in the environment; use a list in the file. Source dev on a
    /// loopback address has the key `dev` if none is given. Others are made while nearhead runs
    "api-key" api_keys: Vec<ApiKey> = Vec::new(),
        "[NAME=]SECRET", "NAME=SECRET or SECRET, each of letters, digits, '-', '_', '.' and '~', no secret twice", api_keys, secret;
    /// A host by which browsers reach the default key `dev` or the admin listener, besides
    /// localhost, *.localhost and loopback addresses. May be given several times. Separate several
    /// with commas in the environment; use a list in the file
    "allowed-host" allowed_hosts: Vec<Host> = Vec::new(),
        "HOST", "a host name or an IP address without a port, at most 16 of them", allowed_hosts;
    /// An address or a network of proxies that say who sent a request, in the header Forwarded or
    /// X-Forwarded-For, for allowlists of networks, the throttle of guesses and the access log. May
    /// be given several times. Separate several with commas in the environment; use a list in the
    /// file
    "trusted-proxy" trusted_proxies: Vec<allowlists::Network> = Vec::new(),
        "NETWORK", "an IP address or a network such as 10.0.0.0/8, at most 16 of them", trusted_proxies;
    /// Each connection to the public listener has to come from --trusted-proxy and begins with a
    /// header of the PROXY protocol, version 2: its address is the client's for all purposes
    "proxy-protocol" proxy_protocol: bool = false,
        "BOOL", "true or false", parsed;
    /// The header in which an authenticating proxy names the account of an administrator or holder.
    /// It is read in requests to the admin listener that come from --trusted-proxy directly; the
    /// proxy has to remove it from what clients send
    "admin-proxy-header" admin_proxy_header: Option<Box<str>> = None,
        "NAME", "the name of a header, such as X-Forwarded-User", header_name;
    /// The URL at which clients reach the public listener, such as that of a proxy with TLS: the
    /// examples of the dashboard have it. Without this it is the listener's address
    "public-url" public_url: Option<Box<str>> = None,
        "URL", "a URL such as https://rpc.example.org, without a query", public_url;
    /// Open the dashboard in a browser of this machine at the start, for the first account if there
    /// is none
    "open" open: bool = false,
        "BOOL", "true or false", parsed;
    /// Requests per second of each tenant; 0 for no limit
    "rate-limit" rate_limit: u32 = 0,
        "REQUESTS", "a whole number from 0 to 1000000", |text| whole(text, 0, 1_000_000);
    /// Export metrics by tenant, with its name as the label. The first 200 tenants that send
    /// requests have series of their own, the others are counted together as `other`
    "tenant-metrics" tenant_metrics: bool = false,
        "BOOL", "true or false", parsed;
"Answers":
    /// `core` serves only the seven core methods; `companion` also serves those that clients call
    /// along with them
    "methods" methods: MethodSet = MethodSet::Companion,
        "SET", "companion or core", parsed;
    /// Leave `totalDifficulty` out of blocks, as execution-apis specifies
    "omit-total-difficulty" omit_total_difficulty: bool = false,
        "BOOL", "true or false", parsed;
    /// How long one eth_getLogs query may run once it is admitted
    "logs-deadline" logs_deadline: Duration = limits::LOGS_DEADLINE,
        "TIME", "a time from 1ms to 1h, such as 500ms, 12s or 1m",
        |text| duration(text, Duration::from_millis(1), Duration::from_secs(3600));
    /// The most gas of one eth_call or eth_simulateV1, and of each run of an eth_estimateGas
    "call-gas-max" call_gas_max: u64 = limits::CALL_GAS_MAX,
        "GAS", "a whole number from 21000 to 1000000000", |text| whole(text, 21_000, 1_000_000_000);
    /// How long one call of contracts may take: eth_call, eth_simulateV1 and the like
    "call-timeout" call_timeout: Duration = limits::CALL_TIMEOUT,
        "TIME", "a time from 1ms to 1h, such as 500ms, 12s or 1m",
        |text| duration(text, Duration::from_millis(1), Duration::from_secs(3600));
"Traces":
    /// A collector that gets traces of requests by OTLP over HTTP (protobuf), at the path v1/traces
    /// below this URL. `user:password@` in the URL is sent as HTTP basic authentication, and the
    /// part after `#` as headers. Without this, nothing is traced
    "otlp-endpoint" otlp_endpoint: Option<Endpoint> = None,
        "URL[#HEADER=VALUE&...]", "a URL with http or https, such as http://127.0.0.1:4318", collector, secret;
    /// The share of requests that are traced. A client decides for its own requests, by the flag of
    /// its traceparent header, as long as no more than 20 a second want a trace
    "otlp-sample-ratio" otlp_sample_ratio: f64 = 0.01,
        "RATIO", "a number from 0 to 1, such as 0.01", ratio;
"Logs":
    /// Format of the log lines on stderr: text or json
    "log-format" log_format: LogFormat = LogFormat::Text,
        "FORMAT", "text or json", parsed;
    /// What is logged: a level, or directives in the syntax of tracing-subscriber's EnvFilter
    "log-filter" log_filter: String = "info".to_owned(),
        "FILTER", "a level (error, warn, info, debug, trace, off) or directives such as nearhead=debug,hyper=warn",
        log_filter;
}

impl AsRef<FleetOptions> for Config {
    fn as_ref(&self) -> &FleetOptions {
        &self.fleet
    }
}

impl AsMut<FleetOptions> for Config {
    fn as_mut(&mut self) -> &mut FleetOptions {
        &mut self.fleet
    }
}

/// One option of the configuration.
pub type OptionSpec = OptionRow<Config>;

const OWN: &[OptionSpec] = own_options();
const OF_FLEET: &[OptionSpec] = fleet_options();

/// The table, in the order of `--help`.
pub static OPTIONS: &[OptionSpec] =
    &joined::<Config, { OWN.len() + OF_FLEET.len() }>(OWN, OF_FLEET);

/// Number of cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Config {
    /// Checks the values together, and adds the key `dev` where that is safe: source dev on a
    /// loopback address, if no other key is given. Elsewhere a service without a key lets nobody in
    /// until one is made.
    ///
    /// # Errors
    /// A file or a node is missing, or values contradict each other.
    pub(crate) fn complete(mut self) -> Result<Self, ConfigError> {
        if self.source == SourceKind::Files {
            for (missing, path) in [("genesis", &self.genesis), ("chain", &self.chain)] {
                if path.is_none() {
                    return Err(ConfigError::MissingFile { missing });
                }
            }
        }
        if self.source == SourceKind::Node {
            self.check_nodes()?;
        } else if !self.forward.is_empty() {
            return Err(ConfigError::NothingToForwardTo);
        }
        let follows_nodes = self.source == SourceKind::Node;
        self.fleet.check(follows_nodes, self.names_chain())?;
        self.check_tls()?;
        if self.trusted_proxies.is_empty() {
            if self.admin_proxy_header.is_some() {
                return Err(ConfigError::NoTrustedProxy);
            }
            if self.proxy_protocol {
                return Err(ConfigError::NobodyConnects);
            }
        }
        self.add_default_key();
        Ok(self)
    }

    /// The files of TLS, if the listeners speak it.
    pub(crate) fn tls_files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            client_authorities: self.admin_client_ca.clone(),
        })
    }

    fn check_tls(&self) -> Result<(), ConfigError> {
        match (&self.tls_cert, &self.tls_key, &self.admin_client_ca) {
            (Some(_), None, _) => Err(ConfigError::NoTlsFile { missing: "tls-key" }),
            (None, Some(_), _) | (None, None, Some(_)) => Err(ConfigError::NoTlsFile {
                missing: "tls-cert",
            }),
            _ => Ok(()),
        }
    }

    /// Sets the address of the public listener, and adds the default key or takes it away, as the
    /// address allows.
    pub(crate) fn listens_on(&mut self, address: SocketAddr) {
        self.listen = address;
        self.api_keys.retain(|key| !key.is_default());
        self.add_default_key();
    }

    fn add_default_key(&mut self) {
        let is_local = self.source == SourceKind::Dev && self.listen.ip().is_loopback();
        if self.api_keys.is_empty() && is_local {
            self.api_keys.push(ApiKey::default_dev());
        }
    }

    /// Whether chain id and genesis are given.
    fn names_chain(&self) -> bool {
        let has_genesis = self.trusted_blocks.iter().any(|(number, _)| *number == 0);
        let is_by_hash = self.chain_id.is_some() && has_genesis;
        self.network.is_some() || self.genesis.is_some() || is_by_hash
    }

    /// Checks the options of source node together.
    fn check_nodes(&self) -> Result<(), ConfigError> {
        let nodes = self.nodes.len();
        if nodes == 0 && self.fleet.stores.is_empty() {
            return Err(ConfigError::NoNode);
        }
        if nodes == 0 && !self.forward.is_empty() {
            return Err(ConfigError::NothingToForwardTo);
        }
        if let Cap::Of(quorum) = self.quorum
            && quorum > nodes
        {
            return Err(ConfigError::Quorum { quorum, nodes });
        }
        let mut trusted = self.trusted_blocks.clone();
        trusted.sort_unstable();
        let mut pairs = trusted.windows(2);
        if let Some(pair) = pairs.find(|pair| pair[0].0 == pair[1].0) {
            let (number, _) = pair[0];
            return Err(ConfigError::TrustedTwice { number });
        }
        let Some(network) = self.network else {
            return Ok(());
        };
        if let Some(chain_id) = self.chain_id.filter(|id| *id != network.chain_id()) {
            return Err(ConfigError::ChainId { network, chain_id });
        }
        match trusted.first() {
            Some(&(0, hash)) if hash != network.genesis_hash() => {
                Err(ConfigError::TrustedGenesis { network, hash })
            }
            _ => Ok(()),
        }
    }
}
