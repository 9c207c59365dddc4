use alloy_primitives::B256;
use nearhead_chain::network::Network;

/// Why values that are valid one by one are not valid together. The message is one line and says
/// what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The source is `files` and one of its files is missing.
    #[error("--source files needs --{missing} FILE")]
    MissingFile {
        /// The option that is missing.
        missing: &'static str,
    },
    /// The source is `node` and no node is given.
    #[error("--source node needs --node URL")]
    NoNode,
    /// An option of a fleet is given without one.
    #[error("--{given} is given without a fleet: add --fleet URL")]
    NoFleet {
        /// The option.
        given: &'static str,
    },
    /// The source is another one than `node`.
    #[error("--fleet shares what is followed of a chain: it needs --source node")]
    FleetOfOtherSource,
    /// A fleet without its key.
    #[error("--fleet needs --fleet-key: give all its processes the same secret")]
    NoFleetKey,
    /// Several stores.
    #[error("several --fleet are sentinels: add --fleet-sentinel NAME, or give one")]
    NoSentinel,
    /// The chain of a fleet is not named.
    #[error(
        "--fleet needs the chain's genesis, so that no process of another chain joins: add --network, --genesis, or --chain-id and --trusted-block 0:HASH"
    )]
    FleetChain,
    /// More nodes would have to agree than there are.
    #[error(
        "--quorum {quorum} is more than the number of nodes, {nodes}: add --node URL, or lower --quorum"
    )]
    Quorum {
        /// How many would have to agree.
        quorum: usize,
        /// How many are given.
        nodes: usize,
    },
    /// The network has another chain id.
    #[error(
        "--chain-id {chain_id} contradicts --network {network}, whose chain id is {}: give one of them",
        network.chain_id()
    )]
    ChainId {
        /// The network.
        network: Network,
        /// The chain id that is given.
        chain_id: u64,
    },
    /// The network has another genesis.
    #[error(
        "--trusted-block 0:{hash} contradicts --network {network}, whose genesis is {}: give one of them",
        network.genesis_hash()
    )]
    TrustedGenesis {
        /// The network.
        network: Network,
        /// The hash that is given for block 0.
        hash: B256,
    },
    /// Two blocks with one number are trusted.
    #[error("--trusted-block gives two hashes for block {number}: give the right one")]
    TrustedTwice {
        /// The number.
        number: u64,
    },
    /// A header would be read from proxies alone, and there is none.
    #[error(
        "--admin-proxy-header is read in requests of trusted proxies alone: add --trusted-proxy"
    )]
    NoTrustedProxy,
    /// Only trusted proxies could connect, and there is none.
    #[error("with --proxy-protocol, only trusted proxies may connect: add --trusted-proxy")]
    NobodyConnects,
    /// TLS has a part of its files.
    #[error("TLS needs a certificate and its key: add --{missing} FILE")]
    NoTlsFile {
        /// The option that is missing.
        missing: &'static str,
    },
    /// Methods are to be passed to nodes, and there are none.
    #[error("--forward passes methods to nodes: it needs --source node")]
    NothingToForwardTo,
    /// Files or nodes are given, but the source would ignore them.
    #[error("--{given} is given, but the source is dev (the default): add --source {wanted}")]
    Unused {
        /// The option that would be ignored.
        given: &'static str,
        /// The source that it is for.
        wanted: &'static str,
    },
}
