//! A deterministic chain for development and measurement.
//!
//! All forks are active from the genesis on. A block is a function of the configuration, its number
//! and its fork branch; every transaction is validly signed. `traffic` decides what blocks contain,
//! `contracts` has the contracts that they call, and [`Profile`] says how large everything is.

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
pub use producer::{DevConfig, DevError, DevStep, Producer};
pub use profile::Profile;

#[cfg(test)]
mod tests;
