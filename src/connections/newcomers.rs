//! Clients that have come lately, and wait for an answer.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// Counts the clients of one worker that came since the last [`Newcomers::begin`], and wait for an
/// answer or have asked nothing yet.
#[derive(Debug, Default)]
pub(crate) struct Newcomers(RefCell<Rc<Cell<usize>>>);

/// A client that was one of them when it came.
#[derive(Debug)]
pub(crate) struct Newcomer {
    /// Of those who came in the same time.
    waiting: Rc<Cell<usize>>,
    waits: Cell<bool>,
}

impl Newcomers {
    /// Forgets those who are there: only those who come from now on are counted.
    pub(crate) fn begin(&self) {
        self.0.replace(Rc::default());
    }

    /// One more, who has asked nothing yet.
    pub(crate) fn add(&self) -> Newcomer {
        let newcomer = Newcomer {
            waiting: Rc::clone(&self.0.borrow()),
            waits: Cell::new(false),
        };
        newcomer.set_waits(true);
        newcomer
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.0.borrow().get()
    }
}

impl Newcomer {
    /// It waits for an answer from now on, or no longer does.
    pub(super) fn set_waits(&self, waits: bool) {
        let waited = self.waits.replace(waits);
        self.waiting
            .update(|count| count + usize::from(waits) - usize::from(waited));
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.set_waits(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_have_come_since_are_counted_while_they_wait() {
        let newcomers = Newcomers::default();
        let [first, second] = [(); 2].map(|()| newcomers.add());
        assert_eq!(newcomers.waiting(), 2);
        for waits in [false, false, true, true] {
            first.set_waits(waits);
            assert_eq!(newcomers.waiting(), 1 + usize::from(waits));
        }
        drop(first);
        assert_eq!(newcomers.waiting(), 1);
        newcomers.begin();
        assert_eq!(newcomers.waiting(), 0);
        let third = newcomers.add();
        drop(second);
        assert_eq!(newcomers.waiting(), 1);
        drop(third);
        assert_eq!(newcomers.waiting(), 0);
    }
}
