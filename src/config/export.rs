//! `nearhead export` as the command line gives it.

use std::path::PathBuf;

use clap::ArgMatches;
use nearhead_chain::dev::Profile;

use super::{Config, OPTIONS, command_error::CommandError, parse::whole, resolved::given_by};

/// Names of the options that `nearhead export` takes.
pub(super) const EXPORT_OPTIONS: [&str; 3] = ["seed", "profile", "block-time"];

/// `nearhead export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Path of genesis.json.
    pub(crate) genesis: PathBuf,
    /// Path of chain.rlp.
    pub(crate) chain: PathBuf,
    /// Number of blocks after the genesis.
    pub(crate) blocks: u64,
    /// Seed of the chain.
    pub(crate) seed: u64,
    /// Size of state and blocks.
    pub(crate) profile: Profile,
    /// Time between two blocks.
    pub(crate) block_time: std::time::Duration,
}

impl Export {
    /// Reads it from the command line; no other place gives its options.
    pub(super) fn read(matches: &ArgMatches) -> Result<Self, CommandError> {
        const ACCEPTS: &str = "a whole number from 1 to 1000000";
        let mut config = Config::default();
        for option in OPTIONS
            .iter()
            .filter(|option| EXPORT_OPTIONS.contains(&option.name))
        {
            if let Some(given) = given_by(option, matches, &|_| None, None)? {
                given.set(option, &mut config)?;
            }
        }
        let blocks = match matches.get_one::<String>("blocks") {
            None => 127,
            Some(text) => whole(std::slice::from_ref(text), 1, 1_000_000).ok_or_else(|| {
                CommandError::Value {
                    option: "--blocks".to_owned(),
                    value: format!("{text:?}"),
                    accepts: ACCEPTS,
                }
            })?,
        };
        let path = |name: &str| {
            matches
                .get_one::<PathBuf>(name)
                .cloned()
                .unwrap_or_default()
        };
        Ok(Self {
            genesis: path("genesis"),
            chain: path("chain"),
            blocks,
            seed: config.seed,
            profile: config.profile,
            block_time: config.block_time,
        })
    }
}
