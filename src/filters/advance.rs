//! A filter's move in the chain, which is taken back unless its answer is sent.

use std::{cell::RefCell, sync::Arc};

use nearhead_actors::fleet::store::FilterReturn;
use nearhead_chain::window::{Cursor, Snapshot};

use super::{
    error::StoreAway,
    filter::Filter,
    place::Place,
    stored_filters::{NotMoved, StoredFilter},
};

/// A move that was made for an answer. Unless it is kept, it is taken back when it is dropped, so
/// that the next question is answered with the same again.
#[derive(Debug)]
#[must_use = "a move that is dropped is taken back"]
pub(crate) struct Advance {
    filter: Arc<Filter>,
    before: Place,
    moved: Place,
    is_kept: bool,
}

impl Advance {
    /// Moves a filter from a place to this cursor of a snapshot; `None` if it is no longer there,
    /// because another answer has moved it. If this is dropped before it ends, the move is taken
    /// back.
    ///
    /// # Errors
    /// The store of the fleet does not answer. Nothing is moved, or it is taken back.
    pub(crate) async fn make(
        filter: &Arc<Filter>,
        before: &Place,
        to: Cursor,
        snapshot: &Snapshot,
    ) -> Result<Option<Self>, StoreAway> {
        match filter.stored() {
            None => Ok(Self::make_here(filter, before, to, snapshot)),
            // Boxed, so that the answers of a process alone do not carry the future's state.
            Some(stored) => Box::pin(Self::make_stored(filter, stored, before, to)).await,
        }
    }

    /// The same of a filter whose place this process has.
    pub(super) fn make_here(
        filter: &Arc<Filter>,
        before: &Place,
        to: Cursor,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let moved = filter.advance(before, to, snapshot)?;
        Some(Self {
            filter: Arc::clone(filter),
            before: before.clone(),
            moved,
            is_kept: false,
        })
    }

    async fn make_stored(
        filter: &Arc<Filter>,
        StoredFilter { name, store }: &StoredFilter,
        before: &Place,
        to: Cursor,
    ) -> Result<Option<Self>, StoreAway> {
        let moved = store.next_place(name, to)?;
        // From here on, it is taken back if nobody waits for it any more.
        let mut advance = Self {
            filter: Arc::clone(filter),
            before: before.clone(),
            moved,
            is_kept: false,
        };
        match store.advance(name, &advance.before, &advance.moved).await {
            Ok(true) => Ok(Some(advance)),
            Ok(false) => {
                advance.keep();
                Ok(None)
            }
            Err(NotMoved::Never) => {
                advance.keep();
                Err(StoreAway)
            }
            Err(NotMoved::Unknown) => {
                // The client may ask another process once it has the error.
                if let Some(back) = advance.take_back() {
                    back.made().await;
                }
                Err(StoreAway)
            }
        }
    }

    /// Keeps it: its answer is on its way.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Takes it back: at once, or in the store of the fleet, for which what is returned waits.
    fn take_back(&mut self) -> Option<FilterReturn> {
        if std::mem::replace(&mut self.is_kept, true) {
            return None;
        }
        match self.filter.stored() {
            None => {
                self.filter.take_back(&self.moved, &self.before);
                None
            }
            Some(StoredFilter { name, store }) => store.take_back(name, &self.moved, &self.before),
        }
    }
}

impl Drop for Advance {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

/// The moves that were made for the answers to one request, in their order.
#[derive(Debug, Default)]
pub(crate) struct Advances(RefCell<Vec<Advance>>);

impl Advances {
    /// Adds a move.
    pub(crate) fn push(&self, advance: Advance) {
        self.0.borrow_mut().push(advance);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Takes back all but the first `len`, the newest first: a batch may have moved one filter
    /// several times. In a fleet, it waits for the store, but not for long.
    pub(crate) async fn take_back(&self, len: usize) {
        let returns = self.begin_returns(len);
        if !returns.is_empty() {
            // Boxed, as above.
            let made = async {
                for back in returns {
                    back.made().await;
                }
            };
            Box::pin(made).await;
        }
    }

    fn begin_returns(&self, len: usize) -> Vec<FilterReturn> {
        let mut returns = Vec::new();
        while self.len() > len {
            let last = self.0.borrow_mut().pop();
            returns.extend(last.and_then(|mut last| last.take_back()));
        }
        returns
    }

    /// Keeps all of them.
    pub(crate) fn keep(&self) {
        self.0.take().into_iter().for_each(Advance::keep);
    }
}

impl Drop for Advances {
    fn drop(&mut self) {
        drop(self.begin_returns(0));
    }
}
