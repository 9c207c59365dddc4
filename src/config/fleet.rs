//! The options of a fleet: several processes that serve one chain behind one address.

use std::time::Duration;

use nearhead_actors::fleet::store::{StoreOptions, StoreUrl};

use super::{
    config_error::ConfigError,
    fleet_values::{FleetSecret, fleet_name, fleet_secret, fleet_urls},
    option_spec::{OptionRow, options},
    parse::duration,
    show::Show,
};
use crate::limits;

options! {
/// How processes behind one address serve one view of the chain.
pub struct FleetOptions {}
fn fleet_options;
"Fleet":
    /// The store of a fleet, Redis 7 or Valkey 8: processes that share one ingest. The one that
    /// leads follows its nodes, and the others read what it appends; a process without --node only
    /// reads. It needs source node. Several are the sentinels of --fleet-sentinel
    "fleet" stores: Vec<StoreUrl> = Vec::new(),
        "URL", "a URL such as redis://127.0.0.1:6379 or rediss://user:password@redis.example.org, at most 16 of them",
        fleet_urls, secret;
    /// The secret that all processes of a fleet have, and the store does not: what they write is
    /// authenticated with it. FILE is a file that has it
    "fleet-key" key: Option<FleetSecret> = None,
        "HEX|FILE", "at least 64 hex digits, or the path of a file that has them", fleet_secret, secret;
    /// What the names of a fleet's keys in the store begin with. Several fleets may share a store
    "fleet-prefix" prefix: Box<str> = "nearhead".into(),
        "PREFIX", "letters, digits, '-', '_', '.' and ':', at most 64 of them", fleet_name;
    /// The name of the master that the sentinels at --fleet watch
    "fleet-sentinel" sentinel: Option<Box<str>> = None,
        "NAME", "letters, digits, '-', '_', '.' and ':', at most 64 of them",
        |text| fleet_name(text).map(Some);
    /// How long a request waits for the block that its client has seen elsewhere, which it names in
    /// X-Nearhead-Min-Block or minBlock, before it is refused; 0 refuses it at once
    "min-block-wait" min_block_wait: Duration = limits::MIN_BLOCK_WAIT,
        "TIME", "a time from 0 to 10s, such as 500ms or 1s",
        |text| duration(text, Duration::ZERO, limits::MIN_BLOCK_WAIT_MAX);
}

impl FleetOptions {
    /// The store, for a process that holds its lease by the name `owner`.
    pub(crate) fn store(&self, owner: String) -> StoreOptions {
        StoreOptions {
            urls: self.stores.clone(),
            sentinel: self.sentinel.as_deref().map(str::to_owned),
            prefix: self.prefix.to_string(),
            owner,
        }
    }

    /// Checks the options together. `follows_nodes` says that the source is `node`, and
    /// `names_chain` that chain id and genesis are given.
    pub(super) fn check(&self, follows_nodes: bool, names_chain: bool) -> Result<(), ConfigError> {
        if self.stores.is_empty() {
            let given = [
                ("fleet-key", self.key.is_some()),
                ("fleet-sentinel", self.sentinel.is_some()),
            ];
            let given = given.into_iter().find(|(_, is_given)| *is_given);
            return given.map_or(Ok(()), |(given, _)| Err(ConfigError::NoFleet { given }));
        }
        if !follows_nodes {
            return Err(ConfigError::FleetOfOtherSource);
        }
        if self.key.is_none() {
            return Err(ConfigError::NoFleetKey);
        }
        if self.stores.len() > 1 && self.sentinel.is_none() {
            return Err(ConfigError::NoSentinel);
        }
        match names_chain {
            true => Ok(()),
            false => Err(ConfigError::FleetChain),
        }
    }
}
