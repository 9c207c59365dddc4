//! State that other processes hold too.

use std::fmt;

use alloy_primitives::B256;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use nearhead_chain::trie::NodeStore;

use super::block_ref::BlockRef;
use crate::{
    messages::{QueryError, Reply},
    saved::WantedState,
};

/// Trie nodes, codes and access lists that the processes of a fleet share, so that each is asked of
/// a node once.
pub(crate) trait SharedState: fmt::Debug + Send + Sync {
    /// Stores what is wanted and the block's state lacks, if another process has it or gets it.
    fn get<'a>(&'a self, block: &'a BlockRef, wanted: Vec<WantedState>) -> BoxFuture<'a, Got>;

    /// Lets others ask their nodes for what is wanted, because this process' nodes did not give it.
    fn give_back<'a>(&'a self, block: &'a BlockRef, wanted: &'a [WantedState])
    -> BoxFuture<'a, ()>;

    /// Gives others the nodes and codes that the store has gained since the last time.
    fn give<'a>(&'a self, store: &'a NodeStore) -> BoxFuture<'a, ()>;

    /// The access list of a block that has this hash, as JSON, if another process has it or gets
    /// it. It is verified.
    fn get_list<'a>(&'a self, block: &'a BlockRef, hash: B256) -> BoxFuture<'a, Got<Bytes>>;

    /// Lets others ask their nodes for a list, because this process' nodes did not give it.
    fn give_back_list(&self, hash: B256) -> BoxFuture<'_, ()>;

    /// Gives others an access list in its RLP, which has this hash.
    fn give_list(&self, hash: B256, rlp: Bytes) -> BoxFuture<'_, ()>;
}

/// What came of asking other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got<T = ()> {
    /// All that is wanted was there.
    Held(T),
    /// Nobody has it, and it is this process' turn to ask its nodes.
    AskNodes,
    /// Others have asked their nodes in vain, and this process has none.
    StateUnavailable,
    /// Nobody has it now, and this process has no nodes.
    Nothing,
}

impl<T> Got<T> {
    /// The same of another value.
    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Got<U> {
        match self {
            Self::Held(value) => Got::Held(map(value)),
            Self::AskNodes => Got::AskNodes,
            Self::StateUnavailable => Got::StateUnavailable,
            Self::Nothing => Got::Nothing,
        }
    }

    /// What was there; `None` if this process has to ask its nodes.
    ///
    /// # Errors
    /// It has no nodes.
    pub(super) fn held(self) -> Reply<Option<T>> {
        match self {
            Self::Held(value) => Ok(Some(value)),
            Self::AskNodes => Ok(None),
            Self::StateUnavailable => Err(QueryError::StateUnavailable),
            Self::Nothing => Err(QueryError::Unavailable),
        }
    }
}
