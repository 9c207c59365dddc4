//! The calls that run beside the task of a process.

use std::{panic::AssertUnwindSafe, time::Duration};

use alloy_primitives::Bytes;
use futures_util::FutureExt as _;
use nearhead_fleet::{
    position::Position,
    scripts::{Acquired, Appended, Renewed},
};
use tokio::task::JoinSet;

use crate::fleet::{below_window::BelowOutcome, node_follower::HeadCheck, store::StoreError};

/// What a call that ran beside the task came to.
pub(super) enum Answer {
    Acquired(Duration, Result<Acquired, StoreError>),
    Renewed(Duration, Result<Renewed, StoreError>),
    Appended(Position, Result<Appended, StoreError>),
    Entries(Result<Vec<(Position, Bytes)>, StoreError>),
    Checked(Result<HeadCheck, String>),
    Below(BelowOutcome),
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// To acquire or to renew the lease.
    Lease,
    Append,
    Read,
    /// To compare the head with a node's.
    Check,
    /// To write or to read what is below the window.
    Below,
}

impl CallKind {
    const COUNT: usize = Self::Below as usize + 1;
}

/// The calls that run, and which of them count.
#[derive(Default)]
pub(super) struct Calls {
    running: JoinSet<(CallKind, u64, Option<Answer>)>,
    /// The call in progress of each kind, by number.
    current: [Option<u64>; CallKind::COUNT],
    begun: u64,
}

impl Calls {
    /// Whether a call of this kind is in progress.
    pub(super) const fn is_running(&self, kind: CallKind) -> bool {
        self.current[kind as usize].is_some()
    }

    /// Begins a call.
    pub(super) fn begin(
        &mut self,
        kind: CallKind,
        call: impl Future<Output = Answer> + Send + 'static,
    ) {
        self.begun += 1;
        let number = self.begun;
        self.current[kind as usize] = Some(number);
        self.running.spawn(async move {
            let answer = AssertUnwindSafe(call).catch_unwind().await;
            (kind, number, answer.ok())
        });
    }

    /// Lets another call of this kind begin before the one in progress has ended.
    pub(super) const fn forget(&mut self, kind: CallKind) {
        self.current[kind as usize] = None;
    }

    /// Waits until a call ends, after which another one of its kind may begin. Returns its kind
    /// alone if it has panicked, and `None` if no call runs.
    pub(super) async fn next(&mut self) -> Option<Result<Answer, CallKind>> {
        // No call is aborted alone.
        let (kind, number, answer) = self.running.join_next().await?.ok()?;
        self.current[kind as usize].take_if(|current| *current == number);
        Some(answer.ok_or(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn entries() -> Answer {
        Answer::Entries(Ok(Vec::new()))
    }

    async fn defect() -> Answer {
        panic!("a defect")
    }

    #[actix::test]
    async fn a_call_may_begin_again_however_the_one_before_has_ended() {
        let mut calls = Calls::default();
        assert!(calls.next().await.is_none());
        calls.begin(CallKind::Read, defect());
        assert!(calls.is_running(CallKind::Read) && !calls.is_running(CallKind::Append));
        assert!(matches!(calls.next().await, Some(Err(CallKind::Read))));
        assert!(!calls.is_running(CallKind::Read));
        calls.begin(CallKind::Read, entries());
        assert!(matches!(calls.next().await, Some(Ok(Answer::Entries(_)))));
        assert!(!calls.is_running(CallKind::Read));
    }

    #[actix::test]
    async fn a_call_that_does_not_count_any_more_ends_no_other_one() {
        let mut calls = Calls::default();
        calls.begin(CallKind::Append, entries());
        calls.forget(CallKind::Append);
        assert!(!calls.is_running(CallKind::Append));
        calls.begin(CallKind::Append, std::future::pending());
        assert!(calls.next().await.is_some());
        assert!(calls.is_running(CallKind::Append));
    }
}
