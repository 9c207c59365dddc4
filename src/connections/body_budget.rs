//! A budget for the memory of bodies and messages while they are read and answered.

use std::{cell::Cell, rc::Rc};

use crate::limits::BODY_BYTES_PER_WORKER;

/// Bytes of large bodies and messages that one worker holds; cloning shares the count.
///
/// The first chunk of a body is part of its connection's own buffer and is not counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyBudget(Rc<Cell<usize>>);

/// A share of the budget, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: BodyBudget,
    bytes: usize,
}

/// The error of a charge that would exceed the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedUp;

impl BodyBudget {
    /// An empty charge.
    pub(crate) fn open(&self) -> Charge {
        let budget = self.clone();
        Charge { budget, bytes: 0 }
    }

    /// Bytes in use.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.0.get()
    }
}

impl Charge {
    /// Takes another `bytes` from the budget.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), UsedUp> {
        let held = self.budget.0.get() + bytes;
        if held > BODY_BYTES_PER_WORKER {
            return Err(UsedUp);
        }
        self.budget.0.set(held);
        self.bytes += bytes;
        Ok(())
    }

    /// Bytes of this charge.
    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The budget that this charge is part of.
    pub(crate) fn budget(&self) -> BodyBudget {
        self.budget.clone()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.set(self.budget.0.get() - self.bytes);
    }
}
