//! The calls of the simulated follower.

/// A call in progress: when it was sent, and when its answer arrives, if ever.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) sent: u64,
    pub(super) arrives: Option<u64>,
}

/// How a call ended.
#[derive(PartialEq)]
pub(super) enum Ended {
    Answered,
    TimedOut,
}

impl Call {
    /// How it has ended by this step, if it has.
    pub(super) fn ended(self, step: u64, timeout: u64) -> Option<Ended> {
        if self.arrives.is_some_and(|at| at <= step) {
            return Some(Ended::Answered);
        }
        (step >= self.sent + timeout).then_some(Ended::TimedOut)
    }
}
