//! A budget for the memory of bodies and messages while they are read and answered.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use nearhead_actors::{admission::FairLimit, share::Share};

use crate::limits::BODY_BYTES_PER_WORKER;

/// Bytes of large bodies and messages that one worker holds, which tenants share; cloning shares
/// the count.
///
/// The first chunk of a body is part of its connection's own buffer and is not counted.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    limit: Rc<RefCell<FairLimit>>,
    share: Share,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self {
            limit: Rc::new(RefCell::new(FairLimit::new(BODY_BYTES_PER_WORKER))),
            share: Share::default(),
        }
    }
}

/// A share of the budget, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: BodyBudget,
    bytes: usize,
}

/// The error of a charge that would exceed the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedUp {
    /// The time until there is room for it, as it was measured.
    pub(crate) retry_after: Duration,
}

impl BodyBudget {
    /// The same budget, for the bodies of this tenant.
    pub(crate) fn of(&self, share: Share) -> Self {
        Self {
            share,
            ..self.clone()
        }
    }

    /// An empty charge.
    pub(crate) fn open(&self) -> Charge {
        let budget = self.clone();
        Charge { budget, bytes: 0 }
    }

    /// Bytes in use.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.limit.borrow().used()
    }
}

impl Charge {
    /// Takes another `bytes` from the budget.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), UsedUp> {
        let BodyBudget { limit, share } = &self.budget;
        let taken = limit.borrow_mut().take(*share, bytes, Instant::now());
        taken.map_err(|retry_after| UsedUp { retry_after })?;
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
        if self.bytes > 0 {
            let BodyBudget { limit, share } = &self.budget;
            let now = Instant::now();
            limit.borrow_mut().give_back(*share, self.bytes, now);
        }
    }
}
