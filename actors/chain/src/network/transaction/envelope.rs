//! The envelope that blocks carry.

use alloy_consensus::{EthereumTxEnvelope, TxEip4844};

/// A transaction as a block carries it: blob transactions without their sidecars.
pub type Transaction = EthereumTxEnvelope<TxEip4844>;
