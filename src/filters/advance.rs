//! A filter's move in the chain, which is taken back unless its answer is sent.

use std::{cell::RefCell, sync::Arc};

use nearhead_chain::window::{Cursor, Snapshot};

use super::filter::{Filter, Place};

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
    /// because another answer has moved it.
    pub(crate) fn make(
        filter: &Arc<Filter>,
        before: Place,
        to: Cursor,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let moved = filter.advance(&before, to, snapshot)?;
        Some(Self {
            filter: Arc::clone(filter),
            before,
            moved,
            is_kept: false,
        })
    }

    /// Keeps it: its answer is on its way.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Advance {
    fn drop(&mut self) {
        if !self.is_kept {
            self.filter.take_back(&self.moved, self.before);
        }
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
    /// several times.
    pub(crate) fn take_back(&self, len: usize) {
        while self.len() > len {
            let last = self.0.borrow_mut().pop();
            drop(last);
        }
    }

    /// Keeps all of them.
    pub(crate) fn keep(&self) {
        self.0.take().into_iter().for_each(Advance::keep);
    }
}

impl Drop for Advances {
    fn drop(&mut self) {
        self.take_back(0);
    }
}
