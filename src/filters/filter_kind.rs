//! What a filter is for.

use std::sync::Arc;

use nearhead_chain::log_search::LogFilter;

use crate::rpc::log_query::LogBlocks;

/// What a filter is for.
#[derive(Clone, Debug)]
pub(crate) enum FilterKind {
    /// Hashes of new canonical blocks.
    Blocks,
    /// Logs of some blocks, and those that were removed.
    Logs {
        /// The blocks.
        blocks: LogBlocks,
        /// The logs.
        filter: Arc<LogFilter>,
    },
}

impl FilterKind {
    /// Addresses and topics that it has.
    pub(super) fn value_count(&self) -> usize {
        match self {
            Self::Blocks => 0,
            Self::Logs { filter, .. } => filter.value_count(),
        }
    }
}
