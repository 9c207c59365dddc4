//! Everything that the kind of a chain decides, in one place.
//!
//! | file | what it decides |
//! |---|---|
//! | `transaction` | the table of all types, the envelope that blocks carry, its sender, its JSON in both directions |
//! | [`Receipt`] | a receipt, with the members that a transaction's type adds |
//! | `header` | the table of members: their JSON in both directions, and the fork that adds each |
//! | `execution` | the EVM and the executor of a block |
//! | `net_gas` | the SSTORE of Constantinople, which revm does not have |
//! | [`FeeRules`] | the next base fee and the price of blob gas, also where the genesis is unknown |
//! | [`ChainSpec`] | the rules of a chain, read from its genesis |
//! | `fork_config` | the configurations of a chain's forks (EIP-7910) |
//! | [`ServedChain`] | a chain, whose rules may not be known |
//! | [`Network`] | the networks whose rules are known without a genesis |
//! | `rules` | the rules of one block |
//!
//! A transaction type is a file below `transaction` and a line in its table; a header member is a
//! line in the table of `header`, one in `ADDED` there, and one in `FORK_MEMBERS` if only its
//! presence is checked.
//!
//! The files here read and write with [`crate::remote`]'s reader and [`crate::encode`]'s writer,
//! which are the same for every chain.

pub(crate) mod execution;
mod fee_rules;
mod fork_config;
pub(crate) mod header;
mod known;
mod net_gas;
pub(crate) mod receipt;
mod rules;
mod served_chain;
mod spec;
pub(crate) mod transaction;

pub use fee_rules::{FeeRules, HeaderFees};
pub use fork_config::GenesisFacts;
pub use known::Network;
pub use receipt::{Receipt, with_bloom};
pub use served_chain::ServedChain;
pub use spec::{ChainSpec, SpecError};
pub use transaction::{SenderSource, Transaction, TxType};

pub(crate) use net_gas::with_net_gas;
pub(crate) use rules::Rules;
