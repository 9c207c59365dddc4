//! A deterministic chain made here, for development and measurement.
//!
//! All forks are active from the genesis on. Every block is a function of the configuration, its
//! number and the fork branch that it is on; every transaction is validly signed. What the blocks
//! hold: `traffic`; what is called: [`contracts`]; how large everything is: [`Profile`].

mod assembler;
mod contracts;
mod genesis;
mod population;
mod producer;
mod profile;
mod random;
mod signer;
mod traffic;
mod unsigned;

pub use assembler::AssembleError;
pub use contracts::STORE as STORE_CONTRACT;
pub use genesis::{CHAIN_ID, DevGenesis};
pub use producer::{DevConfig, DevError, DevStep, Producer, REORG_DEPTH_MAX};
pub use profile::Profile;

#[cfg(test)]
mod tests;
