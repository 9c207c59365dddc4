//! State that other processes hold too.

use std::fmt;

use futures_util::future::BoxFuture;
use nearhead_chain::trie::NodeStore;

use super::block_ref::BlockRef;
use crate::saved::WantedState;

/// Trie nodes and codes that the processes of a fleet share, so that each is asked of a node once.
pub(crate) trait SharedState: fmt::Debug + Send + Sync {
    /// Stores what is wanted and the block's state lacks, if another process has it or gets it.
    fn get<'a>(&'a self, block: &'a BlockRef, wanted: Vec<WantedState>) -> BoxFuture<'a, Got>;

    /// Lets others ask their nodes for what is wanted, because this process' nodes did not give it.
    fn give_back<'a>(&'a self, block: &'a BlockRef, wanted: &'a [WantedState])
    -> BoxFuture<'a, ()>;

    /// Gives others the nodes and codes that the store has gained since the last time.
    fn give<'a>(&'a self, store: &'a NodeStore) -> BoxFuture<'a, ()>;
}

/// What came of asking other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// All that is wanted was there.
    Held,
    /// Nobody has it, and it is this process' turn to ask its nodes.
    AskNodes,
    /// Others have asked their nodes in vain, and this process has none.
    StateUnavailable,
    /// Nobody has it now, and this process has no nodes.
    Nothing,
}
