//! The rules of a chain (contract stub).
#![allow(clippy::todo, unused)]
use alloy_genesis::Genesis;

/// The rules of a chain: forks, blob schedule, deposit contract, chain id.
#[derive(Clone, Debug)]
pub struct ChainSpec {}

impl ChainSpec {
    /// Reads the rules from a genesis.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, SpecError> { todo!() }
    /// The chain id.
    #[must_use]
    pub fn chain_id(&self) -> u64 { todo!() }
}

/// Why a genesis cannot be followed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub String);
