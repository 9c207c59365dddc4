//! The chain that a window is of.

use std::sync::Arc;

use super::ChainSpec;

/// A chain: its id, and its rules if they are known.
#[derive(Clone, Debug)]
pub struct ServedChain {
    /// The chain id (EIP-155).
    pub id: u64,
    /// `None` if the chain is followed without a genesis file, and is no known network.
    pub spec: Option<Arc<ChainSpec>>,
}

impl From<ChainSpec> for ServedChain {
    fn from(spec: ChainSpec) -> Self {
        Self {
            id: spec.chain_id(),
            spec: Some(Arc::new(spec)),
        }
    }
}

/// A chain whose rules are not known.
impl From<u64> for ServedChain {
    fn from(id: u64) -> Self {
        Self { id, spec: None }
    }
}
